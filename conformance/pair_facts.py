"""What is compared of two targets after each action: first what they answered, then what they show, as closely as a
level of strictness asks.

`decisions`: who is admitted, with how long a hit, and what is scheduled and told. `counts`: also how many blocks that
takes. `identity`: also which blocks, in which order, under which keys.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from slotproof.conformance.adapter import Profile, Strictness
from slotproof.conformance.engine import Engine
from slotproof.conformance.scheduler_adapter import (
    Continued,
    EngineConfig,
    Entered,
    KvEvent,
    NewRequest,
    Output,
    Plan,
    SchedulerAdapter,
    StepResult,
    View,
)
from slotproof.conformance.session import Session
from slotproof.spec.pool import NO_KEY
from slotproof.spec.transition import Allocated, Event, LookedUp, Reset, held_tables

Answer = TypeVar("Answer")

Fact = tuple[str, Any]
"""The name of a part, and what a target has there."""


# Allocators.


def allocator_facts(
    session: Session, level: Strictness, profile: Profile, facets: frozenset[str], names: dict[int, int]
) -> list[Fact]:
    """What came of an action. `facets` are the parts that both targets show; `names` are those that keys have got."""
    facts: list[Fact] = [("answer", words) for event in session.answers for words in answer_words(event, level)]
    pool, tables = session.snapshot.pool, held_tables(session.snapshot)
    if level >= Strictness.COUNTS:
        lengths = {name: [len(entries) for entries in rows] for name, rows in tables.items()}
        facts += [("number of free blocks", pool.num_free())] if profile.free_counts_cached else []
        facts += [("table lengths", lengths)]
    if level >= Strictness.IDENTITY:
        shown = {
            "queue": ("free queue", pool.queue),
            "refs": ("reference counts", pool.refs[1:]),
            "keys": ("keys", keys_of(session, names)),
            "counters": ("cached counters", counters_of(session)),
        }
        facts += [("block tables", tables), *(fact for facet, fact in shown.items() if facet in facets)]
    return facts


def answer_words(event: Event, level: Strictness) -> Iterator[str]:
    """An answer as far as it is compared."""
    blocks = level == Strictness.IDENTITY
    if isinstance(event, LookedUp) and event.hit.num_tokens:
        yield f"hit of {event.hit.num_tokens} tokens" + (f" on blocks {event.hit.blocks}" if blocks else "")
    elif isinstance(event, Allocated) and event.answer is None:
        yield "refused"
    elif isinstance(event, Allocated) and event.answer is not None:
        popped = f"new blocks {event.answer}" if blocks else f"{sum(map(len, event.answer))} new blocks"
        hit = f" behind a hit of {event.call.hit.num_tokens} tokens" if event.call.hit.num_tokens else ""
        yield ("admitted" if level < Strictness.COUNTS else popped) + hit
    elif isinstance(event, Reset):
        yield "cache emptied" if event.succeeded else "cache not emptied"


def keys_of(session: Session, names: dict[int, int]) -> dict[int, str]:
    """The key of each keyed block, named in the order in which keys appear."""
    keys = session.snapshot.pool.keys
    return {
        block: f"k{names.setdefault(key, len(names) + 1)}" for block, key in enumerate(keys) if block and key != NO_KEY
    }


def counters_of(session: Session) -> dict[str, tuple[int, ...]]:
    """The cached counters of the requests that have any."""
    holdings = session.snapshot.holdings
    return {name: holding.cached for name, holding in holdings.items() if any(holding.cached)}


# Schedulers.


class Recorder:
    """A scheduler that remembers what it has answered since it was last asked."""

    def __init__(self, adapter: SchedulerAdapter) -> None:
        self.profile = adapter.profile
        self._adapter = adapter
        self._answers: list[tuple[str, Any]] = []

    def taken(self) -> list[tuple[str, Any]]:
        """The answers, oldest first; they are forgotten."""
        answers, self._answers = self._answers, []
        return answers

    def reset(self, config: EngineConfig) -> None:
        """Passed on; forgets everything."""
        self._answers.clear()
        self._adapter.reset(config)

    def add_request(self, request: NewRequest) -> None:
        """Passed on."""
        self._asked("add_request", lambda: self._adapter.add_request(request))

    def add_input(self, request_id: str, tokens: Sequence[int], max_tokens: int) -> None:
        """Passed on."""
        self._asked("add_input", lambda: self._adapter.add_input(request_id, tokens, max_tokens))

    def abort(self, request_id: str) -> None:
        """Passed on."""
        self._asked("abort", lambda: self._adapter.abort(request_id))

    def schedule(self) -> Plan:
        """Passed on."""
        return self._asked("schedule", self._adapter.schedule)

    def update(self, number: int, result: StepResult) -> Sequence[Output]:
        """Passed on."""
        return self._asked("update", lambda: self._adapter.update(number, result))

    def propose_drafts(self, drafts: Mapping[str, Sequence[int]]) -> None:
        """Passed on."""
        self._asked("propose_drafts", lambda: self._adapter.propose_drafts(drafts))

    def reset_prefix_cache(self, preempt_running: bool) -> bool:
        """Passed on."""
        return self._asked("reset_prefix_cache", lambda: self._adapter.reset_prefix_cache(preempt_running))

    def look(self) -> View:
        """Passed on; what is shown is compared after the action."""
        return self._adapter.look()

    def take_events(self) -> Sequence[KvEvent]:
        """Passed on."""
        return self._asked("take_events", self._adapter.take_events)

    def _asked(self, call: str, ask: Callable[[], Answer]) -> Answer:
        try:
            answer = ask()
        except Exception as error:
            self._answers.append(("exception", f"{call}: {error}"))
            raise
        self._answers.append((call, answer))
        return answer


def scheduler_facts(recorder: Recorder, engine: Engine, level: Strictness) -> list[Fact]:
    """What came of an action: each answer, then the state."""
    facts = [fact for call, answer in recorder.taken() for fact in answer_facts(call, answer, level)]
    return [*facts, *view_facts(engine.view, level)]


def answer_facts(call: str, answer: Any, level: Strictness) -> Iterator[Fact]:
    """One answer of a scheduler as far as it is compared."""
    if call == "exception":
        yield "exception", answer
    elif call == "schedule":
        yield from plan_facts(answer, level)
    elif call == "update":
        yield "output", sorted(plain(answer))
    elif call == "reset_prefix_cache":
        yield "cache reset", answer
    elif call == "take_events" and level == Strictness.IDENTITY:
        yield "KV events", sorted(plain(answer))


def plan_facts(plan: Plan, level: Strictness) -> Iterator[Fact]:
    """A step: tokens and drafts, where each request stands, what is loaded; then through which blocks."""
    yield "scheduled tokens", dict(plan.scheduled)
    yield "scheduled drafts", {name: list(drafts) for name, drafts in plan.drafts.items() if drafts}
    rows: list[Entered | Continued] = [*plan.entered, *plan.continued]
    yield "computed tokens of the scheduled", {row.request_id: row.num_computed_tokens for row in rows}
    yield "loads", sorted((order.request_id, order.start, order.end, order.asynchronous) for order in plan.loads)
    if level == Strictness.IDENTITY:
        yield "blocks of new requests", {row.request_id: plain(row.tables) for row in plan.entered}
        yield "blocks of running requests", {row.request_id: plain(row.new_blocks) for row in plan.continued}
        yield "finished requests the worker is told", sorted(plan.finished)


def view_facts(view: View, level: Strictness) -> Iterator[Fact]:
    """The state of a scheduler as far as it is compared."""
    yield "running requests", list(view.running)
    yield "waiting requests", list(view.waiting)
    yield "requests", {name: (state.status, state.num_computed_tokens) for name, state in view.requests.items()}
    if level >= Strictness.COUNTS:
        yield "number of free blocks", view.num_free
        yield "table lengths", {name: [len(table) for table in tables] for name, tables in view.tables.items()}
    if level == Strictness.IDENTITY:
        yield "block tables", {name: plain(tables) for name, tables in view.tables.items()}
        yield "free queue", list(view.queue)
        yield "reference counts", list(view.refs)
        yield "keys", sorted(plain(view.keyed))
        yield "deferred frees", plain(view.deferred)


def plain(value: Any) -> Any:
    """The same whether it has crossed processes or not."""
    return tuple(plain(part) for part in value) if isinstance(value, list | tuple) else value

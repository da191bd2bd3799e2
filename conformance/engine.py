"""One scheduler under test: the engine core around it, its simulated worker, its clients, and the laws.

Steps are made in the order of vLLM's engine core: schedule, execute, process; or, asynchronously, with a batch queue of
two, where a step is planned while the one before is in flight.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from slotproof.conformance.deviations import Deviation
from slotproof.conformance.errors import SetupError
from slotproof.conformance.scheduler_adapter import (
    EngineConfig,
    NewRequest,
    Output,
    Plan,
    SchedulerAdapter,
    StepResult,
    View,
)
from slotproof.conformance.scheduler_laws import (
    LAW_IDS,
    History,
    event_objections,
    poison_objections,
    pool_objections,
    preempted,
    reported,
    step_objections,
)
from slotproof.conformance.session import Tally
from slotproof.conformance.violation import EpisodeOver, Violation
from slotproof.conformance.worker import Behaviour, Executed, Objection, Worker

Answer = TypeVar("Answer")

IDLE_STEPS = 25
"""So many steps without a token, an output or a change of any request are a standstill."""

DRAIN_STEPS = 1500
"""Far more than the few requests of an episode need."""


@dataclass(slots=True)
class Client:
    """What a client knows of its request: the tokens so far, and what it still has to say."""

    request: NewRequest
    behaviour: Behaviour
    tokens: list[int]
    told: int = 0
    max_tokens: int = 0
    inputs: deque[tuple[tuple[int, ...], int]] = field(default_factory=deque)
    ended: str = ""
    paused: bool = False
    closing: bool = False

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return not self.ended


class Engine:
    """The calls of one episode.

    Raises Violation when a law objects, EpisodeOver when a known deviation showed.
    """

    def __init__(
        self,
        adapter: SchedulerAdapter,
        config: EngineConfig,
        tally: Tally,
        *,
        law_ids: Sequence[str] = (),
        deviations: Sequence[Deviation] = (),
    ) -> None:
        self.adapter = adapter
        self.config = config
        self.tally = tally
        self.clients: dict[str, Client] = {}
        self.answers: list[str] = []
        self._selected = frozenset(law_ids)
        self._deviations = deviations
        self._behaviours: dict[str, Behaviour] = {}
        self._worker = Worker(config, self._behaviours)
        self._in_flight: deque[Executed] = deque()
        self._history = History()
        self._sends: dict[str, int] = {}
        self._last_step = 0
        adapter.reset(config)
        self.view = adapter.look()

    @property
    def live(self) -> list[Client]:
        """Clients whose request has not ended, in the order of their arrival."""
        return [client for client in self.clients.values() if client.live]

    @property
    def steps_in_flight(self) -> int:
        """Steps whose output was not processed yet."""
        return len(self._in_flight)

    # What clients do.

    def add(self, request: NewRequest, behaviour: Behaviour) -> None:
        """A new request."""
        client = Client(request, behaviour, list(request.prompt), max_tokens=request.max_tokens)
        self.clients[request.request_id] = client
        self._behaviours[request.request_id] = behaviour
        self._call(lambda: self.adapter.add_request(request))
        self._look()

    def add_input(self, client: Client, tokens: tuple[int, ...], max_tokens: int) -> None:
        """More input for a session; no tokens end it."""
        name = client.request.request_id
        if client.paused:
            self._turn(client, tokens, max_tokens)
        else:
            client.inputs.append((tokens, max_tokens))
        client.closing |= not tokens
        self._call(lambda: self.adapter.add_input(name, tokens, max_tokens))
        self._look()

    def abort(self, client: Client) -> None:
        """A client goes away."""
        client.ended = "ABORT"
        self._call(lambda: self.adapter.abort(client.request.request_id))
        self.reach("abort in flight" if self._in_flight else "abort")
        self._look()

    def reset(self, preempt_running: bool) -> None:
        """Empty the prefix cache. With a load under way the call may end in an error, which is an answer too."""
        try:
            succeeded = self.adapter.reset_prefix_cache(preempt_running)
        except SetupError:
            raise
        except Exception as error:
            if "Failed to reset KV cache" not in str(error):
                self._crash(error)
            succeeded = False
        kind = "reset with running" if preempt_running and self.view.running else "reset"
        self.reach(kind if succeeded else "reset refused")
        self.answers.append(str(succeeded))
        self._look()

    # Steps.

    def step(self, abort: Client | None = None) -> None:
        """One turn of the engine's loop; `abort` goes away while the step runs."""
        planned = executed = False
        if self.view.has_work:
            planned, executed = True, self._plan()
        elif not self._in_flight:
            self.answers.append("nothing to do")
            return
        if planned and len(self._in_flight) < self.config.batches and (executed or self.view.has_work):
            return
        if abort is not None and abort.live:
            self.abort(abort)
        if self._in_flight:
            self._process(self._in_flight.popleft())

    def drain(self) -> None:
        """Nothing new comes: sessions are closed, and everything must end."""
        for client in self.live:
            if client.request.resumable and not client.closing:
                self.add_input(client, (), 1)
        quiet, before = 0, self._progress()
        for _ in range(DRAIN_STEPS):
            if not self.view.has_work and not self._in_flight:
                break
            self.step()
            after = self._progress()
            quiet = quiet + 1 if after == before and not self._worker.loading and not self._sends else 0
            before = after
            if quiet > IDLE_STEPS:
                break
        self.answers.clear()
        self._judge(list(self._standstill()), ("SCHED-5", "LEAK-1"))

    def _progress(self) -> object:
        clients = [(client.told, client.ended, len(client.inputs)) for client in self.clients.values()]
        return clients, sorted(self.view.requests.items())

    def _standstill(self) -> Iterable[Objection]:
        unfinished = [client.request.request_id for client in self.live]
        if unfinished:
            states = {self.view.requests[name].status if name in self.view.requests else "gone" for name in unfinished}
            blocks = f"{self.view.num_free} blocks are" if self.view.num_free else "no block is"
            text = f"nothing moves any more, {blocks} free: {' and '.join(sorted(states))} ({', '.join(unfinished)})"
            yield Objection("SCHED-5", text)
        elif self.view.num_free != self.config.pool.usable_blocks:
            text = (
                f"all requests have ended and {self.view.num_free} of {self.config.pool.usable_blocks} blocks are free"
            )
            yield Objection("LEAK-1", text)

    def _plan(self) -> bool:
        before = self.view
        plan = self._call(self.adapter.schedule)
        after = self._call(self.adapter.look)
        live = [name for name in after.running if name in self.clients]
        done = self._worker.execute(plan, list(self._in_flight), live)
        self._in_flight.append(done)
        self.view = after
        self._count(plan, before, after, done)
        self.answers.append(plan_words(plan, preempted(before, after)))
        objections = list(step_objections(self.config, plan, before, after, done, self._history))
        self._judge([*objections, *self._lasting(after)], LAW_IDS)
        return bool(plan.scheduled)

    def _process(self, done: Executed) -> None:
        for name, due in list(self._sends.items()):
            if done.number >= due:
                del self._sends[name]
        sent = [name for name in self._finished_sending() if name not in self._sends]
        result = StepResult(done.sampled, done.received, sent, sorted(done.invalid_blocks), done.failed)
        outputs = self._call(lambda: self.adapter.update(done.number, result))
        objections = [one for output in outputs for one in self._told(output)]
        if self.config.num_drafts and not self.config.asynchronous:
            self._call(lambda: self.adapter.propose_drafts(done.drafts))
        self._history.replay(list(self._call(self.adapter.take_events)))
        self._look()
        self._judge([*objections, *event_objections(self.view, self._history)], ("MEM-1", "EVENT-1"))

    def _finished_sending(self) -> list[str]:
        """Ended requests that still hold blocks because the connector sends them."""
        return [
            name
            for name, client in self.clients.items()
            if client.request.sends and client.ended in ("LENGTH", "STOP") and name in self.view.requests
        ]

    def _told(self, output: Output) -> Iterable[Objection]:
        """A client hears of its request: the tokens must be those it would get alone."""
        client = self.clients[output.request_id]
        for token in output.tokens:
            due = client.behaviour.next_token(client.tokens)
            if token != due:
                text = f"{output.request_id} is told {token} after {client.tokens}, alone it is told {due}"
                yield Objection("MEM-1", text)
            client.tokens.append(token)
            client.told += 1
        if client.ended and output.tokens:
            yield Objection("MEM-1", f"{output.request_id} ended with {client.ended} and is told {list(output.tokens)}")
        if client.told > client.max_tokens:
            text = f"{output.request_id} is told {client.told} tokens, {client.max_tokens} were asked for"
            yield Objection("MEM-1", text)
        if output.finish_reason:
            self._finished(client, output)

    def _finished(self, client: Client, output: Output) -> None:
        name = output.request_id
        if client.request.resumable and output.finish_reason in ("LENGTH", "STOP") and output.tokens:
            client.paused = True
            if client.inputs:
                self._turn(client, *client.inputs.popleft())
            return
        client.ended = output.finish_reason
        self.reach(f"ended: {output.finish_reason.lower()}")
        if client.request.sends and output.finish_reason in ("LENGTH", "STOP"):
            self._sends[name] = self._last_step + client.behaviour.latency

    def _turn(self, client: Client, tokens: tuple[int, ...], max_tokens: int) -> None:
        """A session goes on: its last token was never computed and is dropped."""
        client.paused = False
        if not tokens:
            client.ended = "STOP"
            return
        client.tokens = [*client.tokens[:-1], *tokens]
        client.told, client.max_tokens = 0, max_tokens
        self.reach("session goes on")

    # Judgement.

    def _look(self) -> None:
        self.view = self._call(self.adapter.look)
        self._judge(list(self._lasting(self.view)), ("POOL-1", "POOL-2", "POOL-3", "POOL-4", "LEAK-1", "SCHED-4"))

    def _lasting(self, view: View) -> Iterable[Objection]:
        """What must hold between any two calls."""
        yield from pool_objections(self.config, view)
        yield from poison_objections(view, self._worker.memory, self._worker.unsettled(self._in_flight))

    def _judge(self, objections: list[Objection], law_ids: Sequence[str]) -> None:
        for law_id in law_ids:
            if not self._selected or law_id in self._selected:
                self.tally.checks[law_id] += 1
        found = [one for one in reported(objections) if not self._selected or one.law_id in self._selected]
        if not found:
            return
        unknown = [one for one in found if not self._known(one)]
        if not unknown:
            raise EpisodeOver
        first, *others = unknown
        raise Violation(
            first.law_id, first.text, "no objection", first.text, tuple((one.law_id, one.text) for one in others)
        )

    def _known(self, objection: Objection) -> bool:
        for deviation in self._deviations:
            if deviation.covers(objection.law_id, objection.text):
                self.tally.deviations[deviation.id] += 1
                return True
        return False

    def _call(self, call: Callable[[], Answer]) -> Answer:
        try:
            return call()
        except SetupError:
            raise
        except Exception as error:
            self._crash(error)

    def _crash(self, error: Exception) -> NoReturn:
        text = f"the scheduler raised {type(error).__name__}: {error}"
        self._judge([Objection("SCHED-5", text)], ("SCHED-5",))
        raise EpisodeOver

    # Reach.

    def reach(self, situation: str, times: int = 1) -> None:
        """Count a situation, apart by mode and policy."""
        if times:
            mode = "async" if self.config.asynchronous else "sync"
            self.tally.situations[situation, mode, self.config.policy] += times

    def _count(self, plan: Plan, before: View, after: View, done: Executed) -> None:
        self._last_step = plan.number
        victims = preempted(before, after)
        self.reach("step")
        self.reach("preemption", len(victims))
        self.reach("resumed", sum(row.resumed for row in plan.continued))
        self.reach("draft accepted", done.accepted_drafts)
        self.reach("draft rejected", done.rejected_drafts)
        self.reach("step planned while one is in flight", len(self._in_flight) > 1)
        self.reach("load in the step", sum(not order.asynchronous for order in plan.loads))
        self.reach("load beside the steps", sum(order.asynchronous for order in plan.loads))
        self.reach("load failed", len(done.failed))
        self.reach("deferred free waits", len(after.deferred) > 0)
        self.reach("chunk of a prompt", sum(not sampled for sampled in done.sampled.values()))
        self.reach("head of the queue refused", bool(after.waiting) and not after.requests[after.waiting[0]].blocked)
        hits = [row for row in plan.entered if row.num_computed_tokens and row.request_id not in before.running]
        loaded = {order.request_id for order in plan.loads}
        self.reach("admitted with a hit", sum(row.request_id not in loaded for row in hits))


def plan_words(plan: Plan, victims: Sequence[str]) -> str:
    """A step in a few words."""
    words = [f"{name}+{count}{draft_words(plan.drafts, name)}" for name, count in plan.scheduled.items()]
    words += [f"{victim} preempted" for victim in victims]
    words += [f"load {order.request_id} {order.start}..{order.end - 1}" for order in plan.loads]
    return ", ".join(words) or "nothing scheduled"


def draft_words(drafts: Mapping[str, Any], name: str) -> str:
    """How many of a request's tokens are drafts."""
    count = len(drafts.get(name, ()))
    return f" ({count} draft{'' if count == 1 else 's'})" if count else ""

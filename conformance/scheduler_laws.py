"""The laws a scheduler is held to, judged on what it shows."""

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from slotproof.conformance.observation import SeenPool
from slotproof.conformance.scheduler_adapter import EngineConfig, KvEvent, Plan, View
from slotproof.conformance.worker import Executed, Memory, Objection
from slotproof.spec.laws import LAWS
from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.snapshot import Holding, Snapshot, Table
from slotproof.spec.transition import Returned, Transition

LAW_IDS = (
    "POOL-1",
    "POOL-2",
    "POOL-3",
    "POOL-4",
    "LEAK-1",
    "EVENT-1",
    "MEM-1",
    "MEM-3",
    "SCHED-1",
    "SCHED-2",
    "SCHED-3",
    "SCHED-4",
    "SCHED-5",
    "SCHED-6",
)
"""In the order in which a broken one is reported."""

MOST_OVERTAKINGS = 8
"""How often a request that only lacks blocks may see later ones pass it."""


@dataclass(slots=True)
class History:
    """What laws that span several steps remember."""

    overtaken: Counter[str] = field(default_factory=Counter)
    replayed: Counter[tuple[int, tuple[int, ...]]] = field(default_factory=Counter)

    def replay(self, events: list[KvEvent]) -> None:
        """Count events into the index they describe."""
        for event in events:
            if event.verb == "cleared":
                self.replayed.clear()
            else:
                self.replayed[event.group, tuple(event.prefix)] += 1 if event.verb == "stored" else -1


def snapshot_of(config: EngineConfig, view: View) -> Snapshot:
    """What the allocator's laws judge. Keys are numbered as they come."""
    names: dict[tuple[int, tuple[int, ...]], int] = {}
    keys = [NO_KEY] * config.pool.num_blocks
    for block, group, prefix in view.keyed:
        keys[block] = names.setdefault((group, tuple(prefix)), len(names))
    pool = SeenPool(
        tuple(view.refs), tuple(keys), tuple(view.queue), tuple(block for block, _, _ in view.keyed), view.num_free
    )
    holdings = {
        name: Holding(tuple(Table(tuple(table)) for table in tables), (0,) * len(tables))
        for name, tables in view.tables.items()
    }
    return Snapshot(config.pool, pool, MappingProxyType(holdings), tuple(tuple(blocks) for blocks in view.deferred))


OF_THE_POOL = ("POOL-1", "POOL-2", "POOL-3", "POOL-4", "LEAK-1")


def pool_objections(config: EngineConfig, view: View) -> Iterator[Objection]:
    """POOL-1 to POOL-4 and LEAK-1, by the predicates that also judge allocators; and that only known requests hold."""
    snapshot = snapshot_of(config, view)
    transition = Transition(snapshot, Returned(), snapshot)
    for law in LAWS:
        text = law.predicate(transition) if law.id in OF_THE_POOL else None
        if text is not None:
            yield Objection(law.id, text)
    for name in sorted(set(view.tables) - set(view.requests)):
        yield Objection("LEAK-1", f"{name} is gone and its tables {view.tables[name]} are not")


def event_objections(view: View, history: History) -> Iterator[Objection]:
    """EVENT-1."""
    indexed = Counter((group, tuple(prefix)) for _, group, prefix in view.keyed)
    for key in sorted(indexed.keys() | history.replayed.keys()):
        if indexed[key] != history.replayed[key]:
            group, prefix = key
            text = f"{indexed[key]} blocks are offered for {list(prefix)} in group {group}, events say "
            yield Objection("EVENT-1", text + str(history.replayed[key]))
            return


def plan_objections(config: EngineConfig, plan: Plan, before: View, after: View) -> Iterator[Objection]:
    """SCHED-1."""
    total = sum(plan.scheduled.values())
    if total > config.max_num_batched_tokens:
        yield Objection("SCHED-1", f"{total} tokens are scheduled, the budget is {config.max_num_batched_tokens}")
    if len(after.running) > config.max_num_seqs:
        yield Objection("SCHED-1", f"{len(after.running)} requests run, at most {config.max_num_seqs} may")
    given = [*(row.request_id for row in plan.entered), *(row.request_id for row in plan.continued)]
    for name, count in plan.scheduled.items():
        if count < 1:
            yield Objection("SCHED-1", f"{name} is scheduled with {count} tokens")
        if name not in after.running:
            yield Objection("SCHED-1", f"{name} is scheduled and does not run")
        if name not in given:
            yield Objection("SCHED-1", f"{name} is scheduled and the worker is not told of it")
        if len(plan.drafts.get(name, ())) > count:
            yield Objection("SCHED-1", f"{name} is scheduled with {count} tokens and {plan.drafts[name]} as drafts")
    for name in sorted({*given, *plan.drafts} - set(plan.scheduled)):
        yield Objection("SCHED-1", f"{name} is in the step without being scheduled")


def preempted(before: View, after: View) -> list[str]:
    """Requests that ran before a call to the scheduler and have lost their blocks after it."""
    return [
        name
        for name in before.running
        if name in after.requests and after.requests[name].status == "PREEMPTED" and name not in after.running
    ]


def preemption_objections(before: View, after: View) -> Iterator[Objection]:
    """SCHED-2, what can be seen of it."""
    victims = preempted(before, after)
    if len(victims) > len(before.running):
        yield Objection("SCHED-2", f"{len(victims)} of {len(before.running)} running requests were preempted")
    if victims and len(after.deferred) > len(before.deferred):
        yield Objection("SCHED-2", f"{', '.join(victims)} was preempted and its blocks were not returned")
    for name in victims:
        if any(after.tables.get(name, ())):
            yield Objection("SCHED-2", f"{name} was preempted and holds {after.tables[name]}")


def waiting_objections(before: View, after: View) -> Iterator[Objection]:
    """SCHED-3: who waited and still waits is as it was, and so is their order."""
    stayed = [name for name in before.waiting if name in after.waiting and not before.requests[name].blocked]
    for name in stayed:
        was, now = before.requests[name], after.requests[name]
        if not now.blocked and (was.status, was.num_computed_tokens) != (now.status, now.num_computed_tokens):
            yield Objection("SCHED-3", f"{name} still waits and went from {words(was)} to {words(now)}")
        held, holds = (sum(map(len, view.tables.get(name, ()))) for view in (before, after))
        if not now.blocked and held != holds:
            yield Objection("SCHED-3", f"{name} still waits and its tables went from {held} to {holds} entries")
    order = [name for name in after.waiting if name in stayed and not after.requests[name].blocked]
    due = [name for name in stayed if name in order]
    if order != due:
        yield Objection("SCHED-3", f"the waiting requests {due} are now in the order {order}")


def words(state: object) -> str:
    """A request's state in a sentence."""
    status, computed = getattr(state, "status", ""), getattr(state, "num_computed_tokens", 0)
    return f"{status} with {computed} computed tokens"


def overtaking_objections(before: View, after: View, history: History) -> Iterator[Objection]:
    """SCHED-6."""
    admitted = [name for name in before.waiting if name in after.running]
    for place, name in enumerate(before.waiting):
        if name in after.running or name not in after.requests:
            history.overtaken.pop(name, None)
        elif not before.requests[name].blocked and not after.requests[name].blocked:
            history.overtaken[name] += sum(before.waiting.index(other) > place for other in admitted)
            if history.overtaken[name] > MOST_OVERTAKINGS:
                yield Objection("SCHED-6", f"{name} was overtaken {history.overtaken[name]} times")


def poison_objections(view: View, memory: Memory, unsettled: Container[int]) -> Iterator[Objection]:
    """SCHED-4. A step writes as soon as it is scheduled, so what is owed is there already; that the load of an
    `unsettled` block has failed, the scheduler is yet to hear.
    """
    for block, group, prefix in view.keyed:
        if block in unsettled:
            continue
        contents = memory.contents(group, prefix)
        first = len(prefix) - memory.block_size
        for offset in range(memory.block_size):
            found = memory.read((block, offset))
            if block != NULL_BLOCK and found != contents[first + offset]:
                wanted, held = memory.words(contents[first + offset]), memory.words(found)
                text = f"block {block} is offered for {list(prefix)}: its slot {offset} is to hold {wanted}, it holds "
                yield Objection("SCHED-4", text + held)
                return


def step_objections(
    config: EngineConfig, plan: Plan, before: View, after: View, done: Executed, history: History
) -> Iterator[Objection]:
    """Everything that is judged when a step was scheduled and carried out."""
    yield from done.objections
    yield from plan_objections(config, plan, before, after)
    yield from preemption_objections(before, after)
    yield from waiting_objections(before, after)
    yield from overtaking_objections(before, after, history)


def kind_of(objection: str) -> str:
    """What an objection says, whatever requests, blocks and tokens it says it about."""
    return re.sub(r" \([^)]*\)$|\[[^\]]*\]|\b[A-Z]\d*\b|\d+", "…", objection)


def reported(objections: list[Objection]) -> list[Objection]:
    """One a law, in the order of the list."""
    first: Mapping[str, Objection] = {one.law_id: one for one in reversed(objections)}
    return [first[law_id] for law_id in LAW_IDS if law_id in first]

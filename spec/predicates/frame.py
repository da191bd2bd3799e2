"""COMMIT-3: what a call has no business with stays as it was."""

from slotproof.spec.pool import NULL_BLOCK
from slotproof.spec.predicates.facts import tables_of
from slotproof.spec.snapshot import Part
from slotproof.spec.transition import Allocated, Committed, Copied, Deferred, Freed, Returned, Transition, held_tables


def nothing_else_changes(t: Transition) -> str | None:
    """COMMIT-3."""
    return other_requests(t) or deferred_frees(t) or copies_under_way(t) or other_blocks(t)


def other_requests(t: Transition) -> str | None:
    """Tables and counters of every request but the one that the call is about."""
    name = _request_id(t)
    others = {*t.before.holdings, *t.after.holdings} - {name}
    if all(t.before.holdings.get(other) == t.after.holdings.get(other) for other in others):
        return None
    before, after = held_tables(t.before), held_tables(t.after)
    for tables in (before, after):
        tables.pop(name, None)
    if before != after:
        return f"tables of other requests changed from {before} to {after}"
    for other in before if "counters" in t.facets else ():
        counters = t.before.holding(other).cached, t.after.holding(other).cached
        if counters[0] != counters[1]:
            return f"the cached counter of request {other} changed from {counters[0]} to {counters[1]}"
    return None


def deferred_frees(t: Transition) -> str | None:
    """Frees that wait, unless the call is about them."""
    if isinstance(t.event, Deferred | Returned) or t.before.waiting_frees == t.after.waiting_frees:
        return None
    return f"deferred frees changed from {t.before.waiting_frees} to {t.after.waiting_frees}"


def copies_under_way(t: Transition) -> str | None:
    """Copies that are not done: an accepted call adds some, and only their end takes them away."""
    due = t.before.copies
    if isinstance(t.event, Allocated) and t.allocation.accepted:
        due = (*due, *t.allocation.copies)
    if isinstance(t.event, Copied) or t.after.copies == due:
        return None
    return f"copies under way are {t.after.copies}; {due} are due"


def other_blocks(t: Transition) -> str | None:
    """References of blocks the call does not take or give back, and keys of blocks it does not fill."""
    taken, filled = _touched(t)
    for block in range(1, t.before.config.num_blocks):
        old, new = t.before.pool, t.after.pool
        if block not in taken and old.ref(block) != new.ref(block):
            return f"block {block} is none of the call's and went to {new.ref(block)} references"
        if "keys" in t.facets and block not in filled and old.key_of(block) != new.key_of(block):
            return f"block {block} is none of the call's and its key changed"
    changed = set[Part]() if t.before.parts is t.after.parts else {*t.before.parts} ^ {*t.after.parts}
    for part in changed:
        if part.block not in filled:
            return f"block {part.block} is none of the call's and the parts it offers changed"
    if isinstance(t.event, Committed) and "queue" in t.facets and t.before.pool.queue != t.after.pool.queue:
        return f"the queue changed from {t.before.pool.queue} to {t.after.pool.queue}"
    return None


def _touched(t: Transition) -> tuple[set[int], set[int]]:
    """The blocks whose references, and those whose keys, the call may change."""
    if isinstance(t.event, Allocated):
        facts = t.allocation
        released = {block for run in facts.released_runs for block in run}
        copied = {end for copy in facts.copies for end in copy} if facts.accepted else set()
        popped = {*facts.hits, *facts.popped, *copied} if facts.accepted else set()
        return released | popped, popped | {block for entries in facts.new for block in entries}
    held = {block for entries in tables_of(t.before, _request_id(t)) for block in entries} - {NULL_BLOCK}
    if isinstance(t.event, Committed):
        return set(), held
    if isinstance(t.event, Returned):
        return {block for run in t.before.waiting_frees[:1] for block in run}, set()
    if isinstance(t.event, Copied):
        return {end for copy in t.before.copies[:1] for end in copy}, set()
    return held if isinstance(t.event, Freed) else set(), set()


def _request_id(t: Transition) -> str:
    if isinstance(t.event, Allocated):
        return t.event.call.request.request_id
    if isinstance(t.event, Committed):
        return t.event.request.request_id
    return t.event.request_id if isinstance(t.event, Freed | Deferred) else ""

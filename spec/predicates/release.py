"""FREE, EVICT, RESET: what comes back, where it stands, and what stays."""

from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.predicates.facts import queue_after, tables_of
from slotproof.spec.transition import Copied, Deferred, Evicted, Freed, Reset, Returned, Transition


def freed_blocks_are_queued_in_order(t: Transition) -> str | None:
    """FREE-1."""
    queue, released = t.before.pool.queue, list[int]()
    for run in _runs(t):
        queue = queue_after(t.before, queue, run)
        released += [block for block in run if block != NULL_BLOCK]
    for block in range(1, t.before.config.num_blocks):
        due = t.before.pool.ref(block) - released.count(block)
        if t.after.pool.ref(block) != due:
            return f"block {block} has {t.after.pool.ref(block)} references; {due} are due"
    if isinstance(t.event, Freed | Deferred) and any(tables_of(t.after, t.event.request_id)):
        return f"request {t.event.request_id} still holds {tables_of(t.after, t.event.request_id)}"
    if "queue" in t.facets and t.after.pool.queue != queue:
        return f"the queue is {t.after.pool.queue}; {queue} is due"
    return deferred_run_is_due(t) or copies_left_are_due(t) or t.changed(("keys", "parts"))


def copies_left_are_due(t: Transition) -> str | None:
    """The oldest copy is done, and no other."""
    due = t.before.copies[1:] if isinstance(t.event, Copied) else t.before.copies
    return None if t.after.copies == due else f"copies under way are {t.after.copies}; {due} are due"


def deferred_run_is_due(t: Transition) -> str | None:
    """What a deferred free will give back: all groups as one run, tail to head, last group first."""
    if not isinstance(t.event, Deferred):
        return None
    run = tuple(block for entries in tables_of(t.before, t.event.request_id)[::-1] for block in entries[::-1])
    due = (*t.before.waiting_frees, run) if run else t.before.waiting_frees
    return None if t.after.waiting_frees == due else f"deferred frees are {t.after.waiting_frees}; {due} are due"


def _runs(t: Transition) -> list[list[int]]:
    """The runs that are given back: a group at a time, all groups at once when a free was deferred, a copy's ends."""
    if isinstance(t.event, Freed):
        return [list(entries[::-1]) for entries in tables_of(t.before, t.event.request_id)]
    if isinstance(t.event, Returned) and t.before.waiting_frees:
        return [list(t.before.waiting_frees[0])]
    if isinstance(t.event, Copied):
        return [[copy.destination, copy.source] for copy in t.before.copies[:1]]
    return []


def unknown_requests_free_nothing(t: Transition) -> str | None:
    """FREE-2."""
    assert isinstance(t.event, Freed | Deferred)
    return None if any(tables_of(t.before, t.event.request_id)) else t.changed()


def eviction_removes_keys_only(t: Transition) -> str | None:
    """EVICT-1."""
    assert isinstance(t.event, Evicted)
    for block in range(1, t.after.config.num_blocks):
        due = NO_KEY if block in t.event.blocks else t.before.pool.key_of(block)
        if t.after.pool.key_of(block) != due:
            return f"block {block} {'kept' if due == NO_KEY else 'lost'} its key"
    due_parts = tuple(part for part in t.before.parts if part.block not in t.event.blocks)
    if "parts" in t.facets and t.after.parts != due_parts:
        return f"parts {t.after.parts} are offered for copying; {due_parts} are due"
    return t.changed(("tables", "free", "copies", "refs", "queue", "counters"))


def reset_empties_the_index_when_nothing_is_held(t: Transition) -> str | None:
    """RESET-1."""
    assert isinstance(t.event, Reset)
    idle = t.before.pool.num_free() == t.before.config.usable_blocks
    if t.event.succeeded != idle:
        return (
            f"reset {'succeeded' if t.event.succeeded else 'was refused'} with {t.before.pool.num_free()} blocks free"
        )
    if t.event.succeeded and "keys" in t.facets and (t.after.pool.keyed or t.after.parts):
        return f"blocks {t.after.pool.keyed or t.after.parts} are still offered"
    kept = ("tables", "free", "copies", "refs", "queue")
    return t.changed(kept if t.event.succeeded else (*kept, "keys", "parts"))

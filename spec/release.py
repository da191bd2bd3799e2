"""How blocks come back: free at once or deferred, preempt, evict, reset. Order is policy: who is queued where decides
who is evicted first.
"""

from dataclasses import replace

from slotproof.spec.config import FreeOrder
from slotproof.spec.loops import foreach, repeat
from slotproof.spec.parts import withdraw_parts
from slotproof.spec.pool import (
    Pool,
    drop_reference,
    enqueue_keyed,
    enqueue_keyless,
    enqueue_released,
    evict_block,
)
from slotproof.spec.preconditions import require_usable
from slotproof.spec.request import Request, withdraw
from slotproof.spec.snapshot import Snapshot, Table


def release_run(pool: Pool, run: Table, order: FreeOrder) -> Pool:
    """Drop one reference of each block of a run; those that reach 0 are queued as one run (FREE-1).

    Keyless blocks go to the front, the first of the run frontmost; keyed ones to the back, the first of the run first.
    No block stands in a run twice.
    """
    pool = foreach(run.entries, drop_reference, pool)
    if order == FreeOrder.LRU:
        return foreach(run.entries, enqueue_released, pool)
    pool = foreach(run.entries, enqueue_keyed, pool)
    return foreach(run.reversed().entries, enqueue_keyless, pool)


def free(snapshot: Snapshot, request_id: str) -> Snapshot:
    """Give back everything a request holds, group after group, tail to head (LEAK-1); nothing for one that is
    untracked (FREE-2).
    """
    if request_id not in snapshot.holdings:
        return snapshot
    tables = snapshot.holding(request_id).tables

    def release_table(number: int, pool: Pool) -> Pool:
        return release_run(pool, tables[number].reversed(), snapshot.config.free_order)

    pool = foreach(range(len(tables)), release_table, snapshot.pool)
    return snapshot.with_pool(pool).without_holding(request_id)


def defer_free(snapshot: Snapshot, request_id: str) -> Snapshot:
    """The request ends but a step in flight may still write: its blocks stay held until `return_deferred`."""
    if request_id not in snapshot.holdings:
        return snapshot
    tables = snapshot.holding(request_id).tables
    run = tuple(block for table in tables[::-1] for block in table.reversed().entries)
    return replace(snapshot.without_holding(request_id), waiting_frees=(*snapshot.waiting_frees, run))


def return_deferred(snapshot: Snapshot) -> Snapshot:
    """Give back the oldest deferred free, all its groups as one run; nothing if none waits (FREE-1)."""
    if not snapshot.waiting_frees:
        return snapshot
    oldest, *younger = snapshot.waiting_frees
    pool = release_run(snapshot.pool, Table(oldest), snapshot.config.free_order)
    return replace(snapshot, pool=pool, waiting_frees=tuple(younger))


def preempt(snapshot: Snapshot, request: Request) -> tuple[Snapshot, Request]:
    """Take everything from a request; it starts again from its first token, and may hit what it left behind."""
    return free(snapshot, request.request_id), withdraw(request)


def evict_blocks(snapshot: Snapshot, blocks: tuple[int, ...]) -> Snapshot:
    """Take the keys of these blocks away; tables, counts and order stay (EVICT-1).

    Raises:
        PreconditionError: for an id that names no usable block.
    """
    require_usable(snapshot, blocks)
    return withdraw_parts(snapshot.with_pool(foreach(blocks, evict_block, snapshot.pool)), blocks)


def reset_prefix_cache(snapshot: Snapshot) -> tuple[Snapshot, bool]:
    """Empty the prefix cache, and whether that was done: it is refused while anything is held (RESET-1)."""
    if snapshot.pool.num_free() != snapshot.config.usable_blocks:
        return snapshot, False
    pool = repeat(snapshot.config.usable_blocks, evict_next, snapshot.pool)
    return snapshot.with_pool(pool).with_parts(()), True


def evict_next(index: int, pool: Pool) -> Pool:
    """Take the key of one usable block away, counted from 0."""
    return evict_block(index + 1, pool)

"""Theorems about `spec/release.py`: free, deferred free, evict and reset."""

from collections.abc import Callable
from functools import partial
from typing import Any

from slotproof.proofs.operations import Operation, Step, World
from slotproof.proofs.pool import is_queued, is_well_formed
from slotproof.proofs.scope import Scope
from slotproof.proofs.shapes import ASKING, OTHER
from slotproof.proofs.table import SymbolicTable
from slotproof.proofs.theorem import about
from slotproof.proofs.theorems.admission import place_in, the_block
from slotproof.proofs.theorems.vocabulary import all_of, any_of, blocks_of, count, if_else, queue_behind, same, total
from slotproof.proofs.unbounded import any_number_of_blocks, any_unbounded_holder, any_unbounded_pool
from slotproof.proofs.worlds import DEFER, EVICT, FREE, PREEMPT, RESET, RETURN, RETURN_NOTHING
from slotproof.spec import release
from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.release import free
from slotproof.spec.request import Status
from slotproof.spec.snapshot import Snapshot


def runs(step: Step) -> list[list[int]]:
    """What a free gives back: a run a group, tail to head."""
    tables = step.before.holding(ASKING).tables
    return [[block for block in reversed(table.entries) if block != NULL_BLOCK] for table in tables]


def dropped_once(s: Scope, step: Step, run: list[int], now: Snapshot) -> None:
    """Each block of the run has one reference less; keys stay, and so does every other block."""
    for block in blocks_of(step):
        s.prove(now.pool.ref(block) == step.before.pool.ref(block) - run.count(block))
        s.prove(now.pool.key_of(block) == step.before.pool.key_of(block))


@about(FREE, "FREE-1", "A free takes one reference for each entry, keeps every key, and touches no other block.")
def a_free_takes_each_entry_back_once(s: Scope, step: Step) -> None:
    dropped_once(s, step, [block for run in runs(step) for block in run], step.result)


@about(FREE, "FREE-1", "Freed blocks are queued group by group, keyless ones in front and keyed ones behind.")
def a_free_queues_in_order(s: Scope, step: Step) -> None:
    s.prove(same(step.result.pool.queue, queue_behind(step, runs(step))))


@about(FREE, "LEAK-1", "A freed request holds nothing; if nobody else does, every usable block is free.")
def nothing_leaks(s: Scope, step: Step) -> None:
    s.prove(ASKING not in step.result.holdings)
    mine = [block for run in runs(step) for block in run]
    s.assume(all_of(step.before.pool.ref(block) == mine.count(block) for block in blocks_of(step)))
    s.prove(step.result.pool.num_free() == step.before.config.num_blocks - 1)


@about(FREE, "POOL-2", "A free leaves as many references as there are entries that still name a block.")
def a_free_keeps_references_right(s: Scope, step: Step) -> None:
    for block in blocks_of(step):
        names = sum(run.count(block) for run in runs(step))
        s.prove(step.before.pool.ref(block) - step.result.pool.ref(block) == names)
        s.prove((step.result.pool.ref(block) == 0) == (step.result.pool.queue.count(block) == 1))


@about(FREE, "FREE-2", "Freeing twice changes nothing more.")
def freeing_twice_changes_nothing(s: Scope, step: Step) -> None:
    s.prove(free(step.result, ASKING) is step.result)


@about(FREE, "COMMIT-3", "A free changes no other request and no deferred free.")
def a_free_changes_nobody_else(s: Scope, step: Step) -> None:
    s.prove(step.result.holdings.get(OTHER) is step.before.holdings.get(OTHER))
    s.prove(step.result.waiting_frees is step.before.waiting_frees)


@about(
    DEFER,
    "FREE-1",
    "A deferred free takes nothing from the pool; all entries wait, last group and last entry first.",
)
def a_deferred_free_waits(s: Scope, step: Step) -> None:
    s.prove(step.result.pool is step.before.pool)
    s.prove(ASKING not in step.result.holdings)
    s.prove(step.result.holdings.get(OTHER) is step.before.holdings.get(OTHER))
    run = [block for table in reversed(step.before.holding(ASKING).tables) for block in reversed(table.entries)]
    s.prove(same(step.result.waiting_frees[-1], run))
    s.prove(step.result.waiting_frees[:-1] == step.before.waiting_frees)


@about(DEFER, "FREE-2", "Deferring the free of a request that holds nothing changes nothing.")
def deferring_twice_changes_nothing(s: Scope, step: Step) -> None:
    s.prove(DEFER.run(step.result, ASKING) is step.result)


@about(RETURN, "FREE-1", "Returning gives back the oldest deferred free as one run, each block once, in order.")
def the_oldest_deferred_free_returns(s: Scope, step: Step) -> None:
    oldest, *younger = step.before.waiting_frees
    dropped_once(s, step, list(oldest), step.result)
    s.prove(same(step.result.pool.queue, queue_behind(step, [list(oldest)])))
    s.prove(step.result.waiting_frees == tuple(younger))
    s.prove(step.result.holdings is step.before.holdings)


@about(EVICT, "EVICT-1", "Evict removes the keys of the blocks named and changes no table, count or order.")
def an_eviction_removes_keys_only(s: Scope, step: Step) -> None:
    named = step.arguments[0]
    for block in blocks_of(step):
        key = step.result.pool.key_of(block)
        s.prove(key == (NO_KEY if block in named else step.before.pool.key_of(block)))
        s.prove(step.result.pool.ref(block) == step.before.pool.ref(block))
    s.prove(step.result.pool.queue == step.before.pool.queue)
    s.prove(step.result.holdings is step.before.holdings)
    s.prove(step.result.waiting_frees is step.before.waiting_frees)


@about(RESET, "RESET-1", "Reset succeeds exactly if nothing is held; then no block has a key, and the order stays.")
def a_reset_empties_the_index_exactly_if_nothing_is_held(s: Scope, step: Step) -> None:
    now, succeeded = step.result
    held = total(count(step.before.pool.ref(block) > 0) for block in blocks_of(step))
    s.prove(succeeded == (held == 0))
    if not succeeded:
        s.prove(now is step.before)
        return
    for block in blocks_of(step):
        s.prove(now.pool.key_of(block) == NO_KEY)
        s.prove(now.pool.ref(block) == 0)
    s.prove(now.pool.queue == step.before.pool.queue)
    s.prove(now.holdings is step.before.holdings)


@about(RETURN_NOTHING, "FREE-2", "Returning where no deferred free waits changes nothing.")
def returning_nothing_changes_nothing(s: Scope, step: Step) -> None:
    s.prove(step.result is step.before)


@about(PREEMPT, "FREE-1", "A preemption frees what the request holds, and the request starts again.")
def a_preemption_is_a_free(s: Scope, step: Step) -> None:
    freed, waiting = step.result
    dropped_once(s, step, [block for run in runs(step) for block in run], freed)
    s.prove(same(freed.pool.queue, queue_behind(step, runs(step))))
    s.prove(ASKING not in freed.holdings)
    s.prove((waiting.num_computed_tokens, waiting.flights, waiting.status) == (0, (), Status.PREEMPTED))
    s.prove(waiting.token_ids == step.arguments[0].token_ids)


# In pools of any size.

KINDS = {"f": "full attention", "w": "sliding window", "fw": "full attention and window"}


def in_any_pool(make: Callable[[str], tuple[Snapshot, tuple[Any, ...]]]) -> tuple[World, ...]:
    """Pools of any size, for every kind of group and both together."""
    return tuple(World(f"any pool, {words}", partial(make, kinds), small=False) for kinds, words in KINDS.items())


FREE_ANY = Operation(
    "free, any size",
    lambda before, request_id: release.free(before, request_id),
    in_any_pool(any_unbounded_holder),
    "any pool and tables; full attention, window, and both",
)


def is_mine(step: Step, block: Any) -> Any:
    """Whether the block stands in one of the request's tables."""
    return any_of(place_in(table, block) >= 0 for table in step.before.holding(ASKING).tables)


@about(FREE_ANY, "FREE-1", "A free takes one reference of each block of the request, and keeps every key.")
def a_free_of_any_size_takes_each_entry_back_once(s: Scope, step: Step) -> None:
    block, before, now = the_block(s), step.before.pool, step.result.pool
    mine = is_mine(step, block)
    s.prove(now.ref(block) == before.ref(block) - count(mine))
    s.prove(now.key_of(block) == before.key_of(block))
    s.prove(is_queued(now, block) == (is_queued(before, block) | (mine & (before.ref(block) == 1))))


@about(FREE_ANY, "LEAK-1", "Every block that only the freed request held is free, whatever the size of the pool.")
def nothing_leaks_at_any_size(s: Scope, step: Step) -> None:
    block = the_block(s)
    s.prove(ASKING not in step.result.holdings)
    s.assume(step.before.pool.ref(block) == count(is_mine(step, block)))
    s.prove(is_queued(step.result.pool, block))


@about(FREE_ANY, "POOL-1", "A block is queued exactly if nobody holds it, whatever is freed.")
def a_free_keeps_blocks_well_formed(s: Scope, step: Step) -> None:
    s.prove(is_well_formed(step.result.pool, the_block(s)))


EVICT_ANY = Operation(
    "evict_blocks, any size",
    lambda before, blocks: release.evict_blocks(before, blocks),
    (World("any pool", partial(any_number_of_blocks, "f"), small=False),),
    "any pool and number of blocks",
)


@about(EVICT_ANY, "EVICT-1", "Evict takes exactly the keys of the blocks named; counts and order stay.")
def an_eviction_of_any_size_removes_keys_only(s: Scope, step: Step) -> None:
    block, before, now = the_block(s), step.before.pool, step.result.pool
    blocks = step.arguments[0]
    named = blocks.names(block) if isinstance(blocks, SymbolicTable) else block in blocks
    s.prove(now.key_of(block) == if_else(named, NO_KEY, before.key_of(block)))
    unmoved(s, step.before, step.result, block)


RESET_ANY = Operation(
    "reset_prefix_cache, any size",
    lambda before: release.reset_prefix_cache(before),
    (World("any pool", partial(any_unbounded_pool, "f"), small=False),),
    "any pool",
)


@about(RESET_ANY, "RESET-1", "Reset succeeds exactly if every usable block is free; then no block has a key.")
def a_reset_of_any_size_empties_the_index(s: Scope, step: Step) -> None:
    block, (now, succeeded) = the_block(s), step.result
    s.prove(succeeded == (step.before.pool.num_free() == step.before.config.num_blocks - 1))
    if succeeded:
        s.prove(now.pool.key_of(block) == NO_KEY)
        unmoved(s, step.before, now, block)
    else:
        s.prove(now is step.before)


def unmoved(s: Scope, before: Snapshot, now: Snapshot, block: Any) -> None:
    """Prove that references, queue and tables stay."""
    s.prove(now.pool.ref(block) == before.pool.ref(block))
    s.prove(is_queued(now.pool, block) == is_queued(before.pool, block))
    s.prove(now.pool.num_free() == before.pool.num_free())
    s.prove(now.holdings is before.holdings)

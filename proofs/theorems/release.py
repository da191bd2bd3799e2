"""Theorems about `spec/release.py`: free, deferred free, evict and reset."""

from slotproof.proofs.operations import Step
from slotproof.proofs.scope import Scope
from slotproof.proofs.shapes import ASKING, OTHER
from slotproof.proofs.theorem import about
from slotproof.proofs.theorems.vocabulary import all_of, blocks_of, count, queue_behind, same, total
from slotproof.proofs.worlds import DEFER, EVICT, FREE, RESET, RETURN
from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.release import free
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

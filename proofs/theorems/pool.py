"""Theorems about `spec/pool.py` and the release of one block: what a step does to its block, and nothing else."""

from typing import Any

from slotproof.proofs.pool import is_least, is_queued, is_well_formed, stands_before
from slotproof.proofs.scope import Scope, negated
from slotproof.proofs.theorem import theorem
from slotproof.spec import pool as steps
from slotproof.spec.config import FreeOrder
from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.release import release_run
from slotproof.spec.snapshot import Table

ANY_POOL = "any pool"


def unchanged(s: Scope, before: Any, after: Any, block: Any) -> None:
    """A block has the references, the key and the place in the queue it had."""
    s.prove(after.ref(block) == before.ref(block))
    s.prove(after.key_of(block) == before.key_of(block))
    s.prove(is_queued(after, block) == is_queued(before, block))
    s.prove(is_well_formed(after, block))


@theorem("COMMIT-2", "What is popped stood before every other queued block, and is out of the queue.", ANY_POOL)
def pops_come_from_the_front(s: Scope) -> None:
    before = s.pool()
    other = s.block("other", before)
    s.assume(before.num_free() > 0)
    s.assume(is_least(before, before.head(), other))
    after, block = steps.pop_head(before)
    s.prove(negated(is_queued(after, block)))
    s.prove(after.num_free() == before.num_free() - 1)
    s.assume(is_queued(before, other))
    s.assume(other != block)
    s.prove(negated(stands_before(before, other, block)))


@theorem("INDEX-1", "A block is keyless and held once at the moment it is handed out.", ANY_POOL)
def a_popped_block_is_keyless_and_held_once(s: Scope) -> None:
    before = s.pool()
    s.assume(before.num_free() > 0)
    after, block = steps.pop_head(before)
    s.prove(after.key_of(block) == NO_KEY)
    s.prove(after.ref(block) == 1)
    s.prove(is_well_formed(after, block))


@theorem("COMMIT-3", "Popping changes no other block.", ANY_POOL)
def a_pop_changes_no_other_block(s: Scope) -> None:
    before = s.pool()
    other = s.block("other", before)
    s.assume(before.num_free() > 0)
    after, block = steps.pop_head(before)
    s.assume(other != block)
    unchanged(s, before, after, other)


@theorem("COMMIT-1", "Pinning adds one reference and takes the block out of the queue if it stood there.", ANY_POOL)
def a_pinned_block_is_held_once_more_and_not_queued(s: Scope) -> None:
    before = s.pool()
    block, other = s.block("block", before), s.block("other", before)
    after = steps.pin_block(block, before)
    s.prove(after.ref(block) == before.ref(block) + 1)
    s.prove(after.key_of(block) == before.key_of(block))
    s.prove(is_well_formed(after, block))
    s.assume(other != block)
    unchanged(s, before, after, other)


@theorem("COUNT-2", "Pinning takes a free block exactly if the block is idle.", ANY_POOL)
def a_pin_costs_a_free_block_exactly_if_it_is_idle(s: Scope) -> None:
    before = s.pool()
    block = s.block("block", before)
    taken = before.num_free() - steps.pin_block(block, before).num_free()
    s.prove((taken == 1) == (before.ref(block) == 0))
    s.prove((taken == 0) == (before.ref(block) > 0))


def released(pool: Any, block: Any, order: FreeOrder) -> Any:
    """The pool after one block of a table was released."""
    return release_run(pool, Table((block,)), order)


@theorem(
    "FREE-1", "A released block loses one reference, keeps its key, and is queued exactly if it was the last.", ANY_POOL
)
def a_released_block_is_queued_exactly_at_its_last_reference(s: Scope) -> None:
    before = s.pool()
    block, other = s.block("block", before), s.block("other", before)
    s.assume(before.ref(block) > 0)
    for order in FreeOrder:
        after = released(before, block, order)
        s.prove(after.ref(block) == before.ref(block) - 1)
        s.prove(after.key_of(block) == before.key_of(block))
        s.prove(is_queued(after, block) == (before.ref(block) == 1))
        s.prove(is_well_formed(after, block))
    s.assume(other != block)
    for order in FreeOrder:
        unchanged(s, before, released(before, block, order), other)


@theorem("FREE-1", "A keyless block that nobody holds any more is popped first.", ANY_POOL)
def a_released_keyless_block_is_popped_first(s: Scope) -> None:
    before = s.pool()
    block, other = s.block("block", before), s.block("other", before)
    s.assume((before.ref(block) == 1) & (before.key_of(block) == NO_KEY))
    s.assume(is_queued(before, other))
    after = released(before, block, FreeOrder.UNHASHED_FIRST)
    s.prove(stands_before(after, block, other))


@theorem(
    "FREE-1",
    "A keyed block that nobody holds any more is popped behind every other one; with lru every block is.",
    ANY_POOL,
)
def a_released_keyed_block_is_popped_last(s: Scope) -> None:
    before = s.pool()
    block, other = s.block("block", before), s.block("other", before)
    s.assume((before.ref(block) == 1) & is_queued(before, other))
    s.prove(stands_before(released(before, block, FreeOrder.LRU), other, block))
    s.assume(before.key_of(block) != NO_KEY)
    s.prove(stands_before(released(before, block, FreeOrder.UNHASHED_FIRST), other, block))


@theorem("EVICT-1", "Evicting a block takes its key away and changes nothing else.", ANY_POOL)
def an_eviction_takes_a_key_and_nothing_else(s: Scope) -> None:
    before = s.pool()
    block, other = s.block("block", before), s.block("other", before)
    after = steps.evict_block(block, before)
    s.prove(after.key_of(block) == NO_KEY)
    s.prove(after.ref(block) == before.ref(block))
    s.prove(is_queued(after, block) == is_queued(before, block))
    s.prove(after.num_free() == before.num_free())
    s.assume(other != block)
    unchanged(s, before, after, other)


@theorem("HASH-2", "Keying a block gives it exactly that key and changes nothing else.", ANY_POOL)
def a_keyed_block_gets_its_key_and_nothing_else(s: Scope) -> None:
    before, key = s.pool(), s.integer("key")
    block, other = s.block("block", before), s.block("other", before)
    after = steps.key_block(block, key, before)
    s.prove(after.key_of(block) == key)
    s.prove(after.ref(block) == before.ref(block))
    s.prove(is_well_formed(after, block))
    s.assume(other != block)
    unchanged(s, before, after, other)


@theorem("POOL-3", "No step but popping, which hands out queued blocks, touches the pool for the null block.", ANY_POOL)
def the_null_block_is_never_touched(s: Scope) -> None:
    before, key = s.pool(), s.integer("key")
    s.prove(steps.pin_block(NULL_BLOCK, before) is before)
    s.prove(steps.key_block(NULL_BLOCK, key, before) is before)
    for order in FreeOrder:
        s.prove(released(before, NULL_BLOCK, order) is before)


@theorem("POOL-4", "A release makes one more block free exactly if it was the last reference.", ANY_POOL)
def a_release_frees_a_block_exactly_at_its_last_reference(s: Scope) -> None:
    before = s.pool()
    block = s.block("block", before)
    s.assume(before.ref(block) > 0)
    for order in FreeOrder:
        gained = released(before, block, order).num_free() - before.num_free()
        s.prove((gained == 1) == (before.ref(block) == 1))
        s.prove((gained == 0) == (before.ref(block) > 1))

"""Theorems about `allocate_slots` by induction: any pool, any table, any number of hits, full attention or window."""

from typing import Any, NamedTuple

import z3

from slotproof.proofs.counting import Kind, unreferenced
from slotproof.proofs.engine import Int
from slotproof.proofs.loops import ANY_BLOCK
from slotproof.proofs.operations import Broken, Operation, Step, World
from slotproof.proofs.pool import is_queued, is_well_formed
from slotproof.proofs.scope import Scope, implies, negated
from slotproof.proofs.shapes import ASKING
from slotproof.proofs.table import SymbolicTable
from slotproof.proofs.theorem import about
from slotproof.proofs.theorems import invariants  # noqa: F401  (states them)
from slotproof.proofs.theorems.vocabulary import (
    adopted_tokens,
    any_of,
    behind_window,
    blocks_for,
    call_of,
    count,
    final,
    if_else,
    most,
    settled,
    skipped,
    slots,
    total,
    watermark,
)
from slotproof.proofs.unbounded import any_unbounded_call
from slotproof.spec import admission
from slotproof.spec.admission import Allocation, Call, Reason, Refusal
from slotproof.spec.groups import FullAttention
from slotproof.spec.keys import block_key
from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.snapshot import Snapshot


class Staged(NamedTuple):
    """What an admission comes to, and what its stage 1 alone does."""

    outcome: Allocation | Refusal
    stage_1: Snapshot


def admit_in_stages(before: Snapshot, call: Call) -> Staged:
    """The call, and its stage 1 once more."""
    return Staged(admission.admit(before, call), admission.release_skipped(before, call))


ANY_POOL = Operation(
    "allocate_slots, any size",
    lambda before, call: admit_in_stages(before, call),
    (
        World("any pool, full attention", lambda: any_unbounded_call("f"), small=False),
        World("any pool, sliding window", lambda: any_unbounded_call("w"), small=False),
    ),
    "any pool, table and number of hits; full attention or window",
    num_quick=0,
)


def the_block(s: Scope) -> Any:
    """An arbitrary usable block."""
    return Int(z3.Int(ANY_BLOCK)) if s.inputs is None else s.inputs[ANY_BLOCK]


def is_accepted(step: Step) -> bool:
    """Whether the call was admitted."""
    return isinstance(step.result, Staged) and isinstance(step.result.outcome, Allocation)


def is_refused_by(step: Step, reason: Reason) -> bool:
    """Whether the call was refused for this reason."""
    outcome = step.result.outcome if isinstance(step.result, Staged) else None
    return isinstance(outcome, Refusal) and outcome.reason == reason


def after(step: Step) -> Snapshot:
    """The snapshot after the call."""
    snapshot: Snapshot = step.result.outcome.snapshot
    return snapshot


def stage_1(step: Step) -> Snapshot:
    """The snapshot after stage 1 alone."""
    snapshot: Snapshot = step.result.stage_1
    return snapshot


def numbers_of(step: Step) -> range:
    """The numbers of the groups."""
    return range(len(step.before.config.groups))


def table_in(snapshot: Snapshot, number: int) -> Any:
    """The request's table in a group."""
    return snapshot.holding(ASKING).tables[number]


def hit_table(step: Step, number: int) -> Any:
    """The hit's blocks as a group adopts them: null where its window has moved on."""
    return call_of(step).hit_table(number).behind_nulls(skipped(step, number))


def place_in(table: Any, block: Any) -> Any:
    """Where a block stands in a table; negative if it does not."""
    if isinstance(table, SymbolicTable):
        return table.place(block)
    return table.entries.index(block) if block in table.entries else -1


def missing(step: Step) -> Any:
    """What a step lacks: the sum over groups of max(ceil(slots / block size) - max(skipped, held + hit), 0)."""

    def lacks(number: int) -> Any:
        held, hit = table_in(step.before, number).length, call_of(step).hit_table(number).length
        due = blocks_for(slots(step), step.before.config.groups[number].block_size)
        return most(due - most(skipped(step, number), held + hit), 0)

    return total(lacks(number) for number in numbers_of(step))


def idle(step: Step) -> Any:
    """Adopted hits that stand in the queue."""
    return total(idle_in(step, number) for number in numbers_of(step))


def idle_in(step: Step, number: int) -> Any:
    """Adopted hits of a group that stand in the queue."""
    hit = hit_table(step, number)
    if isinstance(hit, SymbolicTable):
        counted = unreferenced(Kind.ANY, step.before.pool, hit, hit.length)  # type: ignore[arg-type]
        return if_else(hit.num_live() > 0, counted, 0)
    return sum(block != NULL_BLOCK and step.before.pool.ref(block) == 0 for block in hit.entries)


def is_short(step: Step) -> Any:
    """The stage 2 inequality."""
    free = stage_1(step).pool.num_free()
    return missing(step) + idle(step) + watermark(step) > free - call_of(step).reserved_blocks


def same_block(s: Scope, one: Snapshot, other: Snapshot, block: Any) -> None:
    """Prove that a block has the same references, the same key, and is queued in both or in neither."""
    s.prove(one.pool.ref(block) == other.pool.ref(block))
    s.prove(one.pool.key_of(block) == other.pool.key_of(block))
    s.prove(is_queued(one.pool, block) == is_queued(other.pool, block))


@about(ANY_POOL, "REFUSE-1", "A stage 0 refusal, and with full attention any, leaves no trace, whatever the pool.")
def a_refusal_leaves_no_trace(s: Scope, step: Step) -> None:
    full = all(isinstance(group, FullAttention) for group in step.before.config.groups)
    if is_refused_by(step, Reason.WHOLE_PROMPT) or (is_refused_by(step, Reason.STEP) and full):
        s.prove(after(step) is step.before)


@about(ANY_POOL, "REFUSE-1", "A stage 2 refusal leaves exactly what stage 1 alone would, whatever the pool.")
def a_refusal_leaves_what_stage_1_does(s: Scope, step: Step) -> None:
    if is_refused_by(step, Reason.STEP):
        block = the_block(s)
        same_block(s, after(step), stage_1(step), block)
        s.prove(after(step).pool.num_free() == stage_1(step).pool.num_free())
        for number in numbers_of(step):
            now, then = table_in(after(step), number), table_in(stage_1(step), number)
            s.prove(now.length == then.length)
            s.prove(place_in(now, block) == place_in(then, block))


@about(ANY_POOL, "REFUSE-2", "A step is refused exactly if it is short, or the whole prompt was.")
def a_step_is_refused_exactly_if_short(s: Scope, step: Step) -> None:
    if is_accepted(step):
        s.prove(negated(is_short(step)))
    elif is_refused_by(step, Reason.STEP):
        s.prove(is_short(step))


@about(ANY_POOL, "ADMIT-3", "An accepted call leaves reserve and watermark free, whatever the size of the pool.")
def reserve_and_watermark_stay_free(s: Scope, step: Step) -> None:
    if is_accepted(step):
        s.prove(after(step).pool.num_free() >= call_of(step).reserved_blocks + watermark(step))


@about(ANY_POOL, "COUNT-1", "What leaves the queue after stage 1 is what was counted; no pop finds it empty.")
def what_leaves_the_queue_was_counted(s: Scope, step: Step) -> None:
    s.prove(not isinstance(step.result, Broken))
    if is_accepted(step):
        s.prove(stage_1(step).pool.num_free() - after(step).pool.num_free() == missing(step) + idle(step))


@about(ANY_POOL, "COMMIT-1", "Every adopted block of a hit gets one reference, leaves the queue, and keeps its place.")
def every_hit_is_pinned_once(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    block, before, now = the_block(s), step.before.pool, after(step).pool
    s.assume(adopted_tokens(call_of(step)) > 0)
    for number in numbers_of(step):
        place = place_in(hit_table(step, number), block)
        is_hit = place >= 0
        s.prove(implies(is_hit, now.ref(block) == before.ref(block) + 1))
        s.prove(implies(is_hit, negated(is_queued(now, block))))
        s.prove(implies(is_hit, place_in(table_in(after(step), number), block) == place))


@about(ANY_POOL, "COMMIT-3", "A block that the request does not name afterwards is as stage 1 left it.")
def blocks_of_nobody_here_are_as_they_were(s: Scope, step: Step) -> None:
    if is_accepted(step):
        block = the_block(s)
        for number in numbers_of(step):
            s.assume(place_in(table_in(after(step), number), block) < 0)
        same_block(s, after(step), stage_1(step), block)


@about(ANY_POOL, "HASH-1", "Draft tokens never get hashes: a new key stands at an entry that finalized tokens fill.")
def drafts_never_get_hashes(s: Scope, step: Step) -> None:
    if is_accepted(step):
        block, before, now = the_block(s), step.before.pool, after(step).pool
        s.assume(now.key_of(block) != before.key_of(block))
        s.assume(now.key_of(block) != NO_KEY)
        filled = [is_filled(step, number, block) for number in numbers_of(step)]
        s.prove(any_of(filled))


def is_filled(step: Step, number: int, block: Any) -> Any:
    """Whether the block stands in a group's table at an entry that finalized, computed tokens fill."""
    place = place_in(table_in(after(step), number), block)
    return (place >= 0) & ((place + 1) * step.before.config.groups[number].block_size <= final(call_of(step)))


@about(ANY_POOL, "HASH-2", "Every entry at or behind the counter that finalized, computed tokens fill carries its key.")
def every_full_entry_carries_its_key(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    block, call, num_groups = the_block(s), call_of(step), len(step.before.config.groups)
    s.assume(step.before.config.caching & negated(call.delay_cache_blocks))
    for number in numbers_of(step):
        place = place_in(table_in(after(step), number), block)
        counter = step.before.holding(ASKING).cached[number]
        start = if_else(adopted_tokens(call) > 0, hit_table(step, number).length, counter)
        due = is_filled(step, number, block) & (place >= start)
        key = block_key(call.request.prefix_key(place), number, num_groups)
        s.prove(implies(due, after(step).pool.key_of(block) == key))


@about(ANY_POOL, "TABLE-1", "A table is as long as its tokens and hits need, and no shorter than before.")
def a_table_grows_exactly_to_its_tokens(s: Scope, step: Step) -> None:
    if is_accepted(step):
        for number in numbers_of(step):
            adopted = if_else(adopted_tokens(call_of(step)) > 0, hit_table(step, number).length, 0)
            present = most(table_in(step.before, number).length, adopted)
            due = most(present, blocks_for(slots(step), step.before.config.groups[number].block_size))
            s.prove(table_in(after(step), number).length == due)


@about(ANY_POOL, "POOL-1", "A block is queued exactly if nobody holds it, whatever the size of the pool.")
def every_block_stays_well_formed(s: Scope, step: Step) -> None:
    if is_accepted(step):
        s.prove(is_well_formed(after(step).pool, the_block(s)))


STAGE_1 = Operation(
    "release_skipped, any size",
    lambda before, call: admission.release_skipped(before, call),
    (
        World("any pool, sliding window", lambda: any_unbounded_call("w"), small=False),
        World("any pool, full attention and window", lambda: any_unbounded_call("fw"), small=False),
    ),
    "any pool and table; window, and full attention with window",
)


def is_behind(step: Step, number: int, block: Any) -> Any:
    """Whether the block stands in a group's table before the call, where its window has left it behind."""
    place = place_in(table_in(step.before, number), block)
    return (place >= 0) & (place < behind_window(step.before.config.groups[number], settled(call_of(step))))


@about(STAGE_1, "SKIP-1", "Stage 1 nulls exactly the entries behind the window, and keeps every table's length.")
def exactly_what_is_behind_the_window_is_nulled(s: Scope, step: Step) -> None:
    block = the_block(s)
    for number in numbers_of(step):
        old, now = table_in(step.before, number), table_in(step.result, number)
        gone = is_behind(step, number, block)
        s.prove(now.length == old.length)
        s.prove(place_in(now, block) == if_else(gone, -1, place_in(old, block)))


@about(STAGE_1, "FREE-1", "Stage 1 takes one reference of each block it nulls, keeps every key, and touches no other.")
def exactly_what_is_nulled_is_released(s: Scope, step: Step) -> None:
    block, before, now = the_block(s), step.before.pool, step.result.pool
    gone = any_of(is_behind(step, number, block) for number in numbers_of(step))
    s.prove(now.ref(block) == before.ref(block) - count(gone))
    s.prove(now.key_of(block) == before.key_of(block))
    s.prove(is_queued(now, block) == (is_queued(before, block) | (gone & (before.ref(block) == 1))))


@about(STAGE_1, "POOL-1", "A block is queued exactly if nobody holds it, whatever a window gives back.")
def giving_back_keeps_blocks_well_formed(s: Scope, step: Step) -> None:
    s.prove(is_well_formed(step.result.pool, the_block(s)))

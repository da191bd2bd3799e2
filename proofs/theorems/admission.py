"""Theorems about `allocate_slots` with full attention, by induction: any pool, any table, any number of hits."""

from typing import Any

import z3

from slotproof.proofs.engine import Bool, Int
from slotproof.proofs.loops import ANY_BLOCK, INVARIANTS, Context, Facts, Invariant
from slotproof.proofs.operations import Broken, Operation, Step, World
from slotproof.proofs.pool import AnyPool, SymbolicPool, is_queued, is_usable, is_well_formed
from slotproof.proofs.scope import Scope, implies, negated
from slotproof.proofs.shapes import ASKING
from slotproof.proofs.table import SymbolicTable
from slotproof.proofs.theorem import about
from slotproof.proofs.theorems.vocabulary import (
    adopted_tokens,
    after,
    blocks_for,
    call_of,
    final,
    if_else,
    is_accepted,
    is_refused,
    most,
    slots,
    watermark,
)
from slotproof.proofs.unbounded import IDLE_HITS, any_unbounded_call
from slotproof.spec import admission
from slotproof.spec.admission import Growth, Reason
from slotproof.spec.keys import block_key
from slotproof.spec.pool import NO_KEY


def is_usable_and_well_formed(pool: AnyPool, block: Any) -> Any:
    """What a loop supposes of every block at the start."""
    return is_usable(pool, block) & is_well_formed(pool, block)


def any_pool(start: Any, mark: str) -> SymbolicPool:
    """A pool of which nothing is known but its size."""
    return SymbolicPool.arbitrary(start.size, mark)


def any_growth(start: Any, mark: str) -> Growth:
    """A pool and a table of which nothing is known but the pool's size."""
    length = Int(z3.Int(f"table length{mark}"))
    return Growth(any_pool(start.pool, mark), SymbolicTable.arbitrary(f"table{mark}", length))  # type: ignore[arg-type]


def growth_facts(turn: Any, start: Any, now: Any, block: Any, _: Context) -> Facts:
    """After so many turns: as many blocks fewer are free and more in the table; a block was popped, or is as it was."""
    kept = (now.pool.ref(block) == start.pool.ref(block)) & (now.pool.key_of(block) == start.pool.key_of(block))
    fresh = (now.pool.ref(block) == 1) & (now.pool.key_of(block) == NO_KEY)
    popped = is_queued(start.pool, block) & negated(is_queued(now.pool, block))
    place = now.table.place(block)
    placed = (place >= start.table.length) & (place < now.table.length)
    return [
        ("as many blocks fewer are free", now.pool.num_free() == start.pool.num_free() - turn),
        ("the table is as much longer", now.table.length == start.table.length + turn),
        ("nothing enters the queue", implies(is_queued(now.pool, block), is_queued(start.pool, block))),
        ("a popped block is keyless and held once", implies(popped, fresh)),
        ("a popped block stands behind the old entries", implies(popped, placed)),
        ("any other block is as it was", implies(negated(popped), kept)),
        ("any other block stands where it stood", implies(negated(popped), place == start.table.place(block))),
        ("the table names what it says", Bool(now.table.says_of(block))),
        ("blocks stay well formed", is_well_formed(now.pool, block)),
    ]


def growth_entries(_: Any, start: Any, now: Any, place: Any, __: Context) -> Facts:
    """Entries are usable blocks, named once, and out of the queue."""
    entry = Int(z3.Select(now.table.array, place.term))
    within = (place >= 0) & (place < now.table.length)
    return [
        ("entries are named once", now.table.is_proper(place)),
        ("entries are the pool's", implies(within, is_usable(start.pool, entry))),
        ("entries are not queued", implies(within, negated(is_queued(now.pool, entry)))),
    ]


INVARIANTS["pop_into_table"] = Invariant(
    any_growth,
    growth_facts,
    lambda start, block: is_usable_and_well_formed(start.pool, block) & Bool(start.table.says_of(block)),
    growth_entries,
)


def pin_facts(turn: Any, start: Any, now: Any, block: Any, context: Context) -> Facts:
    """After so many turns: a block whose place was passed is held once more and not queued; others are as they were."""
    place = context["items"].place(block)
    pinned = (place >= 0) & (place < turn)
    return [
        ("as many fewer are free as hits were idle", now.num_free() == start.num_free() - Int(IDLE_HITS(term(turn)))),
        ("what was passed has one reference more", implies(pinned, now.ref(block) == start.ref(block) + 1)),
        ("what was not has as many", implies(negated(pinned), now.ref(block) == start.ref(block))),
        ("what was passed is not queued", implies(pinned, negated(is_queued(now, block)))),
        ("what was not is where it was", implies(negated(pinned), is_queued(now, block) == is_queued(start, block))),
        ("keys stay", now.key_of(block) == start.key_of(block)),
        ("blocks stay well formed", is_well_formed(now, block)),
    ]


def term(turn: Any) -> Any:
    """A turn as a term."""
    return turn.term if isinstance(turn, Int) else z3.IntVal(turn)


INVARIANTS["pin_block"] = Invariant(any_pool, pin_facts, is_usable_and_well_formed)


def idle_facts(turn: Any, start: Any, now: Any, _: Any, __: Context) -> Facts:
    """After so many turns as many were counted as are idle."""
    return [
        ("what is counted is idle", now == start + Int(IDLE_HITS(term(turn)))),
        ("no count is negative", Bool(IDLE_HITS(term(turn)) >= 0)),
    ]


INVARIANTS["add_if_idle"] = Invariant(lambda _, mark: Int(z3.Int(f"idle{mark}")), idle_facts)


def key_facts(turn: Any, start: Any, now: Any, block: Any, context: Context) -> Facts:
    """After so many turns a block whose place was passed carries its key, any other the one it had."""
    place, counter = context["table"].place(block), context["counter"]
    passed = (place >= counter) & (place < counter + turn)
    key = block_key(context["request"].prefix_key(place), context["number"], len(context["config"].groups))
    return [
        ("what was passed carries its key", implies(passed, now.key_of(block) == key)),
        ("what was not carries what it carried", implies(negated(passed), now.key_of(block) == start.key_of(block))),
        ("references stay", now.ref(block) == start.ref(block)),
        ("the queue stays", is_queued(now, block) == is_queued(start, block)),
        ("as many are free", now.num_free() == start.num_free()),
        ("blocks stay well formed", is_well_formed(now, block)),
    ]


INVARIANTS["key_entry"] = Invariant(any_pool, key_facts, is_usable_and_well_formed)

ANY_POOL = Operation(
    "allocate_slots, full attention",
    lambda before, call: admission.admit(before, call),
    (World("any pool", any_unbounded_call, small=False),),
    "any pool, table and number of hits",
)


def the_block(s: Scope) -> Any:
    """An arbitrary usable block."""
    return Int(z3.Int(ANY_BLOCK)) if s.inputs is None else s.inputs[ANY_BLOCK]


def missing(step: Step) -> Any:
    """What a step lacks: max(ceil(slots / block size) - held - hit, 0)."""
    present = old_table(step).length + hit_table(step).length
    return most(blocks_for(slots(step), step.before.config.groups[0].block_size) - present, 0)


def old_table(step: Step) -> Any:
    """The table before."""
    return step.before.holding(ASKING).tables[0]


def new_table(step: Step) -> Any:
    """The table after."""
    return after(step).holding(ASKING).tables[0]


def hit_table(step: Step) -> Any:
    """The hit's blocks."""
    return call_of(step).hit_table(0)


def place_in(table: Any, block: Any) -> Any:
    """Where a block stands in a table; negative if it does not."""
    if isinstance(table, SymbolicTable):
        return table.place(block)
    return table.entries.index(block) if block in table.entries else -1


def idle(step: Step) -> Any:
    """Hits that stand in the queue."""
    hit = hit_table(step)
    if isinstance(hit, SymbolicTable):
        return Int(IDLE_HITS(hit.size))
    return sum(step.before.pool.ref(block) == 0 for block in hit.entries)


def is_short(step: Step) -> Any:
    """The stage 2 inequality; stage 1 gives nothing back."""
    free = step.before.pool.num_free()
    return missing(step) + idle(step) + watermark(step) > free - call_of(step).reserved_blocks


@about(ANY_POOL, "REFUSE-1", "With full attention a refusal leaves no trace, whatever the size of the pool.")
def a_refusal_leaves_no_trace(s: Scope, step: Step) -> None:
    if is_refused(step):
        s.prove(after(step) is step.before)


@about(ANY_POOL, "REFUSE-2", "A step is refused exactly if it is short, or the whole prompt was.")
def a_step_is_refused_exactly_if_short(s: Scope, step: Step) -> None:
    if is_accepted(step):
        s.prove(negated(is_short(step)))
    elif step.result.reason == Reason.STEP:
        s.prove(is_short(step))


@about(ANY_POOL, "ADMIT-3", "An accepted call leaves reserve and watermark free, whatever the size of the pool.")
def reserve_and_watermark_stay_free(s: Scope, step: Step) -> None:
    if is_accepted(step):
        s.prove(after(step).pool.num_free() >= call_of(step).reserved_blocks + watermark(step))


@about(ANY_POOL, "COUNT-1", "What leaves the queue is what was counted; no pop finds it empty.")
def what_leaves_the_queue_was_counted(s: Scope, step: Step) -> None:
    s.prove(not isinstance(step.result, Broken))
    if is_accepted(step):
        s.prove(step.before.pool.num_free() - after(step).pool.num_free() == missing(step) + idle(step))


@about(ANY_POOL, "COMMIT-1", "Every block of a hit gets one reference more, leaves the queue, and keeps its place.")
def every_hit_is_pinned_once(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    block, before, now = the_block(s), step.before.pool, after(step).pool
    s.assume(adopted_tokens(call_of(step)) > 0)
    s.assume(place_in(hit_table(step), block) >= 0)
    s.prove(now.ref(block) == before.ref(block) + 1)
    s.prove(negated(is_queued(now, block)))
    s.prove(place_in(new_table(step), block) == place_in(hit_table(step), block))


@about(ANY_POOL, "COMMIT-3", "A block that the request does not name afterwards is as it was.")
def blocks_of_nobody_here_are_as_they_were(s: Scope, step: Step) -> None:
    if is_accepted(step):
        block, before, now = the_block(s), step.before.pool, after(step).pool
        s.assume(place_in(new_table(step), block) < 0)
        s.prove(now.ref(block) == before.ref(block))
        s.prove(now.key_of(block) == before.key_of(block))
        s.prove(is_queued(now, block) == is_queued(before, block))


@about(ANY_POOL, "HASH-1", "Draft tokens never get hashes: a new key stands at an entry that finalized tokens fill.")
def drafts_never_get_hashes(s: Scope, step: Step) -> None:
    if is_accepted(step):
        block, before, now = the_block(s), step.before.pool, after(step).pool
        s.assume(now.key_of(block) != before.key_of(block))
        s.assume(now.key_of(block) != NO_KEY)
        place = place_in(new_table(step), block)
        s.prove(place >= 0)
        s.prove((place + 1) * step.before.config.groups[0].block_size <= final(call_of(step)))


@about(ANY_POOL, "HASH-2", "Every entry at or behind the counter that finalized, computed tokens fill carries its key.")
def every_full_entry_carries_its_key(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    block, call = the_block(s), call_of(step)
    s.assume(step.before.config.caching & negated(call.delay_cache_blocks))
    place = place_in(new_table(step), block)
    start = if_else(adopted_tokens(call) > 0, hit_table(step).length, step.before.holding(ASKING).cached[0])
    s.assume((place >= 0) & (place >= start))
    s.assume((place + 1) * step.before.config.groups[0].block_size <= final(call))
    s.prove(after(step).pool.key_of(block) == block_key(call.request.prefix_key(place), 0, 1))


@about(ANY_POOL, "TABLE-1", "A table is as long as its tokens and hits need, and no shorter than before.")
def a_table_grows_exactly_to_its_tokens(s: Scope, step: Step) -> None:
    if is_accepted(step):
        present = old_table(step).length + hit_table(step).length
        due = most(present, blocks_for(slots(step), step.before.config.groups[0].block_size))
        s.prove(new_table(step).length == due)


@about(ANY_POOL, "POOL-1", "A block is queued exactly if nobody holds it, whatever the size of the pool.")
def every_block_stays_well_formed(s: Scope, step: Step) -> None:
    if is_accepted(step):
        s.prove(is_well_formed(after(step).pool, the_block(s)))

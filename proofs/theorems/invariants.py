"""The invariants of the specification's loops over pools and tables of any size, by the name of the step."""

from typing import Any

import z3

from slotproof.proofs.counting import Kind, definition, unreferenced
from slotproof.proofs.engine import Bool, Int, term_of
from slotproof.proofs.loops import INVARIANTS, Context, Facts, Invariant
from slotproof.proofs.pool import AnyPool, SymbolicPool, is_between, is_queued, is_usable, is_well_formed, stamp
from slotproof.proofs.scope import implies, negated
from slotproof.proofs.table import SymbolicTable
from slotproof.spec.admission import Growth
from slotproof.spec.groups import WindowScan
from slotproof.spec.keys import block_key
from slotproof.spec.pool import NO_KEY


def is_usable_and_well_formed(pool: AnyPool, block: Any, _: Context) -> Any:
    """What most loops suppose of every block at the start."""
    return is_usable(pool, block) & is_well_formed(pool, block)


def any_pool(start: Any, mark: str) -> SymbolicPool:
    """A pool of which nothing is known but its size."""
    return SymbolicPool.arbitrary(start.size, mark)


def passed(items: Any, block: Any, turn: Any) -> Any:
    """Whether the block stands among the items before a turn."""
    place = items.place(block)
    return (place >= 0) & (place < turn)


def ends_stay(start: Any, now: Any) -> Any:
    """Whether the queue begins and ends where it did."""
    return (Int(now.front) == Int(start.front)) & (Int(now.back) == Int(start.back))


# Popping.


def any_growth(start: Any, mark: str) -> Growth:
    """A pool and a table of which nothing is known but the pool's size and how many entries are null."""
    length = Int(z3.Int(f"table length{mark}"))
    table: Any = SymbolicTable.arbitrary(f"table{mark}", length, Int(start.table.nulls))
    return Growth(any_pool(start.pool, mark), table)  # type: ignore[arg-type]


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
    """Entries behind the null ones are usable blocks, named once, and out of the queue."""
    entry = Int(z3.Select(now.table.array, place.term))
    within = (place >= Int(now.table.nulls)) & (place < now.table.length)
    return [
        ("entries are named once", now.table.is_proper(place)),
        ("entries are the pool's", implies(within, is_usable(start.pool, entry))),
        ("entries are not queued", implies(within, negated(is_queued(now.pool, entry)))),
    ]


INVARIANTS["pop_into_table"] = Invariant(
    any_growth,
    growth_facts,
    lambda start, block, _: is_usable_and_well_formed(start.pool, block, _) & Bool(start.table.says_of(block)),
    growth_entries,
)


# Pinning, and counting what is idle.


def pin_facts(turn: Any, start: Any, now: Any, block: Any, context: Context) -> Facts:
    """After so many turns: a block whose place was passed is held once more and not queued; others are as they were."""
    items = context["items"]
    pinned, idle = passed(items, block, turn), unreferenced(Kind.ANY, start, items, turn)
    return [
        ("as many fewer are free as hits were idle", now.num_free() == start.num_free() - idle),
        ("null entries are not idle", implies(turn <= Int(items.nulls), idle == 0)),
        ("what was passed has one reference more", implies(pinned, now.ref(block) == start.ref(block) + 1)),
        ("what was not has as many", implies(negated(pinned), now.ref(block) == start.ref(block))),
        ("what was passed is not queued", implies(pinned, negated(is_queued(now, block)))),
        ("what was not is where it was", implies(negated(pinned), is_queued(now, block) == is_queued(start, block))),
        ("keys stay", now.key_of(block) == start.key_of(block)),
        ("blocks stay well formed", is_well_formed(now, block)),
    ]


INVARIANTS["pin_block"] = Invariant(
    any_pool,
    pin_facts,
    is_usable_and_well_formed,
    defined=lambda turn, start, context: definition(Kind.ANY, start, context["items"], turn),
)


def idle_facts(turn: Any, start: Any, now: Any, _: Any, context: Context) -> Facts:
    """After so many turns as many were counted as are idle."""
    items = context["items"]
    idle = unreferenced(Kind.ANY, context["snapshot"].pool, items, turn)
    return [
        ("what is counted is idle", now == start + idle),
        ("no count is negative", idle >= 0),
        ("null entries are not idle", implies(turn <= Int(items.nulls), idle == 0)),
    ]


INVARIANTS["add_if_idle"] = Invariant(
    lambda _, mark: Int(z3.Int(f"idle{mark}")),
    idle_facts,
    defined=lambda turn, _, context: definition(Kind.ANY, context["snapshot"].pool, context["items"], turn),
)


# Keying.


def key_facts(turn: Any, start: Any, now: Any, block: Any, context: Context) -> Facts:
    """After so many turns a block whose place was passed carries its key, any other the one it had."""
    place, counter = context["table"].place(block), context["counter"]
    keyed = (place >= counter) & (place < counter + turn)
    key = block_key(context["request"].prefix_key(place), context["number"], len(context["config"].groups))
    return [
        ("what was passed carries its key", implies(keyed, now.key_of(block) == key)),
        ("what was not carries what it carried", implies(negated(keyed), now.key_of(block) == start.key_of(block))),
        ("references stay", now.ref(block) == start.ref(block)),
        ("the queue stays", is_queued(now, block) == is_queued(start, block)),
        ("as many are free", now.num_free() == start.num_free()),
        ("blocks stay well formed", is_well_formed(now, block)),
    ]


INVARIANTS["key_entry"] = Invariant(any_pool, key_facts, is_usable_and_well_formed)


# Nulling what a window has left behind.


def null_facts(turn: Any, start: Any, now: Any, _: Any, __: Context) -> Facts:
    """After so many turns so many of the first entries are null, and no other that was not."""
    nulls, before = Int(now.nulls), Int(start.nulls)
    return [
        ("what was passed is null", nulls >= turn),
        ("what was null stays null", nulls >= before),
        ("nothing else is null", (nulls == turn) | (nulls == before)),
    ]


INVARIANTS["null_entry"] = Invariant(
    lambda start, mark: start.with_nulls(z3.Int(f"null entries{mark}")),
    null_facts,
)


# Releasing a run: every block loses a reference, then those that reach 0 are queued.


def drop_facts(turn: Any, start: Any, now: Any, block: Any, context: Context) -> Facts:
    """After so many turns: a block that was passed has one reference less; nothing else changes."""
    dropped = passed(context["items"], block, turn)
    return [
        ("what was passed has one reference less", implies(dropped, now.ref(block) == start.ref(block) - 1)),
        ("what was not has as many", implies(negated(dropped), now.ref(block) == start.ref(block))),
        ("keys stay", now.key_of(block) == start.key_of(block)),
        ("the queue stays", is_queued(now, block) == is_queued(start, block)),
        ("stamps stay", stamp(now, block) == stamp(start, block)),
        ("the ends of the queue stay", ends_stay(start, now)),
        ("as many are free", now.num_free() == start.num_free()),
    ]


INVARIANTS["drop_reference"] = Invariant(any_pool, drop_facts, is_usable_and_well_formed)


def is_goer(kind: Kind, pool: Any, block: Any) -> Any:
    """Whether a released block is one that a loop queues."""
    unheld = pool.ref(block) == 0
    if kind == Kind.ANY:
        return unheld
    return unheld & ((pool.key_of(block) != NO_KEY) if kind == Kind.KEYED else (pool.key_of(block) == NO_KEY))


def queue_facts(kind: Kind, turn: Any, start: Any, now: Any, block: Any, context: Context) -> Facts:
    """After so many turns: a block that was passed and is of the kind is queued, one behind or before the other."""
    items = context["items"]
    goes = passed(items, block, turn) & is_goer(kind, start, block)
    ahead = unreferenced(kind, start, items, items.place(block))
    number = unreferenced(kind, start, items, turn)
    queued = Int(start.front) - ahead if kind == Kind.KEYLESS else Int(start.back) + ahead
    front, back = (number, 0) if kind == Kind.KEYLESS else (0, number)
    return [
        ("as many more are free", now.num_free() == start.num_free() + number),
        ("no count is negative", number >= 0),
        ("references stay", now.ref(block) == start.ref(block)),
        ("keys stay", now.key_of(block) == start.key_of(block)),
        ("what was released is queued", implies(goes, is_queued(now, block))),
        ("it stands in order", implies(goes, stamp(now, block) == queued)),
        ("what was not is where it was", implies(negated(goes), is_queued(now, block) == is_queued(start, block))),
        ("and in the place where it was", implies(negated(goes), stamp(now, block) == stamp(start, block))),
        ("the front moves with the queue", Int(now.front) == Int(start.front) - front),
        ("the back moves with the queue", Int(now.back) == Int(start.back) + back),
        ("all stand between the ends", is_between(now, block)),
    ]


def may_be_queued(kind: Kind, start: Any, block: Any, context: Context) -> Any:
    """What such a loop supposes: a block of the run is not queued, but for the keyed ones before the keyless go."""
    waits = negated(is_queued(start, block))
    if kind == Kind.KEYLESS:
        waits = is_queued(start, block) == is_goer(Kind.KEYED, start, block)
    named = context["items"].place(block) >= 0
    proper = is_usable(start, block) & (start.ref(block) >= 0) & is_between(start, block)
    return proper & implies(named, waits) & implies(negated(named), is_well_formed(start, block))


def queueing(kind: Kind) -> Invariant:
    """The invariant of a loop that queues the released blocks of a kind."""
    return Invariant(
        any_pool,
        lambda turn, start, now, block, context: queue_facts(kind, turn, start, now, block, context),
        lambda start, block, context: may_be_queued(kind, start, block, context),
        defined=lambda turn, start, context: definition(kind, start, context["items"], turn),
    )


INVARIANTS["enqueue_keyed"] = queueing(Kind.KEYED)
INVARIANTS["enqueue_keyless"] = queueing(Kind.KEYLESS)
INVARIANTS["enqueue_released"] = queueing(Kind.ANY)


# Evicting.


def evict_facts(turn: Any, start: Any, now: Any, block: Any, evicted: Any) -> Facts:
    """After so many turns a block that was passed is keyless; nothing else changes."""
    return [
        ("what was passed is keyless", implies(evicted, now.key_of(block) == NO_KEY)),
        ("what was not carries what it carried", implies(negated(evicted), now.key_of(block) == start.key_of(block))),
        ("references stay", now.ref(block) == start.ref(block)),
        ("the queue stays", is_queued(now, block) == is_queued(start, block)),
        ("its order stays", stamp(now, block) == stamp(start, block)),
        ("as many are free", now.num_free() == start.num_free()),
        ("the ends of the queue stay", ends_stay(start, now)),
    ]


INVARIANTS["evict_block"] = Invariant(
    any_pool,
    lambda turn, start, now, block, context: evict_facts(
        turn, start, now, block, passed(context["items"], block, turn)
    ),
)

INVARIANTS["evict_next"] = Invariant(
    any_pool,
    lambda turn, start, now, block, _: evict_facts(turn, start, now, block, (block >= 1) & (block <= turn)),
)


# Looking for the longest hit.


def run_facts(turn: Any, _: Any, run: Any, index: Any, context: Context) -> Facts:
    """After so many turns from the left: the run is what is cached from the start up to the first miss."""
    cached = context["cached"]
    return [
        ("the run reaches no further than it was looked at", (run >= 0) & (run <= turn)),
        ("all of it is cached", implies((index >= 0) & (index < run), cached(index))),
        ("it ends at a miss or goes on", (run == turn) | negated(cached(run))),
    ]


INVARIANTS["extend_run"] = Invariant(lambda _, mark: Int(z3.Int(f"run{mark}")), run_facts)

CACHED = "cached"
"""The property of an index that a theorem about hits is stated for."""

IS_CACHED = z3.Function(CACHED, z3.IntSort(), z3.BoolSort())

IN_A_ROW = z3.Function("in a row before", z3.IntSort(), z3.IntSort())
"""How many cached blocks end before an index without a gap; what the loop takes for cached is no part of it."""


def goes_on(index: Any) -> Any:
    """How many are in a row before the index after this one: none behind a miss, else one more."""
    before = IN_A_ROW(index.term)
    following = z3.If(IS_CACHED(index.term), z3.If(before > 0, before, 0) + 1, 0)
    return z3.Implies(index.term >= 0, IN_A_ROW(index.term + 1) == following)


def row_defined(turn: Any, _: Any, context: Context) -> tuple[Any, ...]:
    """None are in a row at the very start; how it goes on at the indices around a turn from the right."""
    around = [context["limit"] - turn - back for back in (1, 2)]
    return (IN_A_ROW(0) == 0, *map(goes_on, around))


def scan_facts(turn: Any, _: Any, scan: Any, index: Any, context: Context) -> Facts:
    """After so many turns from the right: a run up to where it ends, and nothing that is enough behind that."""
    limit, enough = context["limit"], context["enough"]
    low = limit - turn
    row, open_run = Int(IN_A_ROW(index.term)), scan.run < enough
    at_low, at_end = Int(IN_A_ROW(low.term)), Int(IN_A_ROW(term_of(scan.end)))
    return [
        ("a run is counted up to what is enough", (scan.run >= 0) & (scan.run <= enough)),
        ("the end is one of the lengths", (scan.end >= low) & (scan.end <= limit)),
        ("an open run reaches from here to the end", implies(open_run, scan.end == low + scan.run)),
        ("and is cached", implies(open_run, at_end == at_low + scan.run)),
        (
            "as are its parts",
            implies(open_run & (low <= index) & (index <= scan.end), row == at_low + (index - low)),
        ),
        ("what is enough stands before the end", implies(negated(open_run), at_end >= enough)),
        ("no longer hit is valid", implies((scan.end < index) & (index <= limit), lacks(row, index, enough))),
    ]


def lacks(row: Any, length: Any, enough: Any) -> Any:
    """Whether a hit of this length lacks a block that is read: a shorter row is enough only at the very start."""
    return (row < enough) & (row < length)


INVARIANTS["scan_back"] = Invariant(
    lambda _, mark: WindowScan(Int(z3.Int(f"run{mark}")), Int(z3.Int(f"end{mark}"))),  # type: ignore[arg-type]
    scan_facts,
    defined=row_defined,
)

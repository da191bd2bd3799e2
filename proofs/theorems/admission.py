"""Theorems about the loops of `spec/admission.py`: any pool, any table, any number of turns."""

from types import MappingProxyType, SimpleNamespace
from typing import Any

import z3

from slotproof.proofs.engine import Bool, Int
from slotproof.proofs.loops import ANY_BLOCK, INVARIANTS, ITS_PLACE, Facts, Invariant
from slotproof.proofs.pool import AnyPool, SymbolicPool, is_queued, is_usable, is_well_formed
from slotproof.proofs.scope import Scope, negated
from slotproof.proofs.table import SymbolicTable
from slotproof.proofs.theorem import theorem
from slotproof.spec import admission
from slotproof.spec.admission import Growth
from slotproof.spec.arithmetic import ceil_div
from slotproof.spec.groups import FullAttention
from slotproof.spec.pool import NO_KEY
from slotproof.spec.snapshot import Holding, Snapshot

SCOPE = "any pool, table and number of blocks"
HIT_SCOPE = "any pool, and any table of usable blocks that names none twice"


def any_growth(start: Any, mark: str) -> Growth:
    """A pool and a table of which nothing is known but the pool's size."""
    pool = SymbolicPool.arbitrary(start.pool.size, mark)
    return Growth(pool, SymbolicTable.arbitrary(f"table{mark}", Int(z3.Int(f"table length{mark}"))))  # type: ignore[arg-type]


def growth_facts(turn: Any, start: Any, now: Any, block: Any, _: Any) -> Facts:
    """After so many turns: as many blocks fewer are free and more in the table; a block was popped, or is as it was."""
    kept = (now.pool.ref(block) == start.pool.ref(block)) & (now.pool.key_of(block) == start.pool.key_of(block))
    fresh = (now.pool.ref(block) == 1) & (now.pool.key_of(block) == NO_KEY)
    popped = is_queued(start.pool, block) & negated(is_queued(now.pool, block))
    return [
        ("as many blocks fewer are free", now.pool.num_free() == start.pool.num_free() - turn),
        ("the table is as much longer", now.table.length == start.table.length + turn),
        ("nothing enters the queue", implies(is_queued(now.pool, block), is_queued(start.pool, block))),
        ("a popped block is keyless and held once", implies(popped, fresh)),
        ("any other block is as it was", implies(negated(popped), kept)),
        ("blocks stay well formed", is_well_formed(now.pool, block)),
    ]


def implies(premise: Any, conclusion: Any) -> Any:
    """`conclusion` wherever `premise` holds."""
    return negated(premise) | conclusion if isinstance(premise, Bool) else (not premise or conclusion)


def is_usable_and_well_formed(pool: AnyPool, block: Any) -> Any:
    """What a theorem supposes of every block at the start."""
    return is_usable(pool, block) & is_well_formed(pool, block)


INVARIANTS["pop_into_table"] = Invariant(
    any_growth, growth_facts, lambda start, block: is_usable_and_well_formed(start.pool, block)
)


def growing(s: Scope) -> tuple[Snapshot, Any, Any, Any]:
    """A request with any table in any pool, an arbitrary block, tokens to hold, and how many blocks that is short
    of.
    """
    pool = s.pool()
    block = s.block(ANY_BLOCK, pool)
    group = FullAttention(s.integer("block_size", 1))
    table = s.table("table_length", block, s.integer(ITS_PLACE))
    config = SimpleNamespace(groups=(group,))
    snapshot = Snapshot(config, pool, MappingProxyType({"r": Holding((table,), (0,))}))  # type: ignore[arg-type]
    tokens = s.integer("tokens")
    return snapshot, block, tokens, ceil_div(tokens, group.block_size) - table.length


@theorem("COUNT-1", "A table grows by exactly the blocks it lacks, all from the queue; pops never underflow.", SCOPE)
def a_table_grows_by_exactly_what_it_lacks(s: Scope) -> None:
    before, _, tokens, missing = growing(s)
    s.assume(missing <= before.pool.num_free())
    s.assume(before.pool.num_free() >= 0)
    after = admission.grow_tables(before, "r", tokens)
    popped = before.pool.num_free() - after.pool.num_free()
    s.prove(popped >= missing)
    s.prove((popped == missing) | (popped == 0))
    s.prove(popped >= 0)
    s.prove(after.holding("r").tables[0].length == before.holding("r").tables[0].length + popped)


@theorem("COMMIT-3", "Growing a table pops a block or leaves it as it was.", SCOPE)
def growing_pops_a_block_or_leaves_it_alone(s: Scope) -> None:
    before, block, tokens, missing = growing(s)
    s.assume(missing <= before.pool.num_free())
    after = admission.grow_tables(before, "r", tokens)
    popped = is_queued(before.pool, block) & negated(is_queued(after.pool, block))
    s.prove(implies(popped, (after.pool.ref(block) == 1) & (after.pool.key_of(block) == NO_KEY)))
    s.prove(implies(negated(popped), after.pool.ref(block) == before.pool.ref(block)))
    s.prove(implies(negated(popped), after.pool.key_of(block) == before.pool.key_of(block)))
    s.prove(is_well_formed(after.pool, block))


def any_pool(start: Any, mark: str) -> SymbolicPool:
    """A pool of which nothing is known but its size."""
    return SymbolicPool.arbitrary(start.size, mark)


def is_between(low: Any, place: Any, high: Any) -> Any:
    """`low <= place < high`."""
    return (low <= place) & (place < high)


def pin_facts(turn: Any, start: Any, now: Any, block: Any, place: Any) -> Facts:
    """After so many turns: a block whose place was passed is held once more and not queued; others are as they were."""
    pinned = is_between(0, place, turn)
    return [
        ("what was passed has one reference more", implies(pinned, now.ref(block) == start.ref(block) + 1)),
        ("what was not has as many", implies(negated(pinned), now.ref(block) == start.ref(block))),
        ("what was passed is not queued", implies(pinned, negated(is_queued(now, block)))),
        ("what was not is where it was", implies(negated(pinned), is_queued(now, block) == is_queued(start, block))),
        ("keys stay", now.key_of(block) == start.key_of(block)),
        ("blocks stay well formed", is_well_formed(now, block)),
    ]


INVARIANTS["pin_block"] = Invariant(any_pool, pin_facts, is_usable_and_well_formed)


@theorem(
    "COMMIT-1",
    "With full attention every hit block, and no other, gets one reference more and leaves the queue.",
    HIT_SCOPE,
)
def every_hit_is_pinned_and_nothing_else(s: Scope) -> None:
    before = s.pool()
    block, place = s.block(ANY_BLOCK, before), s.integer(ITS_PLACE)
    hit = s.table("hit_length", block, place)
    config = SimpleNamespace(groups=(FullAttention(s.integer("block_size", 1)),))
    snapshot = Snapshot(config, before, MappingProxyType({}))  # type: ignore[arg-type]
    call = SimpleNamespace(
        hit=SimpleNamespace(num_tokens=1),
        num_external_computed_tokens=0,
        num_computed_tokens=1,
        hit_table=lambda number: hit,
        request=SimpleNamespace(request_id="r"),
    )
    after = admission.adopt_hits(snapshot, call).pool  # type: ignore[arg-type]
    pinned = place < hit.length
    s.prove(implies(pinned, (after.ref(block) == before.ref(block) + 1) & negated(is_queued(after, block))))
    s.prove(implies(negated(pinned), after.ref(block) == before.ref(block)))
    s.prove(implies(negated(pinned), is_queued(after, block) == is_queued(before, block)))
    s.prove(after.key_of(block) == before.key_of(block))
    s.prove(is_well_formed(after, block))

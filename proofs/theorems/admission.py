"""Theorems about the loops of `spec/admission.py`: any pool, any table, any number of turns."""

from types import MappingProxyType, SimpleNamespace
from typing import Any

import z3

from slotproof.proofs.engine import Bool, Int
from slotproof.proofs.loops import INVARIANTS, Facts, Invariant
from slotproof.proofs.pool import SymbolicPool, is_queued, is_well_formed
from slotproof.proofs.table import SymbolicTable
from slotproof.proofs.theorem import Scope, negated, theorem
from slotproof.spec import admission
from slotproof.spec.admission import Growth
from slotproof.spec.arithmetic import ceil_div
from slotproof.spec.groups import FullAttention
from slotproof.spec.pool import NO_KEY
from slotproof.spec.snapshot import Holding, Snapshot

SCOPE = "any pool, table and number of blocks"
ANY_BLOCK = "any block"


def any_growth(start: Any, mark: str) -> Growth:
    """A pool and a table of which nothing is known but the pool's size."""
    pool = SymbolicPool.arbitrary(start.pool.size, mark)
    return Growth(pool, SymbolicTable.arbitrary(f"table{mark}", Int(z3.Int(f"table length{mark}"))))  # type: ignore[arg-type]


def growth_facts(turn: Any, start: Any, now: Any) -> Facts:
    """After so many turns: as many blocks fewer are free and more in the table; a block was popped, or is as it was."""
    block = Int(z3.Int(ANY_BLOCK))
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


INVARIANTS["pop_into_table"] = Invariant(any_growth, growth_facts)


def growing(s: Scope) -> tuple[Snapshot, Any, Any, Any]:
    """A request with any table in any pool, an arbitrary block, tokens to hold, and how many blocks that is short
    of.
    """
    pool = s.pool()
    block = s.block(ANY_BLOCK, pool)
    group = FullAttention(s.integer("block_size", 1))
    table = s.table("table_length")
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

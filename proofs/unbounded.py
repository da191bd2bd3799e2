"""Calls with full attention in pools of any size: any number of blocks, table length, hits and other requests."""

from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

import z3

from slotproof.proofs.engine import Int, current_run, term_of
from slotproof.proofs.loops import ANY_BLOCK
from slotproof.proofs.pool import (
    WITNESS_BLOCKS,
    SymbolicPool,
    concrete_pool,
    is_usable,
    is_well_formed,
    small_pool,
)
from slotproof.proofs.shapes import ASKING, any_arguments, any_config, integer
from slotproof.proofs.table import SymbolicTable
from slotproof.proofs.values import PREFIX_KEY, number, under
from slotproof.spec.admission import Call
from slotproof.spec.groups import FullAttention
from slotproof.spec.lookup import Hit
from slotproof.spec.snapshot import Holding, Snapshot, Table

IDLE_HITS = z3.Function("idle hits among the first", z3.IntSort(), z3.IntSort())
"""How many of the first so many hits are idle; each entry that is read says how the next number follows."""


@dataclass(frozen=True, slots=True)
class SymbolicHit:
    """A hit of any number of blocks in one group."""

    num_tokens: Any
    table: SymbolicTable


@dataclass(frozen=True, slots=True)
class SymbolicCall(Call):
    """A call that brings a symbolic hit."""

    def hit_table(self, number: int) -> Any:
        """The blocks of the hit."""
        hit: Any = self.hit
        return hit.table


def any_unbounded_call() -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot and a call, with a block size, a table, a hit and a pool of any size."""
    run, block_size = current_run(), integer("block_size", 1)
    pool = SymbolicPool.arbitrary()
    run.know(pool.front < pool.back, pool.free >= 0, IDLE_HITS(0) == 0)
    held = proper_table("table", pool)
    hit = proper_table("hit", pool)
    run.know_everywhere(lambda block: premises(Int(block), pool, held, hit))
    run.know(z3.Int(ANY_BLOCK) > 0, z3.Int(ANY_BLOCK) < pool.size)
    run.mention(z3.Int(ANY_BLOCK))
    config = any_config(Int(pool.size), (FullAttention(block_size),))
    counter = integer("cached")
    run.know(counter.term <= held.size)
    holding: Any = Holding((held,), (counter,))  # type: ignore[arg-type]
    snapshot = Snapshot(config, pool, MappingProxyType({ASKING: holding}))  # type: ignore[arg-type]
    return snapshot, (any_arguments(SymbolicCall, SymbolicHit(hit.length * block_size, hit)),)


def proper_table(name: str, pool: SymbolicPool) -> SymbolicTable:
    """A table of usable blocks, each named once; of a hit, with how many are idle."""
    table = SymbolicTable.arbitrary(name, integer(f"{name} length"))

    def claims(place: Any) -> tuple[Any, ...]:
        entry, index = z3.Select(table.array, term_of(place)), term_of(place)
        idle = z3.If(z3.Select(pool.refs, entry) == 0, 1, 0)
        counted = z3.Implies(index >= 0, IDLE_HITS(index + 1) == IDLE_HITS(index) + idle)
        within = z3.Implies(z3.And(index >= 0, index < table.size), entry < pool.size)
        return (table.is_proper(place).term, within, *((counted,) if name == "hit" else ()))

    return table.claiming(claims)


def premises(block: Int, pool: SymbolicPool, held: SymbolicTable, hit: SymbolicTable) -> tuple[Any, ...]:
    """What a snapshot promises of every block: POOL-1, and that what a table names is held."""
    usable = is_usable(pool, block)
    named: Any = held.names(block)
    return (
        z3.Implies(usable.term, is_well_formed(pool, block).term),
        held.says_of(block),
        hit.says_of(block),
        z3.Implies(named.term, (pool.ref(block) > 0).term),
    )


MOST_SHOWN = 3
"""Entries of a table that is shown."""


def small_world(before: Snapshot, call: Call) -> tuple[Any, ...]:
    """Conditions under which a snapshot and a call can be shown: what is promised of every block holds of all."""
    pool: Any = before.pool
    held, hit = tables_of(before, call)
    said = [fact for block in range(1, WITNESS_BLOCKS) for fact in premises(Int(z3.IntVal(block)), pool, held, hit)]
    for table in (held, hit):
        said.append(table.size <= MOST_SHOWN)
        said += [fact for place in range(MOST_SHOWN) for fact in table.claims(Int(z3.IntVal(place)))]
    for place in range(MOST_SHOWN):
        key = z3.Select(pool.keys, z3.Select(hit.array, place))
        said.append(z3.Implies(place < hit.size, key == PREFIX_KEY(place)))
    watermark: Any = before.config.watermark_blocks
    return (*small_pool(pool), *said, watermark.term < WITNESS_BLOCKS - 1)


def shown(model: Any, before: Snapshot, call: Call) -> tuple[Snapshot, Call]:
    """The snapshot and the call that a model of a small world describes."""
    held, hit = (entries_under(model, table) for table in tables_of(before, call))
    holding = before.holding(ASKING)
    snapshot = Snapshot(
        under(model, before.config),
        concrete_pool(model, before.pool),  # type: ignore[arg-type]
        MappingProxyType({ASKING: Holding((Table(held),), under(model, holding.cached))} if held else {}),
    )
    parts = {part.name: under(model, getattr(call, part.name)) for part in fields(Call) if part.name != "hit"}
    return snapshot, Call(hit=Hit(len(hit) * snapshot.config.block_size, (hit,)), **parts)


def tables_of(before: Snapshot, call: Call) -> tuple[SymbolicTable, SymbolicTable]:
    """The request's table, and that of the hit."""
    held: Any = before.holding(ASKING).tables[0]
    hit: Any = call.hit_table(0)
    return held, hit


def entries_under(model: Any, table: SymbolicTable) -> tuple[int, ...]:
    """The entries that a model gives a table."""
    return tuple(number(model, z3.Select(table.array, place)) for place in range(number(model, table.size)))

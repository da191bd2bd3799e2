"""Snapshots and arguments of any size: any number of blocks, table length, hits and other requests.

Besides what each table promises of itself, a snapshot promises: POOL-1 for every block, that what a table names is
held, and that no block stands in the tables of two groups.
"""

from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

import z3

from slotproof.proofs.counting import expanded
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
from slotproof.proofs.values import PREFIX_KEY, made, number, under
from slotproof.spec.admission import Call
from slotproof.spec.groups import FullAttention, Group, SlidingWindow
from slotproof.spec.lookup import Hit
from slotproof.spec.snapshot import Holding, Snapshot, Table


@dataclass(frozen=True, slots=True)
class SymbolicHit:
    """A hit of any number of blocks, a table a group."""

    num_tokens: Any
    tables: tuple[SymbolicTable, ...]
    tails: tuple[int, ...] = ()

    @property
    def names_blocks(self) -> Any:
        """Whether it has any block; all tables are of one length."""
        return self.tables[0].length > 0


@dataclass(frozen=True, slots=True)
class SymbolicCall(Call):
    """A call that brings a symbolic hit."""

    def hit_table(self, number: int) -> Any:
        """The blocks of the hit in one group."""
        hit: Any = self.hit
        return hit.tables[number]


WINDOW_BLOCK_SIZE = 16
"""Of blocks of any size and windows of any length at once, Z3 often does not know."""


def any_unbounded_snapshot(kinds: str) -> Snapshot:
    """A snapshot with tables and a pool of any size; `kinds` has a letter a group, as in `Shape`.

    With full attention alone the block size is any as well.
    """
    run, block_size = current_run(), WINDOW_BLOCK_SIZE if "w" in kinds else integer("block_size", 1)
    pool = SymbolicPool.arbitrary()
    run.know(pool.front < pool.back, pool.free >= 0)
    groups = tuple(any_unbounded_group(place, kind, block_size) for place, kind in enumerate(kinds))
    tables = tuple(any_proper_table(f"table {place}", kind, pool) for place, kind in enumerate(kinds))
    run.know_everywhere(lambda block: promises(Int(block), pool, tables))
    run.know(z3.Int(ANY_BLOCK) > 0, z3.Int(ANY_BLOCK) < pool.size)
    counters = tuple(integer(f"cached {place}") for place in range(len(kinds)))
    run.know(*[counter.term <= table.size for counter, table in zip(counters, tables, strict=True)])
    config = any_config(Int(pool.size), groups)
    holding: Any = Holding(tables, counters)  # type: ignore[arg-type]
    return Snapshot(config, pool, MappingProxyType({ASKING: holding}))  # type: ignore[arg-type]


def any_unbounded_group(place: int, kind: str, block_size: Any) -> Group:
    """A group of any block size and window."""
    if kind == "f":
        return FullAttention(block_size)
    return made(SlidingWindow, block_size=block_size, window=integer(f"window {place}", 2))


def any_proper_table(name: str, kind: str, pool: SymbolicPool, size: Any = None) -> SymbolicTable:
    """A table of usable blocks, each named once; in a window group the first entries may be null."""
    length = integer(f"{name} length") if size is None else size
    nulls = integer(f"{name} nulls") if kind == "w" else Int(z3.IntVal(0))
    current_run().know((nulls <= length).term)
    table = SymbolicTable.arbitrary(name, length, nulls)

    def claims(place: Any) -> tuple[Any, ...]:
        entry, index = z3.Select(table.array, term_of(place)), term_of(place)
        within = z3.Implies(z3.And(index >= table.nulls, index < table.size), entry < pool.size)
        return table.is_proper(place).term, within

    return table.claiming(claims)


def promises(block: Int, pool: SymbolicPool, tables: tuple[SymbolicTable, ...]) -> tuple[Any, ...]:
    """What a snapshot promises of every block."""
    named = [term_of(table.names(block)) for table in tables]
    return (
        z3.Implies(is_usable(pool, block).term, is_well_formed(pool, block).term),
        *in_one_table_at_most(block, tables),
        *[z3.Implies(one, (pool.ref(block) > 0).term) for one in named],
    )


def in_one_table_at_most(block: Int, tables: tuple[SymbolicTable, ...]) -> tuple[Any, ...]:
    """A block that a table names stands there, and in no other group's."""
    named = [term_of(table.names(block)) for table in tables]
    pairs = [z3.Not(z3.And(one, other)) for place, one in enumerate(named) for other in named[:place]]
    return (*[table.says_of(block) for table in tables], *pairs)


def any_unbounded_call(kinds: str) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot and a call with a hit of any length."""
    run, snapshot = current_run(), any_unbounded_snapshot(kinds)
    pool: Any = snapshot.pool
    length = integer("hit length")
    hits = tuple(any_proper_table(f"hit {place}", kind, pool, length) for place, kind in enumerate(kinds))
    for group, hit in zip(snapshot.config.groups, hits, strict=True):
        run.know((Int(hit.nulls) <= length - group.blocks_read(length)).term)
    run.know_everywhere(lambda block: in_one_table_at_most(Int(block), hits))
    run.mention(z3.Int(ANY_BLOCK))
    found = SymbolicHit(length * snapshot.config.groups[0].block_size, hits)
    return snapshot, (any_arguments(SymbolicCall, found),)


def any_unbounded_holder(kinds: str) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot and the request that holds something in it."""
    snapshot = any_unbounded_snapshot(kinds)
    current_run().mention(z3.Int(ANY_BLOCK))
    return snapshot, (ASKING,)


def any_unbounded_pool(kinds: str) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot, and no argument."""
    return any_unbounded_holder(kinds)[0], ()


def any_number_of_blocks(kinds: str) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot and any number of usable blocks; `places` says where each is named first."""
    run, snapshot = current_run(), any_unbounded_snapshot(kinds)
    pool: Any = snapshot.pool
    named = SymbolicTable.arbitrary("blocks named", integer("number of blocks named"))

    def claims(place: Any) -> tuple[Any, ...]:
        entry, index = z3.Select(named.array, term_of(place)), term_of(place)
        first = z3.Select(named.places, entry)
        proper = z3.And(entry > 0, entry < pool.size, first >= 0, first <= index)
        return (z3.Implies(z3.And(index >= 0, index < named.size), proper),)

    run.know_everywhere(lambda block: (named.says_of(Int(block)),))
    run.mention(z3.Int(ANY_BLOCK))
    return snapshot, (named.claiming(claims),)


MOST_SHOWN = 3
"""Entries of a table that is shown."""


def small_world(before: Snapshot, arguments: tuple[Any, ...], conditions: tuple[Any, ...]) -> tuple[Any, ...]:
    """Conditions under which a snapshot and arguments can be shown: what is promised of every block holds of all."""
    pool: Any = before.pool
    tables = tables_of(before)
    hits = tuple(hit for argument in arguments for hit in hits_of(argument))
    blocks = [Int(z3.IntVal(block)) for block in range(1, WITNESS_BLOCKS)]
    said = [fact for block in blocks for fact in promises(block, pool, tables)]
    said += [fact for block in blocks for fact in in_one_table_at_most(block, hits)]
    for table in (*tables, *hits, *filter(is_table, arguments)):
        said += [table.size <= MOST_SHOWN, *[table.says_of(block) for block in blocks]]
        said += [fact for place in range(MOST_SHOWN) for fact in table.claims(Int(z3.IntVal(place)))]
    for group, hit in enumerate(hits):
        said += [carries_its_key(pool, hit, place, group, len(hits)) for place in range(MOST_SHOWN)]
    watermark: Any = before.config.watermark_blocks
    said += expanded(conditions, MOST_SHOWN)
    return (*small_pool(pool), *said, watermark.term < WITNESS_BLOCKS - 1)


def is_table(argument: Any) -> bool:
    """Whether an argument is any number of blocks."""
    return isinstance(argument, SymbolicTable)


def hits_of(argument: Any) -> tuple[SymbolicTable, ...]:
    """The tables of a call's hit."""
    return argument.hit.tables if isinstance(argument, SymbolicCall) else ()  # type: ignore[attr-defined]


def carries_its_key(pool: SymbolicPool, hit: SymbolicTable, place: int, group: int, num_groups: int) -> Any:
    """A block of a hit carries the key of its position, or the hit does not reach so far, or is null there."""
    key = z3.Select(pool.keys, z3.Select(hit.array, place))
    return z3.Or(place >= hit.size, place < hit.nulls, key == PREFIX_KEY(place) * num_groups + group)


def shown(model: Any, before: Snapshot, arguments: tuple[Any, ...]) -> tuple[Snapshot, tuple[Any, ...]]:
    """The snapshot and the arguments that a model of a small world describes."""
    entries = tuple(entries_under(model, table) for table in tables_of(before))
    held = Holding(tuple(map(Table, entries)), under(model, before.holding(ASKING).cached))
    snapshot = Snapshot(
        under(model, before.config),
        concrete_pool(model, before.pool),  # type: ignore[arg-type]
        MappingProxyType({ASKING: held} if any(entries) else {}),
    )
    return snapshot, tuple(shown_argument(model, snapshot, argument) for argument in arguments)


def shown_argument(model: Any, snapshot: Snapshot, argument: Any) -> Any:
    """The argument that a model describes."""
    if is_table(argument):
        return entries_under(model, argument)
    if not isinstance(argument, SymbolicCall):
        return under(model, argument)
    hit = tuple(entries_under(model, table) for table in hits_of(argument))
    parts = {part.name: under(model, getattr(argument, part.name)) for part in fields(Call) if part.name != "hit"}
    return Call(hit=Hit(len(hit[0]) * snapshot.config.block_size, hit), **parts)


def tables_of(before: Snapshot) -> tuple[SymbolicTable, ...]:
    """The request's tables."""
    tables: Any = before.holding(ASKING).tables
    return tuple(tables)


def entries_under(model: Any, table: SymbolicTable) -> tuple[int, ...]:
    """The entries that a model gives a table."""
    places = range(number(model, table.size))
    return tuple(number(model, table.entry_term(z3.IntVal(place))) for place in places)

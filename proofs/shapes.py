"""Calls in small pools: how many blocks are free, held and hit is fixed; what they hold and what is asked is not.

Block ids are names, so which ones are free, held by the request and held by others is fixed without loss: the free ones
come first and are queued in this order, then the request's, then those of others. Hits may be any of the free blocks,
in any order, and any held ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import z3

from slotproof.proofs.bounded import BoundedPool
from slotproof.proofs.engine import Bool, Int, current_run
from slotproof.proofs.values import Choice, SymbolicRequest, made
from slotproof.spec.admission import Call
from slotproof.spec.config import Config, FreeOrder
from slotproof.spec.groups import FullAttention, Group, SlidingWindow
from slotproof.spec.lookup import Hit
from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.request import Status
from slotproof.spec.snapshot import Holding, Snapshot, Table

ASKING, OTHER = "r", "other"


@dataclass(frozen=True, slots=True)
class Shape:
    """Blocks that are free, held by others, and held by the request in each group; and the blocks of the hit."""

    kinds: str
    """A letter a group: f for full attention, w for a sliding window."""
    free: int
    held: tuple[int, ...]
    others: int = 0
    hits: int = 0

    @property
    def num_blocks(self) -> int:
        """All blocks, the null block included."""
        return 1 + self.free + sum(self.held) + self.others

    @property
    def words(self) -> str:
        """The shape in words."""
        kinds = " + ".join({"f": "full", "w": "window"}[kind] for kind in self.kinds)
        return f"{kinds}, {self.free} free, {self.held} held, {self.others} others', {self.hits} hit"


def integer(name: str, least: int | None = 0, most: int | None = None) -> Any:
    """Any integer, from `least` on and up to `most` where these are given."""
    symbol = z3.Int(name)
    if least is not None:
        current_run().know(symbol >= least)
    if most is not None:
        current_run().know(symbol <= most)
    return Int(symbol)


def flag(name: str) -> Bool:
    """Any truth value."""
    return Bool(z3.Bool(name))


def choose(name: str, most: int) -> int:
    """A number from 0 to `most`, each of which is run."""
    return current_run().choose(integer(name, most=most).term)


def any_call(shape: Shape) -> tuple[Snapshot, Call]:
    """A snapshot and a call of this shape, about which nothing else is known."""
    snapshot = any_snapshot(shape)
    others = snapshot.holdings[OTHER].tables[0]
    return snapshot, any_arguments(Call, any_hit(shape, others), most_external(shape))


def most_external(shape: Shape) -> int:
    """External tokens that need one block more than is free."""
    return (shape.free + 1) * BLOCK_SIZE


def any_snapshot(shape: Shape) -> Snapshot:
    """A snapshot of this shape in which the asking request holds its tables, if it holds anything."""
    groups = tuple(any_group(number, kind) for number, kind in enumerate(shape.kinds))
    ids = iter(range(1 + shape.free, shape.num_blocks))
    parts = enumerate(zip(shape.kinds, shape.held, strict=True))
    tables = tuple(any_table(number, kind, held, ids) for number, (kind, held) in parts)
    others = Table(tuple(ids))
    holdings = {OTHER: Holding((others,) * len(groups), (0,) * len(groups))}
    if any(table.length for table in tables):
        holdings[ASKING] = Holding(tables, tuple(any_counter(number, table) for number, table in enumerate(tables)))
    config = any_config(shape.num_blocks, groups, most_watermark=shape.num_blocks - 2)
    return Snapshot(config, any_pool(shape), MappingProxyType(holdings))


def any_config(num_blocks: Any, groups: tuple[Group, ...], most_watermark: int | None = None) -> Config:
    """A configuration of so many blocks with these groups."""
    return made(
        Config,
        num_blocks=num_blocks,
        groups=groups,
        max_model_len=integer("max_model_len", 1),
        max_in_flight_tokens=integer("max_in_flight_tokens", 1),
        watermark_blocks=integer("watermark_blocks", most=most_watermark),
        caching=flag("caching"),
        free_order=Choice("free_order", FreeOrder),
        hash_size=None,
    )


def any_group(number: int, kind: str) -> Group:
    """A group of the kind; all have one block size."""
    return (
        FullAttention(BLOCK_SIZE)
        if kind == "f"
        else made(SlidingWindow, block_size=BLOCK_SIZE, window=integer(f"window {number}", 2))
    )


BLOCK_SIZE = 2


def any_pool(shape: Shape) -> Any:
    """Free blocks with any keys, held ones with any keys and references."""
    held = range(1 + shape.free, shape.num_blocks)
    refs = (0,) * (1 + shape.free) + tuple(integer(f"ref {block}", 1) for block in held)
    keys = (NO_KEY, *(integer(f"key {block}", NO_KEY) for block in range(1, shape.num_blocks)))
    return BoundedPool(refs, keys, tuple(range(1, 1 + shape.free)))


def any_table(number: int, kind: str, held: int, ids: Iterator[int]) -> Table:
    """A table of `held` blocks; in a window group some of the first may have been released."""
    entries = tuple(next(ids) for _ in range(held))
    nulls = choose(f"nulls {number}", held) if kind == "w" else 0
    return Table((NULL_BLOCK,) * nulls + entries[nulls:])


def any_counter(number: int, table: Table) -> Any:
    """How many entries have been considered for keys."""
    return integer(f"cached {number}", most=table.length)


def any_hit(shape: Shape, others: Table) -> Hit:
    """Blocks for the request's first tokens, a group; no block twice, idle or held by others."""
    free = list(range(1, 1 + shape.free))
    held = list(others.entries)
    blocks = []
    for number, kind in enumerate(shape.kinds):
        nulls = choose(f"hit nulls {number}", shape.hits) if kind == "w" else 0
        found = [pick(f"hit {number} {place}", free, held) for place in range(nulls, shape.hits)]
        blocks.append((NULL_BLOCK,) * nulls + tuple(found))
    return Hit(shape.hits * BLOCK_SIZE, tuple(blocks))


def pick(name: str, free: list[int], held: list[int]) -> int:
    """One of the free blocks, or the next held one; it is taken off its list."""
    place = choose(name, len(free) - (not held))
    return free.pop(place) if place < len(free) else held.pop(0)


def any_request() -> Any:
    """A request of which nothing is known."""
    return SymbolicRequest(
        ASKING,
        integer("num_tokens", 1),
        integer("num_computed_tokens"),
        integer("num_in_flight_tokens"),
        Choice("status", Status),
    )


def any_short_request(most_blocks: int) -> Any:
    """A request of at most so many full blocks, and a few tokens more."""
    full = choose("full blocks", most_blocks)
    rest = choose("tokens behind them", BLOCK_SIZE - 1)
    return replace(any_request(), num_tokens=full * BLOCK_SIZE + rest, num_full_blocks=full)


def any_arguments(kind: type[Call], hit: Any, external: int | None = None) -> Call:
    """A call that brings this hit, and no more than so many external tokens if that is given."""
    return made(
        kind,
        request=any_request(),
        num_new_tokens=integer("num_new_tokens"),
        hit=hit,
        num_lookahead_tokens=integer("num_lookahead_tokens"),
        num_external_computed_tokens=integer("num_external_computed_tokens", most=external),
        delay_cache_blocks=flag("delay_cache_blocks"),
        full_sequence_must_fit=flag("full_sequence_must_fit"),
        reserved_blocks=integer("reserved_blocks"),
        has_scheduled_reqs=flag("has_scheduled_reqs"),
    )

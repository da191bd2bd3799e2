"""What a target shows of its state, read after every call, and how it becomes a snapshot the laws can judge."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from slotproof.conformance.adapter import (
    Adapter,
    CountsReferences,
    ShowsCounters,
    ShowsKeys,
    ShowsQueue,
)
from slotproof.conformance.errors import AdapterError, SetupError
from slotproof.conformance.violation import Violation
from slotproof.spec.config import Config
from slotproof.spec.pool import NO_KEY, Pool
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Holding, Snapshot, Table

Answer = TypeVar("Answer")

Ids = tuple[tuple[int, ...], ...]


Names = tuple[dict[Hashable, int], dict[int, Hashable]]
"""The suite's name of each key that a target has shown, and the target's key of each name."""


@dataclass(frozen=True, slots=True)
class SeenPool(Pool):
    """A pool rebuilt from what a target showed; its number of free blocks is the one it reported."""

    reported_free: int

    def num_free(self) -> int:
        """As reported, whether or not the queue agrees."""
        return self.reported_free


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a target: only what it can show is not None."""

    num_free: int
    tables: dict[str, Ids]
    refs: tuple[int, ...] | None
    queue: tuple[int, ...] | None
    keyed: tuple[tuple[int, Hashable], ...] | None
    counters: dict[str, tuple[int, ...]] | None


class Window:
    """Looks at one adapter, in the suite's block ids (0 is null), whatever ids the target uses."""

    def __init__(self, adapter: Adapter, config: Config, names: Names | None = None) -> None:
        self._adapter = adapter
        self._config = config
        self._shift = 1 if adapter.profile.null_block is None else 0
        self._blocks = range(1, config.num_blocks)
        self.names = names or ({}, {})
        self._names, self._owners = self.names
        self._ref_count = adapter.ref_count if isinstance(adapter, CountsReferences) else None
        self._cached_keys = adapter.cached_keys if isinstance(adapter, ShowsKeys) else None
        self._free_queue = adapter.free_queue if isinstance(adapter, ShowsQueue) else None
        self._cached_counts = adapter.cached_counts if isinstance(adapter, ShowsCounters) else None
        shown = {
            "refs": self._ref_count,
            "keys": self._cached_keys,
            "queue": self._free_queue,
            "counters": self._cached_counts,
        }
        self.facets = frozenset(facet for facet, call in shown.items() if call is not None)

    def onto(self, adapter: Adapter, names: Names) -> "Window":
        """A window like this onto a copy of the adapter, with the names that its keys had got."""
        return Window(adapter, self._config, names)

    def look(self, requests: Iterable[Request]) -> Seen:
        """Everything the target shows, with the tables of these requests.

        Raises:
            AdapterError: when one of the calls that only look fails, or shows what cannot be read.
        """
        live = list(requests)
        adapter = self._adapter
        return Seen(
            readable("num_free_blocks", lambda: self._count(adapter.num_free_blocks(), "num_free_blocks")),
            readable("block_table", lambda: {request.request_id: self.table(request) for request in live}),
            readable("ref_count", self._refs),
            readable("free_queue", self._queue),
            readable("cached_keys", self._keyed),
            readable("cached_counts", lambda: self._counters(live)),
        )

    def table(self, request: Request) -> Ids:
        """The request's blocks, a group."""
        return self.ids(self._adapter.block_table(request), "block_table")

    def ids(self, blocks: object, call: str) -> Ids:
        """Block ids a group, from whatever sequence of sequences, or flat sequence, an adapter returned."""
        num_groups = len(self._config.groups)
        if not isinstance(blocks, Sequence) or isinstance(blocks, str):
            raise AdapterError(f"{call} returned {blocks!r}: return block ids, one tuple a group (or a flat list)")
        if num_groups == 1 and not (len(blocks) == 1 and isinstance(blocks[0], Sequence)):
            blocks = (blocks,)
        if len(blocks) == 0:
            blocks = ((),) * num_groups
        if len(blocks) != num_groups:
            raise AdapterError(f"{call} returned {len(blocks)} groups of block ids; the configuration has {num_groups}")
        return tuple(tuple(self._id(block, call) for block in group) for group in blocks)

    def outside(self, block: int) -> int:
        """The target's own id of a block."""
        return block - self._shift

    def _id(self, block: object, call: str) -> int:
        if not isinstance(block, int):
            raise AdapterError(f"{call} returned {block!r} where a block id is due: return integers")
        if not 0 <= block + self._shift < self._config.num_blocks:
            got = f"{call} named block {block}"
            raise Violation("POOL-4", f"{got}, which the pool does not have", "blocks of the pool", got)
        return block + self._shift

    def _count(self, count: object, call: str) -> int:
        if not isinstance(count, int) or isinstance(count, bool):
            raise AdapterError(f"{call} returned {count!r}: return a number of blocks")
        return count

    def _refs(self) -> tuple[int, ...] | None:
        if self._ref_count is None:
            return None
        refs = [self._ref_count(block - self._shift) for block in self._blocks]
        if not all(isinstance(ref, int) for ref in refs):
            raise TypeError(f"{refs} are not all numbers")
        return (0, *refs)

    def _queue(self) -> tuple[int, ...] | None:
        if self._free_queue is None:
            return None
        return tuple([block + self._shift for block in self._free_queue()])

    def _keyed(self) -> tuple[tuple[int, Hashable], ...] | None:
        if self._cached_keys is None:
            return None
        keyed = tuple([(block + self._shift, key) for block, key in self._cached_keys()])
        for block, key in keyed:
            hash(key)
            if block not in self._blocks:
                raise ValueError(f"block {self.outside(block)} is not in the pool")
        return keyed

    def _counters(self, requests: list[Request]) -> dict[str, tuple[int, ...]] | None:
        if self._cached_counts is None:
            return None
        return {request.request_id: tuple(self._cached_counts(request)) for request in requests}

    def agrees(self, seen: Seen, expected: Snapshot) -> bool:
        """Whether everything seen is exactly what is expected, keys up to their names."""
        pool = expected.pool
        if seen.num_free != pool.num_free() or (seen.queue is not None and seen.queue != pool.queue):
            return False
        if seen.refs is not None and seen.refs != pool.refs:
            return False
        for name, ids in seen.tables.items():
            holding = expected.holding(name)
            if any(table.entries != entries for table, entries in zip(holding.tables, ids, strict=True)):
                return False
            if seen.counters is not None and seen.counters[name] != holding.cached:
                return False
        return seen.keyed is None or self._same_index(seen.keyed, pool)

    def _same_index(self, keyed: tuple[tuple[int, Hashable], ...], pool: Pool) -> bool:
        """Whether the same blocks carry the same keys; new keys get the expected names if all agree."""
        if len(keyed) != len(pool.keyed):
            return False
        names, owners = dict[Hashable, int](), dict[int, Hashable]()
        for block, opaque in keyed:
            key = pool.keys[block]
            if key == NO_KEY or self._names.get(opaque, names.setdefault(opaque, key)) != key:
                return False
            if self._owners.get(key, owners.setdefault(key, opaque)) != opaque:
                return False
        for key in _shared_keys(pool):
            shown = [block for block, opaque in keyed if self._owners.get(key, owners[key]) == opaque]
            if shown != [block for block in pool.keyed if pool.keys[block] == key]:
                return False
        self._names.update(names)
        self._owners.update(owners)
        return True

    def rebuild(self, seen: Seen, before: Snapshot, touched: Request | None) -> Snapshot:
        """The snapshot that was seen. Parts that cannot be seen follow from the tables."""
        config = self._config
        holdings = {
            name: Holding(
                tuple(Table(entries) for entries in ids),
                seen.counters[name] if seen.counters is not None else before.holding(name).cached,
            )
            for name, ids in seen.tables.items()
            if any(ids) or (seen.counters is not None and any(seen.counters[name]))
        }
        named = [block for ids in seen.tables.values() for entries in ids for block in entries]
        named += [block for run in before.waiting_frees for block in run]
        refs = seen.refs or tuple(named.count(block) if block else 0 for block in range(config.num_blocks))
        keys, order = self._keys(seen, touched)
        pool = SeenPool(refs, keys, seen.queue or (), order, seen.num_free)
        return Snapshot(config, pool, MappingProxyType(holdings), before.waiting_frees)

    def _keys(self, seen: Seen, touched: Request | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The key of each block and the keyed blocks in order; a key that is new is named after the position it is seen
        at.
        """
        keys = [NO_KEY] * self._config.num_blocks
        num_groups = len(self._config.groups)
        positions = {
            block: (index, number)
            for number, entries in enumerate(seen.tables.get(touched.request_id, ()) if touched else ())
            for index, block in enumerate(entries)
        }
        for block, opaque in seen.keyed or ():
            if opaque not in self._names:
                index, number = positions.get(block, (-1, 0))
                known = touched is not None and 0 <= index < len(touched.prefix_keys)
                name = touched.prefix_keys[index] * num_groups + number if known and touched else -2 - len(self._names)
                self._names[opaque] = name if name not in self._owners else -2 - len(self._names)
                self._owners[self._names[opaque]] = opaque
            keys[block] = self._names[opaque]
        return tuple(keys), tuple(block for block, _ in seen.keyed or ())


def readable(call: str, read: Callable[[], Answer]) -> Answer:
    """What a call that only looks shows; it may not fail, whatever the allocator does."""
    try:
        return read()
    except (SetupError, Violation):
        raise
    except Exception as error:
        raise AdapterError(
            f"{call} cannot be read, {type(error).__name__}: {error}; it only looks, must answer as the protocol says, "
            "and is asked about every live request, also one that holds nothing"
        ) from error


def _shared_keys(pool: Pool) -> set[int]:
    """Keys that more than one block carries."""
    keys = [pool.keys[block] for block in pool.keyed]
    return {key for key in keys if keys.count(key) > 1} if len(set(keys)) < len(keys) else set()

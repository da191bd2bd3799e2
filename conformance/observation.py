"""What a target shows of its state, read after every call, and how it becomes a snapshot the laws can judge."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from slotproof.conformance.adapter import (
    Adapter,
    CopiesBlocks,
    CountsReferences,
    Hit,
    ShowsCounters,
    ShowsKeys,
    ShowsQueue,
)
from slotproof.conformance.errors import AdapterError, SetupError
from slotproof.conformance.violation import Violation
from slotproof.spec.config import Config
from slotproof.spec.pool import NO_KEY, Pool
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Copy, Holding, Part, Snapshot, Table

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
    parts: tuple[tuple[int, Hashable], ...] | None = None


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
        self._partial_keys = adapter.partial_keys if isinstance(adapter, CopiesBlocks) else None
        shown = {
            "refs": self._ref_count,
            "keys": self._cached_keys,
            "queue": self._free_queue,
            "counters": self._cached_counts,
            "parts": self._partial_keys,
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
            readable("partial_keys", self._parts) if self._config.has_partial_hits else None,
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

    def tails(self, hit: Hit) -> tuple[int, ...]:
        """The blocks that the end of a hit is to be copied from, one a group or none."""
        if len(hit.tails) not in (0, len(self._config.groups)):
            raise AdapterError(f"get_computed_blocks returned a hit with tails {hit.tails}: name one block a group")
        return tuple(self._id(block, "get_computed_blocks") for block in hit.tails)

    def copies(self, pairs: Sequence[tuple[int, int]]) -> tuple[Copy, ...]:
        """Copies in the suite's block ids."""
        return tuple(Copy(self._id(source, "take_copies"), self._id(end, "take_copies")) for source, end in pairs)

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
        return None if self._cached_keys is None else self._of_the_pool(self._cached_keys())

    def _parts(self) -> tuple[tuple[int, Hashable], ...] | None:
        return None if self._partial_keys is None else self._of_the_pool(self._partial_keys())

    def _of_the_pool(self, shown: Sequence[tuple[int, Hashable]]) -> tuple[tuple[int, Hashable], ...]:
        keyed = tuple([(block + self._shift, key) for block, key in shown])
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
        return self._same_keys(seen, expected)

    def _same_keys(self, seen: Seen, expected: Snapshot) -> bool:
        """Whether all that is offered agrees; only then new keys get the expected names."""
        new = NewNames(self._names, self._owners)
        if seen.keyed is not None and not same_index(seen.keyed, expected.pool, new):
            return False
        if seen.parts is not None and not same_parts(seen.parts, expected.parts, new):
            return False
        new.keep()
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
        named += [block for run in (*before.waiting_frees, *before.copies) for block in run]
        refs = seen.refs or tuple(named.count(block) if block else 0 for block in range(config.num_blocks))
        parts = self._seen_parts(seen, touched)
        keys, order = self._keys(seen, touched)
        pool = SeenPool(refs, keys, seen.queue or (), order, seen.num_free)
        return Snapshot(config, pool, MappingProxyType(holdings), before.waiting_frees, parts, before.copies)

    def _seen_parts(self, seen: Seen, touched: Request | None) -> tuple[Part, ...]:
        """What is offered for copying; a key that is new is named after the place at which its block shows it."""
        num_groups, places = len(self._config.groups), dict[int, int]()
        positions, parts = self._positions(seen, touched), list[Part]()
        for block, opaque in seen.parts or ():
            index, number = positions.get(block, (-1, 0))
            known = touched.parts_of(index) if touched is not None and index >= 0 else ()
            place = places[block] = places.get(block, -1) + 1
            parts.append(
                Part(self._name(opaque, known[place] * num_groups + number if place < len(known) else None), block)
            )
        return tuple(parts)

    def _name(self, opaque: Hashable, known: int | None) -> int:
        """The suite's name of a target's key; a new one gets the known key, unless that has an owner."""
        if opaque not in self._names:
            name = -2 - len(self._names) if known is None or known in self._owners else known
            self._names[opaque], self._owners[name] = name, opaque
        return self._names[opaque]

    def _positions(self, seen: Seen, touched: Request | None) -> dict[int, tuple[int, int]]:
        """The entry and group at which a request's blocks stand."""
        tables = seen.tables.get(touched.request_id, ()) if touched else ()
        return {block: (index, number) for number, entries in enumerate(tables) for index, block in enumerate(entries)}

    def _keys(self, seen: Seen, touched: Request | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The key of each block and the keyed blocks in order; a key that is new is named after the position it is seen
        at.
        """
        keys = [NO_KEY] * self._config.num_blocks
        num_groups = len(self._config.groups)
        positions = self._positions(seen, touched)
        for block, opaque in seen.keyed or ():
            index, number = positions.get(block, (-1, 0))
            known = touched.prefix_keys[index : index + 1] if touched is not None and index >= 0 else ()
            keys[block] = self._name(opaque, known[0] * num_groups + number if known else None)
        return tuple(keys), tuple(block for block, _ in seen.keyed or ())


class NewNames:
    """Names for keys that are new, beside those that are known, until it is clear that they are right."""

    __slots__ = ("_known_names", "_known_owners", "_names", "_owners")

    def __init__(self, names: dict[Hashable, int], owners: dict[int, Hashable]) -> None:
        self._known_names, self._known_owners = names, owners
        self._names, self._owners = dict[Hashable, int](), dict[int, Hashable]()

    def agree(self, opaque: Hashable, key: int) -> bool:
        """Whether the target's key and the suite's name each other, or both are new and do so from now on."""
        name = self._known_names.get(opaque)
        if name is None and key not in self._known_owners:
            return self._names.setdefault(opaque, key) == key and self._owners.setdefault(key, opaque) == opaque
        return name == key

    def owner(self, key: int) -> Hashable:
        """The target's key of a name that is known or new."""
        return self._known_owners[key] if key in self._known_owners else self._owners[key]

    def keep(self) -> None:
        """They are right."""
        self._known_names.update(self._names)
        self._known_owners.update(self._owners)


def same_index(keyed: tuple[tuple[int, Hashable], ...], pool: Pool, new: NewNames) -> bool:
    """Whether the same blocks carry the same keys."""
    if len(keyed) != len(pool.keyed):
        return False
    for block, opaque in keyed:
        key = pool.keys[block]
        if key == NO_KEY or not new.agree(opaque, key):
            return False
    return all(
        [block for block, opaque in keyed if opaque == new.owner(key)]
        == [block for block in pool.keyed if pool.keys[block] == key]
        for key in _shared_keys(pool)
    )


def same_parts(shown: tuple[tuple[int, Hashable], ...], expected: tuple[Part, ...], new: NewNames) -> bool:
    """Whether the same prefixes are offered for copying, those of one key in the same order; others in any."""
    due: dict[int, list[int]] = {}
    for part in expected:
        due.setdefault(part.block, []).append(part.key)
    seen: dict[int, list[int]] = {}
    for block, opaque in shown:
        place = len(seen.setdefault(block, []))
        if block not in due or place >= len(due[block]) or not new.agree(opaque, due[block][place]):
            return False
        seen[block].append(due[block][place])
    return seen == due and all(
        [block for block, opaque in shown if opaque == new.owner(key)]
        == [part.block for part in expected if part.key == key]
        for key in {part.key for part in expected}
    )


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

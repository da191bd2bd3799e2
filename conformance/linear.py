"""The linear backend: the specification's own source on pools of 100,000 blocks, O(1) a step.

Values are updated in place, yet stay values. An update changes the one copy of the data and leaves in the older version
the edit that leads back, so a step from the newest version is O(1) and every older version still answers for itself:
reading it takes the newer edits back one by one, and leaves in the newer versions the edits that lead forward (Baker's
rerooting). A rule that every value is used once would not do: a refusal asks stage 1 of the same snapshot twice
(`never_fits`). A version that nobody holds is forgotten, so a run that only goes forward keeps no history. The versions
of a value share its data, and so must not be used by several threads at once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, Self, TypeVar

from slotproof.spec.config import Config
from slotproof.spec.keys import KeyTable, Prefix
from slotproof.spec.pool import NO_BLOCK, NO_KEY, NULL_BLOCK, Pool
from slotproof.spec.snapshot import Holding, Snapshot, Table

Data = TypeVar("Data")
Edited = TypeVar("Edited", contravariant=True)
Name = TypeVar("Name")
Value = TypeVar("Value")


class Edit(Protocol[Edited]):
    """A change in place, which returns the change that takes it back."""

    def __call__(self, data: Edited, /) -> "Edit[Edited]": ...


class Version(Generic[Data]):
    """One version of data that all versions share. The data is in the state of the version that has no newer one."""

    __slots__ = ("_data", "_newer", "_undo")

    _undo: Edit[Data]

    def __init__(self, data: Data) -> None:
        self._data = data
        self._newer: Version[Data] | None = None

    def read(self) -> Data:
        """The data in the state of this version, until another version is read or edited."""
        if self._newer is not None:
            self._bring_back()
        return self._data

    def edited(self, edit: Edit[Data]) -> "Version[Data]":
        """The version after the edit."""
        data = self.read()
        self._undo = edit(data)
        self._newer = Version(data)
        return self._newer

    def _bring_back(self) -> None:
        """Take back every edit between this version and the one the data is in."""
        path: list[tuple[Version[Data], Version[Data]]] = []
        older, newer = self, self._newer
        while newer is not None:
            path.append((older, newer))
            older, newer = newer, newer._newer
        for older, newer in reversed(path):
            newer._undo = older._undo(self._data)
            newer._newer, older._newer = older, None


# The pool.


class Rings:
    """Doubly linked rings of numbers. A ring is a number too, its members stand behind it; none is in two rings."""

    __slots__ = ("_after", "_before")

    def __init__(self) -> None:
        self._after: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def first(self, ring: int) -> int:
        """The first member, or the ring itself if it is empty."""
        return self._after.get(ring, ring)

    def last(self, ring: int) -> int:
        """The last member, or the ring itself if it is empty."""
        return self._before.get(ring, ring)

    def members(self, ring: int) -> Iterator[int]:
        """The members in order."""
        member = self.first(ring)
        while member != ring:
            yield member
            member = self._after[member]

    def insert(self, member: int, left: int) -> None:
        """Put a number that is in no ring behind `left`, a member or a ring."""
        if member in self._after:
            raise ValueError(f"block {member} is linked already")
        right = self._after.get(left, left)
        self._after[left] = self._before[right] = member
        self._after[member], self._before[member] = right, left

    def remove(self, member: int) -> int:
        """Take a member out; what stood before it, behind which `insert` puts it back."""
        if member not in self._after:
            raise ValueError(f"block {member} is not linked")
        left, right = self._before.pop(member), self._after.pop(member)
        if left == right:
            del self._after[left], self._before[left]
        else:
            self._after[left], self._before[right] = right, left
        return left


QUEUE = NULL_BLOCK
"""The null block is never queued, so its number is free for the ring of the queue, and for that of all keyed blocks."""


@dataclass(slots=True)
class Blocks:
    """What `Pool` keeps in tuples: `offered` has one ring a key, `keyed` all keyed blocks in one."""

    refs: list[int]
    keys: list[int]
    num_free: int
    queue: Rings
    offered: Rings
    keyed: Rings


def set_ref(block: int, ref: int, blocks: Blocks) -> Edit[Blocks]:
    """Change a reference count."""
    undo = partial(set_ref, block, blocks.refs[block])
    blocks.refs[block] = ref
    return undo


def queue_behind(block: int, left: int, blocks: Blocks) -> Edit[Blocks]:
    """Queue a block behind another, or at the front."""
    blocks.queue.insert(block, left)
    blocks.num_free += 1
    return partial(take_from_queue, block)


def take_from_queue(block: int, blocks: Blocks) -> Edit[Blocks]:
    """Take a block out of the queue."""
    left = blocks.queue.remove(block)
    blocks.num_free -= 1
    return partial(queue_behind, block, left)


def set_key(block: int, key: int, left_of_key: int, left_of_all: int, blocks: Blocks) -> Edit[Blocks]:
    """Key a keyless block: its places are behind these two, among the blocks with its key and among all keyed ones."""
    blocks.offered.insert(block, left_of_key)
    blocks.keyed.insert(block, left_of_all)
    blocks.keys[block] = key
    return partial(clear_key, block)


def clear_key(block: int, blocks: Blocks) -> Edit[Blocks]:
    """Take a block's key away."""
    undo = partial(set_key, block, blocks.keys[block], blocks.offered.remove(block), blocks.keyed.remove(block))
    blocks.keys[block] = NO_KEY
    return undo


def ring_of(key: int) -> int:
    """The number of a key's ring, which is no block's number."""
    return -1 - key


class LinearPool(Pool):
    """A pool whose steps are O(1). The fields of `Pool` are read in O(blocks), to compare; nothing else reads them."""

    __slots__ = ("_version",)

    _version: Version[Blocks]

    def __init__(self, version: Version[Blocks]) -> None:
        object.__setattr__(self, "_version", version)

    @classmethod
    def fresh(cls, num_blocks: int) -> Self:
        """A pool in which every block but the null block is free and keyless."""
        queue = Rings()
        for block in range(1, num_blocks):
            queue.insert(block, block - 1)
        blocks = Blocks([0] * num_blocks, [NO_KEY] * num_blocks, num_blocks - 1, queue, Rings(), Rings())
        return cls(Version(blocks))

    @property
    def refs(self) -> tuple[int, ...]:
        """The reference counts by block."""
        return tuple(self._version.read().refs)

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys by block."""
        return tuple(self._version.read().keys)

    @property
    def queue(self) -> tuple[int, ...]:
        """The free blocks, the one popped next first."""
        return tuple(self._version.read().queue.members(QUEUE))

    @property
    def keyed(self) -> tuple[int, ...]:
        """The keyed blocks in the order in which they got their keys."""
        return tuple(self._version.read().keyed.members(QUEUE))

    @property
    def num_blocks(self) -> int:
        return len(self._version.read().refs)

    def ref(self, block: int) -> int:
        return self._version.read().refs[block]

    def key_of(self, block: int) -> int:
        return self._version.read().keys[block]

    def num_free(self) -> int:
        return self._version.read().num_free

    def head(self) -> int:
        head = self._version.read().queue.first(QUEUE)
        if head == QUEUE:
            raise IndexError("the free queue is empty")
        return head

    def block_of(self, key: int) -> int:
        ring = ring_of(key)
        block = self._version.read().offered.first(ring)
        return NO_BLOCK if block == ring else block

    def with_ref(self, block: int, ref: int) -> "LinearPool":
        return LinearPool(self._version.edited(partial(set_ref, block, ref)))

    def with_key(self, block: int, key: int) -> "LinearPool":
        version = self._version
        if version.read().keys[block] != NO_KEY:
            version = version.edited(partial(clear_key, block))
        if key != NO_KEY:
            blocks = version.read()
            left_of_key, left_of_all = blocks.offered.last(ring_of(key)), blocks.keyed.last(QUEUE)
            version = version.edited(partial(set_key, block, key, left_of_key, left_of_all))
        return LinearPool(version)

    def unqueue(self, block: int) -> "LinearPool":
        return LinearPool(self._version.edited(partial(take_from_queue, block)))

    def enqueue_front(self, block: int) -> "LinearPool":
        return LinearPool(self._version.edited(partial(queue_behind, block, QUEUE)))

    def enqueue_back(self, block: int) -> "LinearPool":
        return LinearPool(self._version.edited(partial(queue_behind, block, self._version.read().queue.last(QUEUE))))


# The tables.


def append_entry(block: int, entries: list[int]) -> Edit[list[int]]:
    """Make a table one entry longer."""
    entries.append(block)
    return drop_entry


def drop_entry(entries: list[int]) -> Edit[list[int]]:
    """Make a table one entry shorter."""
    return partial(append_entry, entries.pop())


def set_entry(index: int, block: int, entries: list[int]) -> Edit[list[int]]:
    """Change an entry."""
    undo = partial(set_entry, index, entries[index])
    entries[index] = block
    return undo


class LinearTable(Table):
    """A table whose steps are O(1); it knows its counts without looking at its entries."""

    __slots__ = ("_length", "_num_live", "_version")

    _version: Version[list[int]]
    _length: int
    _num_live: int

    def __init__(self, version: Version[list[int]], length: int, num_live: int) -> None:
        object.__setattr__(self, "_version", version)
        object.__setattr__(self, "_length", length)
        object.__setattr__(self, "_num_live", num_live)

    @classmethod
    def of(cls, table: Table) -> "LinearTable":
        """The same table; itself if it is linear."""
        if isinstance(table, LinearTable):
            return table
        return cls(Version(list(table.entries)), table.length, table.num_live())

    @property
    def entries(self) -> tuple[int, ...]:
        """All entries; a copy."""
        return tuple(self._version.read())

    @property
    def length(self) -> int:
        return self._length

    def entry(self, index: int) -> int:
        return self._version.read()[index]

    def append(self, block: int) -> "LinearTable":
        live = self._num_live + (block != NULL_BLOCK)
        return LinearTable(self._version.edited(partial(append_entry, block)), self._length + 1, live)

    def with_null(self, index: int) -> "LinearTable":
        if self.entry(index) == NULL_BLOCK:
            return self
        return LinearTable(
            self._version.edited(partial(set_entry, index, NULL_BLOCK)), self._length, self._num_live - 1
        )

    def tail(self, start: int) -> tuple[int, ...]:
        return tuple(self._version.read()[start:])

    def num_live(self) -> int:
        return self._num_live


# The mappings: what requests hold, and which keys are known.


def set_item(name: Name, value: Value, items: dict[Name, Value]) -> Edit[dict[Name, Value]]:
    """Add an item, or change it."""
    undo: Edit[dict[Name, Value]] = partial(set_item, name, items[name]) if name in items else partial(drop_item, name)
    items[name] = value
    return undo


def drop_item(name: Name, items: dict[Name, Value]) -> Edit[dict[Name, Value]]:
    """Take an item out."""
    return partial(set_item, name, items.pop(name))


class LinearMapping(Mapping[Name, Value]):
    """A mapping that gains and loses items in O(1); compared with another one item by item."""

    __slots__ = ("_version",)

    def __init__(self, version: Version[dict[Name, Value]] | None = None) -> None:
        self._version = version or Version({})

    def __getitem__(self, name: Name) -> Value:
        return self._version.read()[name]

    def __iter__(self) -> Iterator[Name]:
        return iter(list(self._version.read()))

    def __len__(self) -> int:
        return len(self._version.read())

    def with_item(self, name: Name, value: Value) -> "LinearMapping[Name, Value]":
        """The mapping with an item more, or another value for its name."""
        return LinearMapping(self._version.edited(partial(set_item, name, value)))

    def without(self, name: Name) -> "LinearMapping[Name, Value]":
        """The mapping without an item; itself if there is none of that name."""
        return LinearMapping(self._version.edited(partial(drop_item, name))) if name in self else self


class LinearKeyTable(KeyTable):
    """A key table that learns a prefix in O(its block's tokens)."""

    __slots__ = ("_known",)

    _known: LinearMapping[Prefix, int]

    def __init__(self, known: LinearMapping[Prefix, int] | None = None) -> None:
        object.__setattr__(self, "_known", known if known is not None else LinearMapping())

    @property
    def entries(self) -> Mapping[Prefix, int]:
        """The keys handed out so far."""
        return self._known

    def intern(self, parent: int, tokens: tuple[int, ...], extra: tuple[str, ...]) -> tuple["LinearKeyTable", int]:
        prefix = (parent, tokens, extra)
        known = self._known.get(prefix)
        if known is not None:
            return self, known
        key = len(self._known)
        return LinearKeyTable(self._known.with_item(prefix, key)), key


class LinearSnapshot(Snapshot):
    """A snapshot whose pool, tables and holdings are linear; the specification's operations run on it unchanged."""

    __slots__ = ()

    holdings: LinearMapping[str, Holding]

    def holding(self, request_id: str) -> Holding:
        return self.holdings.get(request_id) or with_linear_tables(Snapshot.holding(self, request_id))

    def with_holding(self, request_id: str, holding: Holding) -> "LinearSnapshot":
        return replace(self, holdings=self.holdings.with_item(request_id, with_linear_tables(holding)))

    def without_holding(self, request_id: str) -> "LinearSnapshot":
        return replace(self, holdings=self.holdings.without(request_id))


def with_linear_tables(holding: Holding) -> Holding:
    """The same holding; a hit is adopted as a table of tuples."""
    return Holding(tuple(LinearTable.of(table) for table in holding.tables), holding.cached)


def linear_snapshot(config: Config) -> LinearSnapshot:
    """The snapshot of a fresh allocator."""
    return LinearSnapshot(config, LinearPool.fresh(config.num_blocks), LinearMapping())

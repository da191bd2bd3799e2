"""Everything an allocator knows, as one immutable value."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from slotproof.spec.config import Config
from slotproof.spec.pool import NULL_BLOCK, Pool


@dataclass(frozen=True, slots=True)
class Table:
    """One request's blocks in one group, in the order of its tokens; the null block stands where a window has moved
    on.
    """

    entries: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        """Entries, null ones included."""
        return len(self.entries)

    def entry(self, index: int) -> int:
        """The block that holds tokens `index · block_size` and following."""
        return self.entries[index]

    def append(self, block: int) -> "Table":
        """The table one entry longer."""
        return Table((*self.entries, block))

    def with_null(self, index: int) -> "Table":
        """The table with the null block at `index`."""
        return Table((*self.entries[:index], NULL_BLOCK, *self.entries[index + 1 :]))

    def reversed(self) -> "Table":
        """The entries from tail to head, the order in which they are released (FREE-1)."""
        return Table(self.entries[::-1])

    def head(self, end: int) -> "Table":
        """The entries before `end`."""
        return Table(self.entries[:end])

    def tail(self, start: int) -> tuple[int, ...]:
        """The entries from `start` on."""
        return self.entries[start:]

    def behind_nulls(self, skipped: int) -> "Table":
        """The table with its first `skipped` entries null, longer if it had fewer."""
        return Table((NULL_BLOCK,) * skipped + self.entries[skipped:])

    def num_live(self) -> int:
        """Entries that name a block, the null block not counted."""
        return sum(block != NULL_BLOCK for block in self.entries)


@dataclass(frozen=True, slots=True)
class Holding:
    """What one request holds: a table a group, and a group how many entries have been considered for keys (HASH-2)."""

    tables: tuple[Table, ...]
    cached: tuple[int, ...]


class Part(NamedTuple):
    """A prefix that ends inside a block, by its key, and a block to copy it from."""

    key: int
    block: int


class Copy(NamedTuple):
    """A block whose first tokens are to be copied into another one; both ends are pinned until that is done."""

    source: int
    destination: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A pool, what each request holds in it, and the deferred frees that have not been returned, oldest first.

    A request that holds nothing has no holding: it is untracked. With a finer hash granularity there are also the parts
    of blocks that are offered for copying, of several with one key the one offered first first, and the copies that are
    not known to be done, oldest first.
    """

    config: Config
    pool: Pool
    holdings: Mapping[str, Holding]
    waiting_frees: tuple[tuple[int, ...], ...] = ()
    parts: tuple[Part, ...] = ()
    copies: tuple[Copy, ...] = ()

    def holding(self, request_id: str) -> Holding:
        """What the request holds, empty tables for one that is untracked."""
        return self.holdings.get(request_id) or nothing_held(len(self.config.groups))

    def with_pool(self, pool: Pool) -> "Snapshot":
        """The snapshot with another pool; itself if the pool is the same."""
        rest = self.waiting_frees, self.parts, self.copies
        return self if pool is self.pool else type(self)(self.config, pool, self.holdings, *rest)

    def with_holding(self, request_id: str, holding: Holding) -> "Snapshot":
        """The snapshot in which the request holds this."""
        holdings = MappingProxyType({**self.holdings, request_id: holding})
        return type(self)(self.config, self.pool, holdings, self.waiting_frees, self.parts, self.copies)

    def without_holding(self, request_id: str) -> "Snapshot":
        """The snapshot in which the request is untracked."""
        others = {name: holding for name, holding in self.holdings.items() if name != request_id}
        holdings = MappingProxyType(others)
        return type(self)(self.config, self.pool, holdings, self.waiting_frees, self.parts, self.copies)

    def with_parts(self, parts: tuple[Part, ...]) -> "Snapshot":
        """The snapshot that offers these parts; itself if it does."""
        if parts == self.parts:
            return self
        return type(self)(self.config, self.pool, self.holdings, self.waiting_frees, parts, self.copies)

    def key(self) -> Hashable:
        """The canonical form: equal for equal snapshots of one configuration, and hashable."""
        held = tuple(sorted((name, holding) for name, holding in self.holdings.items()))
        plain = (self.pool, held, self.waiting_frees)
        return (*plain, self.parts, self.copies) if self.parts or self.copies else plain

    @property
    def usage(self) -> float:
        """The share of usable blocks that is held; idle cached blocks count as free (POOL-4)."""
        return 1.0 - self.pool.num_free() / self.config.usable_blocks


@cache
def nothing_held(num_groups: int) -> Holding:
    """The holding of an untracked request."""
    return Holding((Table(),) * num_groups, (0,) * num_groups)


def empty(config: Config) -> Snapshot:
    """The snapshot of a fresh allocator."""
    return Snapshot(config, Pool.fresh(config.num_blocks), MappingProxyType({}))

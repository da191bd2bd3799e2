"""One step of an allocator as the laws see it: the snapshot before, what was asked and answered, the snapshot after."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from slotproof.spec.admission import Call
from slotproof.spec.lookup import Hit
from slotproof.spec.predicates.facts import AllocationFacts
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Copy, Snapshot

FACETS = ("refs", "keys", "queue", "counters", "parts")
"""What an allocator may show of its state besides tables and its number of free blocks."""

ALL_FACETS = frozenset(FACETS)


@dataclass(frozen=True, slots=True)
class Allocated:
    """`allocate_slots` was called. `answer` holds the new block ids, None a refusal; `never`, `foretold` and `copies`
    are None if unsaid.
    """

    call: Call
    answer: tuple[tuple[int, ...], ...] | None
    never: bool | None = None
    foretold: bool | None = None
    copies: tuple[Copy, ...] | None = None


@dataclass(frozen=True, slots=True)
class Batched:
    """Running requests asked for slots together, one call a row; `answers` holds the new block ids of those served."""

    calls: tuple[Call, ...]
    answers: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class LookedUp:
    """`get_computed_blocks` was called."""

    request: Request
    hit: Hit


@dataclass(frozen=True, slots=True)
class Committed:
    """`commit` was called."""

    request: Request
    num_computed_tokens: int


@dataclass(frozen=True, slots=True)
class Freed:
    """`free` or `preempt` gave a request's blocks back at once."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Deferred:
    """`defer_free` took a request's blocks away without returning them."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Returned:
    """`return_deferred` gave the oldest deferred free back."""


@dataclass(frozen=True, slots=True)
class Copied:
    """`release_copy` let go of the ends of the oldest copy, whose step is done."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """`evict_blocks` was called."""

    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reset:
    """`reset_prefix_cache` was called."""

    succeeded: bool


Event = Allocated | Batched | LookedUp | Committed | Freed | Deferred | Returned | Copied | Evicted | Reset


@dataclass(frozen=True)
class Transition:
    """What the laws judge. `facets` says which parts of the snapshots were really seen; `indexed` and `replayed` count,
    key by key, the blocks that the index offers and those that the events so far say it offers.
    """

    before: Snapshot
    event: Event
    after: Snapshot
    requests: Mapping[str, Request] = field(default_factory=lambda: MappingProxyType({}))
    facets: frozenset[str] = ALL_FACETS
    indexed: Mapping[Hashable, int] | None = None
    replayed: Mapping[Hashable, int] | None = None

    @cached_property
    def allocation(self) -> AllocationFacts:
        """What the laws count about an `Allocated` step."""
        assert isinstance(self.event, Allocated)
        return AllocationFacts(self.before, self.event.call, self.event.answer is not None, self.after)

    def changed(self, parts: Iterable[str] = ("tables", "free", "copies", *FACETS)) -> str | None:
        """The first of these parts that was seen to differ between the two snapshots, in words."""
        if self.before is self.after:
            return None
        for part in parts:
            if part in ALL_FACETS and part not in self.facets:
                continue
            before, after = _part(self.before, part), _part(self.after, part)
            if before != after:
                return f"{part} changed from {before} to {after}"
        return None


def _part(snapshot: Snapshot, part: str) -> object:
    pool, blocks = snapshot.pool, range(1, snapshot.config.num_blocks)
    if part == "tables":
        return held_tables(snapshot)
    if part == "free":
        return pool.num_free()
    if part == "refs":
        return tuple(pool.ref(block) for block in blocks)
    if part == "keys":
        return tuple(pool.key_of(block) for block in blocks)
    if part == "queue":
        return pool.queue
    if part == "parts":
        return snapshot.parts
    if part == "copies":
        return snapshot.copies
    return {name: holding.cached for name, holding in snapshot.holdings.items() if any(holding.cached)}


def held_tables(snapshot: Snapshot) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Every non-empty holding's entries; an empty table entry counts as nothing (REFUSE-1)."""
    return {
        name: tuple(table.entries for table in holding.tables)
        for name, holding in snapshot.holdings.items()
        if any(table.entries for table in holding.tables)
    }

"""The block tables of one request."""

from collections.abc import Sequence


class RequestTables:
    """One table per group, all of one length, and the bookkeeping that goes with them.

    blocks[g]: block ids; the first nulls[g] entries are null, the others are not.
    held: entries in each table, nulls included.
    cached: per group, how many entries have been considered for keys; None while untracked, that is until
        a block is keyed or a hit or external prefix adopted (vLLM 0.31).
    considered: the smallest of `cached`.
    quiet_until: a call whose tokens and lookahead end here or earlier changes nothing.
    """

    __slots__ = ("blocks", "cached", "considered", "held", "nulls", "quiet_until")

    def __init__(self, num_groups: int) -> None:
        self.blocks: list[list[int]] = [[] for _ in range(num_groups)]
        self.nulls = [0] * num_groups
        self.held = 0
        self.cached: list[int] | None = None
        self.considered = 0
        self.quiet_until = 0

    def live(self) -> list[list[int]]:
        """The tables without their null entries."""
        return [table[nulls:] if nulls else table for table, nulls in zip(self.blocks, self.nulls, strict=True)]


class Adoption:
    """What a new request takes over from the cache, per group.

    nulls[g]: leading entries that a window does not need.
    kept[g]: the hit blocks after those.
    tables[g]: nulls and kept, as the request will have them.
    idle[g]: those of the kept that nobody holds.
    runs[g]: whether that is all of them, side by side in the queue.
    sources[g]: the block that the rest of a hit is to be copied from, where it ends inside a block.
    idle_sources: those of them that nobody holds.
    num_idle: the idle ones of all groups, sources too.
    held: entries that each table has with the external prefix.
    """

    __slots__ = ("held", "idle", "idle_sources", "kept", "nulls", "num_idle", "runs", "sources", "tables")

    def __init__(self, held: int) -> None:
        self.held = held
        self.nulls: list[int] = []
        self.kept: list[Sequence[int]] = []
        self.tables: list[list[int]] = []
        self.idle: list[Sequence[int]] = []
        self.runs: list[bool] = []
        self.sources: Sequence[int] = ()
        self.idle_sources: Sequence[int] = ()
        self.num_idle = 0

    def copy_from(self, sources: Sequence[int], idle: Sequence[int]) -> None:
        """The end of the hit is to be copied from these blocks."""
        self.sources, self.idle_sources = sources, idle
        self.num_idle += len(idle)

    def add(self, nulls: int, kept: Sequence[int], idle: Sequence[int], run: bool) -> None:
        """One more group."""
        self.nulls.append(nulls)
        self.kept.append(kept)
        self.tables.append([*[0] * nulls, *kept] if nulls else list(kept))
        self.idle.append(idle)
        self.runs.append(run)
        self.num_idle += len(idle)

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
    idle[g]: those of them that nobody holds.
    runs[g]: whether that is all of them, side by side in the queue.
    sources[g]: the block that the rest of a hit is to be copied from, where it ends inside a block; `num_idle_sources`
    of them nobody holds.
    """

    __slots__ = ("idle", "kept", "nulls", "num_idle_sources", "runs", "sources")

    def __init__(self) -> None:
        self.nulls: list[int] = []
        self.kept: list[Sequence[int]] = []
        self.idle: list[Sequence[int]] = []
        self.runs: list[bool] = []
        self.sources: Sequence[int] = ()
        self.num_idle_sources = 0

"""The block tables of one request."""


class RequestTables:
    """One table per group, all of one length, and the bookkeeping that goes with them.

    blocks[g]: block ids; the first nulls[g] entries are null, the others are not.
    cached: per group, how many entries have been considered for keys; None while untracked, that is until
        a block is keyed or a hit or external prefix adopted (vLLM 0.31).
    quiet_until: a call whose tokens and lookahead end here or earlier changes nothing.
    """

    __slots__ = ("blocks", "cached", "nulls", "quiet_until")

    def __init__(self, num_groups: int) -> None:
        self.blocks: list[list[int]] = [[] for _ in range(num_groups)]
        self.nulls = [0] * num_groups
        self.cached: list[int] | None = None
        self.quiet_until = 0

    @property
    def held(self) -> int:
        """Entries in each table, nulls included."""
        return len(self.blocks[0])

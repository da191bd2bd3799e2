"""What each kind of KV cache group skips, caps and matches. To add a kind, add a class with these four answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from slotproof.spec.arithmetic import (
    blocks_for_window_hit,
    imax,
    imin,
    tokens_behind_window,
    window_admission_cap,
)
from slotproof.spec.loops import repeat

Cached = Callable[[int], bool]
"""Whether the block at this index of a request's prefix is cached for the group."""


class Group(Protocol):
    """One KV cache group: layers that share a block table."""

    @property
    def block_size(self) -> int:
        """Token slots a block."""
        ...

    def skipped_tokens(self, settled: int) -> int:
        """Leading tokens that attention no longer reads once `settled` tokens are computed."""
        ...

    def capped(self, required: int, max_in_flight: int, max_model_len: int) -> int:
        """The blocks a whole prompt is charged for, given the blocks its length requires (ADMIT-1)."""
        ...

    def longest_hit(self, cached: Cached, limit: int) -> int:
        """The most leading blocks, at most `limit`, that the group can resume behind (LOOKUP-1)."""
        ...

    def blocks_read(self, length: int) -> int:
        """How many blocks at the end of a hit of `length` blocks must be there; those before are null."""
        ...


@dataclass(frozen=True, slots=True)
class FullAttention:
    """Every token reads every token before it."""

    block_size: int

    def __post_init__(self) -> None:
        _require_block_size(self.block_size)

    def skipped_tokens(self, settled: int) -> int:
        """Nothing is ever skipped."""
        return 0

    def capped(self, required: int, max_in_flight: int, max_model_len: int) -> int:
        """A full-attention group holds every block until the request ends, so there is no cap."""
        return required

    def longest_hit(self, cached: Cached, limit: int) -> int:
        """Left to right up to the first miss."""

        def extend_run(index: int, run: int) -> int:
            return run + 1 if run == index and cached(index) else run

        return repeat(limit, extend_run, 0)

    def blocks_read(self, length: int) -> int:
        """All of them."""
        return length


class WindowScan(NamedTuple):
    """A right-to-left scan for a window hit: the run of cached blocks that starts here, and where it ends."""

    run: int
    end: int


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """Every token reads itself and the `window - 1` tokens before it."""

    block_size: int
    window: int

    def __post_init__(self) -> None:
        _require_block_size(self.block_size)
        if self.window < 2:
            raise ValueError(
                f"window is {self.window}: a sliding window of 1 is not modelled; use a window of 2 or more"
            )

    def skipped_tokens(self, settled: int) -> int:
        """The tokens behind the window of the next token."""
        return tokens_behind_window(settled, self.window)

    def capped(self, required: int, max_in_flight: int, max_model_len: int) -> int:
        """A window group gives blocks back as it goes, so a long prompt is charged for the window alone."""
        return imin(required, window_admission_cap(self.window, max_in_flight, max_model_len, self.block_size))

    def longest_hit(self, cached: Cached, limit: int) -> int:
        """Right to left until the blocks a window reads are there in a row; a shorter row counts at the very start."""
        enough = blocks_for_window_hit(self.window, self.block_size)

        def scan_back(step: int, scan: WindowScan) -> WindowScan:
            index = limit - 1 - step
            if scan.run >= enough:
                return scan
            if not cached(index):
                return WindowScan(run=0, end=index)
            return WindowScan(run=scan.run + 1, end=scan.end)

        return repeat(limit, scan_back, WindowScan(run=0, end=imax(limit, 0))).end

    def blocks_read(self, length: int) -> int:
        """The blocks a window reads."""
        return imin(blocks_for_window_hit(self.window, self.block_size), length)


def _require_block_size(block_size: int) -> None:
    if block_size < 1:
        raise ValueError(f"block size is {block_size}: a block holds at least one token; use 1 or more")

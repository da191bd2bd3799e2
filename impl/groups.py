"""The kinds of KV cache group: what each one skips, caps and needs for a hit.

All quantities are whole blocks unless a name says tokens.
"""

from dataclasses import dataclass


def ceil_div(dividend: int, divisor: int) -> int:
    """Smallest integer >= dividend / divisor, for divisor >= 1."""
    return -(-dividend // divisor)


@dataclass(frozen=True, slots=True)
class FullAttention:
    """Every past token is needed until the request ends (MLA included)."""

    block_size: int

    def skipped_blocks(self, num_tokens: int) -> int:
        """Leading blocks no longer needed once `num_tokens` are computed."""
        return 0

    def admission_cap(self, max_in_flight_tokens: int, max_model_len: int) -> int | None:
        """Most blocks one request can hold at once; None means no cap (ADMIT-1)."""
        return None


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A token attends to itself and the `window` - 1 tokens before it; `window` >= 2."""

    block_size: int
    window: int

    def skipped_blocks(self, num_tokens: int) -> int:
        """Leading blocks wholly behind the window once `num_tokens` are computed (SKIP-1)."""
        return max(0, num_tokens - self.window + 1) // self.block_size

    def release_point(self, nulls: int) -> int:
        """Computed tokens at which block number `nulls` leaves the window: inverse of `skipped_blocks`."""
        return (nulls + 1) * self.block_size + self.window - 1

    def admission_cap(self, max_in_flight_tokens: int, max_model_len: int) -> int | None:
        """Most blocks one request can hold at once: its window, a step in flight and one for misalignment (ADMIT-1)."""
        return ceil_div(min(self.window - 1 + max_in_flight_tokens, max_model_len), self.block_size) + 1

    @property
    def hit_run(self) -> int:
        """Consecutive cached blocks that a hit must end with (LOOKUP-1)."""
        return ceil_div(self.window - 1, self.block_size)


Group = FullAttention | SlidingWindow

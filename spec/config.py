"""What an allocator is configured with; impossible and unmodelled configurations are refused by name."""

from dataclasses import dataclass
from enum import StrEnum

from slotproof.spec.groups import FullAttention, Group


class FreeOrder(StrEnum):
    """Where released blocks enter the free queue (FREE-1)."""

    UNHASHED_FIRST = "unhashed-first"
    """Keyless blocks to the front, keyed ones to the back: vLLM 0.24.0 and later."""

    LRU = "lru"
    """All to the back: vLLM 0.23.0 and earlier."""


@dataclass(frozen=True, slots=True)
class Config:
    """One pool and the groups that share it.

    `num_blocks` counts the null block; token counts are tokens, `watermark_blocks` blocks. `max_in_flight_tokens`
    bounds the tokens a request may have scheduled but not yet computed, and with them what a window group holds.
    `hash_size` is the hash granularity in tokens, None for one key a block. A finer one lets a hit end inside a block,
    which is then copied (vLLM 0.26.0 and later, there in one hybrid mode; here with full attention).

    Raises:
        ValueError: for a configuration no pool can have, or one that is not modelled; the message names the field.
    """

    num_blocks: int
    groups: tuple[Group, ...]
    max_model_len: int
    max_in_flight_tokens: int
    watermark_blocks: int = 0
    caching: bool = True
    free_order: FreeOrder = FreeOrder.UNHASHED_FIRST
    hash_size: int | None = None

    def __post_init__(self) -> None:
        if self.num_blocks < 2:
            raise ValueError(
                f"num_blocks is {self.num_blocks}: block 0 is the null block and never handed out; use 2 or more"
            )
        if not self.groups:
            raise ValueError("groups is empty: a pool serves at least one KV cache group, for example full attention")
        if len({group.block_size for group in self.groups}) > 1:
            raise ValueError("groups have unequal block sizes: that is not modelled; use one block size for all groups")
        if self.max_model_len < 1:
            raise ValueError(f"max_model_len is {self.max_model_len}: use 1 or more")
        if self.max_in_flight_tokens < 1:
            raise ValueError(f"max_in_flight_tokens is {self.max_in_flight_tokens}: use 1 or more")
        if not isinstance(self.free_order, FreeOrder):
            raise ValueError(f"free_order is {self.free_order!r}: use FreeOrder.UNHASHED_FIRST or FreeOrder.LRU")
        if not 0 <= self.watermark_blocks < self.usable_blocks:
            raise ValueError(
                f"watermark_blocks is {self.watermark_blocks}: it must be at least 0 and less than the "
                f"{self.usable_blocks} usable blocks, or nothing is ever admitted"
            )
        if self.hash_size is not None:
            self._require_hash_size(self.hash_size)

    def _require_hash_size(self, hash_size: int) -> None:
        if hash_size < 1 or self.block_size % hash_size != 0:
            raise ValueError(
                f"hash_size is {hash_size}: it must divide the block size {self.block_size}, so that every block ends "
                "where a hash does"
            )
        if self.has_partial_hits and not all(isinstance(group, FullAttention) for group in self.groups):
            raise ValueError(
                f"hash_size is {hash_size} with a sliding window: hits that end inside a block are modelled for full "
                "attention only; leave hash_size out, or use full attention groups"
            )

    @property
    def usable_blocks(self) -> int:
        """All blocks but the null block."""
        return self.num_blocks - 1

    @property
    def block_size(self) -> int:
        """Token slots a block, the same in every group."""
        return self.groups[0].block_size

    @property
    def has_partial_hits(self) -> bool:
        """Whether a hit may end inside a block."""
        return self.hash_size is not None and self.hash_size < self.block_size

    @property
    def hash_unit(self) -> int:
        """Tokens from one place where a hit may end to the next."""
        return self.block_size if self.hash_size is None else self.hash_size

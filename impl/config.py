"""What an allocator is built for; checked once, here."""

from dataclasses import dataclass

from slotproof.impl.groups import FullAttention, Group, SlidingWindow

UNHASHED_FIRST = "unhashed-first"
LRU = "lru"


@dataclass(frozen=True, slots=True)
class AllocatorConfig:
    """Sizes and switches of one allocator. Raises `ValueError` on anything that cannot work.

    num_blocks: blocks in the pool, the null block (id 0) included.
    groups: one kind per KV cache group; all of one block size.
    max_model_len: tokens; no request ever gets more slots.
    max_in_flight_tokens: most tokens one request can have unprocessed, for the window groups' admission
        cap; None means `max_model_len`, which makes the cap harmless.
    watermark_blocks: blocks kept free when a waiting or preempted request is admitted (ADMIT-2).
    free_order: "unhashed-first" (vLLM >= 0.24) sends freed blocks without a key to the front of the free
        queue; "lru" (vLLM <= 0.23) sends every freed block to the back.
    hash_size: tokens from one place where a hit may end to the next; None means whole blocks. A hit that ends inside a
        block is copied into a block of its own, see `SlotAllocator.take_copies`. Full attention only.
    """

    num_blocks: int
    groups: tuple[Group, ...]
    max_model_len: int
    max_in_flight_tokens: int | None = None
    watermark_blocks: int = 0
    enable_caching: bool = True
    free_order: str = UNHASHED_FIRST
    enable_events: bool = False
    hash_size: int | None = None

    def __post_init__(self) -> None:
        self._check_pool()
        self._check_groups()
        if self.max_model_len < 1:
            raise ValueError(f"max_model_len is {self.max_model_len}; give at least 1 token")
        if self.max_in_flight_tokens is not None and self.max_in_flight_tokens < 1:
            raise ValueError(f"max_in_flight_tokens is {self.max_in_flight_tokens}; give at least 1 token, or None")
        if self.free_order not in (UNHASHED_FIRST, LRU):
            raise ValueError(f"free_order {self.free_order!r} is unknown; use {UNHASHED_FIRST!r} or {LRU!r}")
        self._check_hash_size()

    def _check_pool(self) -> None:
        if self.num_blocks < 2:
            raise ValueError(f"num_blocks is {self.num_blocks}; give at least 2, the null block and one usable block")
        usable = self.num_blocks - 1
        if not 0 <= self.watermark_blocks < usable:
            raise ValueError(
                f"watermark_blocks is {self.watermark_blocks} of {usable} usable blocks; give 0 to {usable - 1}"
            )

    def _check_groups(self) -> None:
        if not self.groups:
            raise ValueError("groups is empty; give at least one FullAttention or SlidingWindow")
        for position, group in enumerate(self.groups):
            if not isinstance(group, FullAttention | SlidingWindow):
                raise ValueError(f"groups[{position}] is a {type(group).__name__}; use FullAttention or SlidingWindow")
            if group.block_size < 1:
                raise ValueError(f"groups[{position}].block_size is {group.block_size}; give at least 1 token")
            if isinstance(group, SlidingWindow) and group.window < 2:
                raise ValueError(
                    f"groups[{position}].window is {group.window}; give at least 2 tokens (1 is not supported)"
                )
        sizes = sorted({group.block_size for group in self.groups})
        if len(sizes) > 1:
            raise ValueError(f"groups have unequal block sizes {sizes}; give every group the same one")

    def _check_hash_size(self) -> None:
        if self.hash_size is None:
            return
        if self.hash_size < 1 or self.block_size % self.hash_size:
            raise ValueError(f"hash_size is {self.hash_size}; give a divisor of the block size {self.block_size}")
        if self.has_partial_hits and any(isinstance(group, SlidingWindow) for group in self.groups):
            raise ValueError(
                f"hash_size is {self.hash_size} with a SlidingWindow; hits end inside a block with FullAttention only"
            )

    @property
    def has_partial_hits(self) -> bool:
        """Whether hits may end inside a block."""
        return self.hash_size is not None and self.hash_size < self.block_size

    @property
    def block_size(self) -> int:
        """Tokens per block, the same in every group."""
        return self.groups[0].block_size

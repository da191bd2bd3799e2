"""KV events: what changed in the prefix index, in order.

Replayed as a multiset of (hash, group) they give the index (EVENT-1).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockStored:
    """Blocks of one group got their keys in one call.

    block_hashes: keys added, in table order; null entries add none.
    parent_hash: key of the block before the range, None at the start.
    token_ids: tokens of the whole range, null entries included.
    """

    block_hashes: tuple[bytes, ...]
    parent_hash: bytes | None
    token_ids: tuple[int, ...]
    block_size: int
    group: int


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    """One block lost its key, by being handed out or by `evict_blocks`."""

    block_hash: bytes
    group: int


@dataclass(frozen=True, slots=True)
class AllBlocksCleared:
    """The index was emptied by `reset_prefix_cache`."""


KVEvent = BlockStored | BlockRemoved | AllBlocksCleared

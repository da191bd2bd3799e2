"""What the allocator needs to know of a request."""

from array import array
from collections.abc import Iterable
from enum import Enum

from slotproof.impl.hashing import BlockHasher, ExtraKey


class RequestStatus(Enum):
    """Where the scheduler has the request; the watermark applies unless it is RUNNING (ADMIT-2)."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"


class Request:
    """One sequence: its finalized token ids and how far they are computed.

    Draft tokens never enter a request; they are only a count inside `num_new_tokens`, so they cannot be
    hashed (HASH-1). The scheduler owns `status`, `num_computed_tokens` and `num_in_flight_tokens`; grow
    `token_ids` through `append` only, which keeps `block_hashes` (one 32-byte key per full block) in step.
    `block_hashes` takes over keys that were computed elsewhere, of the first blocks; the others are hashed here.
    Raises `ValueError` on a block size below 1, a token id outside 64-bit signed, an extra key that is no str, int or
    bytes, more keys than full blocks, or a hash size that does not divide the block size.
    `hash_size` is the allocator's: where it is finer than a block, prefixes that end inside a block have keys too.
    """

    __slots__ = (
        "_hasher",
        "_part_hashers",
        "_parts",
        "block_hashes",
        "block_size",
        "cache_salt",
        "extra_keys",
        "hash_size",
        "num_computed_tokens",
        "num_in_flight_tokens",
        "num_prompt_tokens",
        "request_id",
        "status",
        "token_ids",
    )

    def __init__(
        self,
        request_id: str,
        token_ids: Iterable[int],
        *,
        block_size: int,
        cache_salt: str | None = None,
        extra_keys: tuple[ExtraKey, ...] = (),
        block_hashes: Iterable[bytes] = (),
        hash_size: int | None = None,
    ) -> None:
        if block_size < 1:
            raise ValueError(f"request {request_id!r}: block_size is {block_size}; give at least 1 token")
        if hash_size is not None and (hash_size < 1 or block_size % hash_size):
            raise ValueError(f"request {request_id!r}: hash_size is {hash_size}; give a divisor of {block_size}")
        self.hash_size = block_size if hash_size is None else hash_size
        self.request_id = request_id
        self.block_size = block_size
        self.cache_salt = cache_salt
        self.extra_keys = extra_keys
        self.token_ids: list[int] = []
        self.block_hashes: list[bytes] = list(block_hashes)
        self.num_computed_tokens = 0
        self.num_in_flight_tokens = 0
        self.status = RequestStatus.WAITING
        self._hasher = BlockHasher(block_size, cache_salt, extra_keys)
        self._part_hashers = [
            BlockHasher(size, cache_salt, extra_keys) for size in range(self.hash_size, block_size, self.hash_size)
        ]
        self._parts: list[list[bytes]] = []
        self.append(token_ids)
        self.num_prompt_tokens = len(self.token_ids)
        if len(self.block_hashes) > self.num_prompt_tokens // block_size:
            raise ValueError(
                f"request {request_id!r}: {len(self.block_hashes)} block hashes for {self.num_prompt_tokens} tokens in "
                f"blocks of {block_size}; give one for each full block at most"
            )

    @property
    def num_tokens(self) -> int:
        """Finalized tokens: prompt and accepted output."""
        return len(self.token_ids)

    def append(self, token_ids: Iterable[int]) -> None:
        """Adds finalized tokens and hashes the blocks they fill. Raises `ValueError`, changing nothing, on a bad id."""
        try:
            accepted = array("q", token_ids)
        except (OverflowError, TypeError) as error:
            raise ValueError(f"request {self.request_id!r}: token ids must be 64-bit signed integers") from error
        self.token_ids.extend(accepted)
        hashes, size = self.block_hashes, self.block_size
        parent = hashes[-1] if hashes else None
        for start in range(len(hashes) * size, len(self.token_ids) - size + 1, size):
            parent = self._hasher.digest(parent, self.token_ids[start : start + size])
            hashes.append(parent)
        if self._part_hashers:
            self._hash_parts()

    def _hash_parts(self) -> None:
        """Keys the prefixes that end inside a block, of the last block so far and those behind it."""
        del self._parts[-1:]
        for position in range(len(self._parts), -(-len(self.token_ids) // self.block_size)):
            start = position * self.block_size
            parent = self.block_hashes[position - 1] if position else None
            ends = range(start + self.hash_size, len(self.token_ids) + 1, self.hash_size)
            self._parts.append(
                [
                    hasher.digest(parent, self.token_ids[start:end])
                    for hasher, end in zip(self._part_hashers, ends, strict=False)
                ]
            )

    def parts_of(self, position: int, num_tokens: int) -> list[bytes]:
        """The keys of the prefixes that end inside a block, within its first `num_tokens` tokens; shortest first."""
        return self._parts[position][: num_tokens // self.hash_size] if position < len(self._parts) else []

    def __repr__(self) -> str:
        return (
            f"Request({self.request_id!r}, {self.num_tokens} tokens, "
            f"{self.num_computed_tokens} computed, {self.status.value})"
        )

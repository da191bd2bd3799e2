"""The prefix index: which block offers which key."""

from collections.abc import Iterator, Sequence

from slotproof.impl.free_queue import NULL_BLOCK


class PrefixIndex:
    """Maps (hash, group) to the block keyed first that still carries it (INDEX-1).

    Blocks are not de-duplicated: those sharing a key form a ring through two flat integer lists, in the
    order they were keyed, so adding and dropping are O(1). `hash_of[b]` is None for a keyless block;
    `group_of[b]` has a meaning only for a keyed one.
    """

    __slots__ = ("_after", "_before", "_first", "group_of", "hash_of")

    def __init__(self, num_blocks: int, num_groups: int) -> None:
        self._first: list[dict[bytes, int]] = [{} for _ in range(num_groups)]
        self._after = list(range(num_blocks))
        self._before = list(range(num_blocks))
        self.hash_of: list[bytes | None] = [None] * num_blocks
        self.group_of = [0] * num_blocks

    def find(self, group: int, block_hash: bytes) -> int:
        """The block that offers the key, or the null block."""
        return self._first[group].get(block_hash, NULL_BLOCK)

    def first_stale(self, group: int, blocks: Sequence[int], hashes: Sequence[bytes], nulls: int) -> int | None:
        """First position whose block does not carry its hash in `group`; the first `nulls` blocks may be null."""
        hash_of, group_of, end = self.hash_of, self.group_of, len(self.hash_of)
        for position, (block, block_hash) in enumerate(zip(blocks, hashes, strict=False)):
            fresh = 0 < block < end and hash_of[block] == block_hash and group_of[block] == group
            if not fresh and not (block == NULL_BLOCK and position < nulls):
                return position
        return None

    def add(self, block: int, group: int, block_hash: bytes) -> None:
        """Gives a keyless block its key, behind those that already carry it."""
        self.hash_of[block] = block_hash
        self.group_of[block] = group
        first = self._first[group].setdefault(block_hash, block)
        if first != block:
            last = self._before[first]
            self._after[last] = self._before[first] = block
            self._before[block], self._after[block] = last, first

    def drop(self, block: int) -> bytes | None:
        """Takes the key of `block` away and returns its hash; None if it had none."""
        block_hash = self.hash_of[block]
        if block_hash is None:
            return None
        self.hash_of[block] = None
        first = self._first[self.group_of[block]]
        after = self._after[block]
        if after == block:
            del first[block_hash]
            return block_hash
        if first[block_hash] == block:
            first[block_hash] = after
        before = self._before[block]
        self._after[before], self._before[after] = after, before
        self._after[block] = self._before[block] = block
        return block_hash

    def clear(self) -> None:
        """Takes every key away (RESET-1)."""
        for block in list(self):
            self.drop(block)

    def __iter__(self) -> Iterator[int]:
        """Keyed blocks; those sharing a key in the order they were keyed."""
        for offered in self._first:
            for first in offered.values():
                yield first
                block = self._after[first]
                while block != first:
                    yield block
                    block = self._after[block]

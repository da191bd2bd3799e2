"""The prefix index: which block offers which key."""

from collections.abc import Iterable, Iterator, Sequence

from slotproof.impl.free_queue import NULL_BLOCK


class PrefixIndex:
    """Maps (hash, group) to the block keyed first that still carries it (INDEX-1).

    `offered[group]` maps a hash to that block. `num_dropped` grows with every key taken away, so what was offered
    at an equal number still is. Blocks are not de-duplicated: those sharing a key form a ring through two flat
    integer lists, in the order they were keyed, so adding and dropping are O(1). `hash_of[b]` is None for a keyless
    block; `group_of[b]` has a meaning only for a keyed one.
    """

    __slots__ = ("_after", "_before", "group_of", "hash_of", "num_dropped", "offered")

    def __init__(self, num_blocks: int, num_groups: int) -> None:
        self.offered: list[dict[bytes, int]] = [{} for _ in range(num_groups)]
        self._after = list(range(num_blocks))
        self._before = list(range(num_blocks))
        self.hash_of: list[bytes | None] = [None] * num_blocks
        self.group_of = [0] * num_blocks
        self.num_dropped = 0

    def first_stale(self, group: int, blocks: Sequence[int], hashes: Sequence[bytes], nulls: int) -> int | None:
        """First position whose block does not carry its hash in `group`; the first `nulls` blocks may be null."""
        hash_of, group_of, end = self.hash_of, self.group_of, len(self.hash_of)
        for position, (block, block_hash) in enumerate(zip(blocks, hashes, strict=False)):
            fresh = 0 < block < end and hash_of[block] == block_hash and group_of[block] == group
            if not fresh and not (block == NULL_BLOCK and position < nulls):
                return position
        return None

    def offers_part(self, group: int, block: int, part: bytes) -> bool:
        """Whether a block offers a prefix that ends inside it for copying; whole blocks do not."""
        return False

    def add(self, group: int, table: Sequence[int], hashes: Sequence[bytes], start: int, end: int) -> None:
        """Keys the keyless entries `start`..`end` - 1 of a table of `group`, each behind those that carry its hash.

        Null entries are passed over.
        """
        hash_of, group_of, offered = self.hash_of, self.group_of, self.offered[group]
        for position in range(start, end):
            block = table[position]
            if block != NULL_BLOCK:
                hash_of[block] = block_hash = hashes[position]
                group_of[block] = group
                first = offered.setdefault(block_hash, block)
                if first != block:
                    self._join(first, block)

    def drop(self, blocks: Iterable[int]) -> None:
        """Takes the keys of these blocks away; keyless ones are passed over."""
        hash_of, group_of, after, offered = self.hash_of, self.group_of, self._after, self.offered
        for block in blocks:
            block_hash = hash_of[block]
            if block_hash is None:
                continue
            hash_of[block] = None
            self.num_dropped += 1
            if after[block] == block:
                del offered[group_of[block]][block_hash]
            else:
                self._leave(block, block_hash)

    def _join(self, first: int, block: int) -> None:
        """Puts a block at the end of the ring of `first`."""
        last = self._before[first]
        self._after[last] = self._before[first] = block
        self._before[block], self._after[block] = last, first

    def _leave(self, block: int, block_hash: bytes) -> None:
        """Takes a block out of its ring of several; the next one is offered in its place."""
        offered, after, before = self.offered[self.group_of[block]], self._after[block], self._before[block]
        if offered[block_hash] == block:
            offered[block_hash] = after
        self._after[before], self._before[after] = after, before
        self._after[block] = self._before[block] = block

    def clear(self) -> None:
        """Takes every key away (RESET-1)."""
        self.drop(list(self))

    def __iter__(self) -> Iterator[int]:
        """Keyed blocks; those sharing a key in the order they were keyed."""
        for offered in self.offered:
            for first in offered.values():
                yield first
                block = self._after[first]
                while block != first:
                    yield block
                    block = self._after[block]

"""The prefix index: which block offers which key."""

from collections.abc import Iterable, Iterator, Sequence

from slotproof.impl.free_queue import NULL_BLOCK


class PrefixIndex:
    """Maps (hash, group) to the block keyed first that still carries it (INDEX-1).

    `offered[group]` maps a hash to that block. Blocks are not de-duplicated: where several carry one key,
    `twins[group]` has all of them in the order they were keyed. Few keys have twins, so most changes are to one
    dictionary entry.
    `num_dropped` grows with every call that takes keys away, so what was offered at an equal number still is.
    `hash_of[b]` is None for a keyless block; `group_of[b]` has a meaning only for a keyed one, among several groups.
    """

    __slots__ = ("_several", "group_of", "hash_of", "num_dropped", "offered", "twins")

    def __init__(self, num_blocks: int, num_groups: int) -> None:
        self.offered: list[dict[bytes, int]] = [{} for _ in range(num_groups)]
        self.twins: list[dict[bytes, dict[int, None]]] = [{} for _ in range(num_groups)]
        self.hash_of: list[bytes | None] = [None] * num_blocks
        self.group_of = [0] * num_blocks
        self.num_dropped = 0
        self._several = num_groups > 1

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
        hash_of, group_of, offer, several = self.hash_of, self.group_of, self.offered[group].setdefault, self._several
        for block, block_hash in zip(table[start:end], hashes[start:end], strict=True):
            if block != NULL_BLOCK:
                hash_of[block] = block_hash
                if several:
                    group_of[block] = group
                first = offer(block_hash, block)
                if first != block:
                    self.twins[group].setdefault(block_hash, {first: None})[block] = None

    def add_one(self, group: int, block: int, block_hash: bytes) -> None:
        """What `add` does, for the one block that a decode step fills."""
        if block != NULL_BLOCK:
            self.hash_of[block] = block_hash
            if self._several:
                self.group_of[block] = group
            first = self.offered[group].setdefault(block_hash, block)
            if first != block:
                self.twins[group].setdefault(block_hash, {first: None})[block] = None

    def drop(self, blocks: Iterable[int]) -> None:
        """Takes the keys of these blocks away; keyless ones are passed over."""
        hash_of, group_of, all_offered, all_twins = self.hash_of, self.group_of, self.offered, self.twins
        dropped = False
        for block in blocks:
            block_hash = hash_of[block]
            if block_hash is not None:
                hash_of[block] = None
                dropped = True
                group = group_of[block]
                if block_hash in all_twins[group]:
                    self._leave(group, block_hash, block)
                else:
                    del all_offered[group][block_hash]
        if dropped:
            self.num_dropped += 1

    def drop_one(self, block: int) -> None:
        """Takes the key of this block away, which it has."""
        block_hash, group = self.hash_of[block], self.group_of[block]
        assert block_hash is not None
        self.hash_of[block] = None
        self.num_dropped += 1
        if block_hash in self.twins[group]:
            self._leave(group, block_hash, block)
        else:
            del self.offered[group][block_hash]

    def _leave(self, group: int, block_hash: bytes, block: int) -> None:
        """Takes a block away from its twins; the next one is offered in its place."""
        offered, twins = self.offered[group], self.twins[group][block_hash]
        del twins[block]
        if offered[block_hash] == block:
            offered[block_hash] = next(iter(twins))
        if len(twins) == 1:
            del self.twins[group][block_hash]

    def clear(self) -> None:
        """Takes every key away (RESET-1)."""
        self.drop(list(self))

    def __iter__(self) -> Iterator[int]:
        """Keyed blocks; those sharing a key in the order they were keyed."""
        for offered, twins in zip(self.offered, self.twins, strict=True):
            for block_hash, first in offered.items():
                yield from twins.get(block_hash, (first,))

"""Hits that end inside a block: which parts of blocks are offered, and the copies that they lead to.

Everything here is unused, and costs nothing, unless the hash granularity is finer than the block.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from slotproof.impl.config import AllocatorConfig
from slotproof.impl.events import BlockStored
from slotproof.impl.lookup import FoundBlocks
from slotproof.impl.pool import BlockPool
from slotproof.impl.prefix_index import PrefixIndex
from slotproof.impl.request import Request
from slotproof.impl.tables import Adoption, RequestTables


class TailIndex(PrefixIndex):
    """A prefix index that also offers parts of blocks for copying, as long as their block carries a key.

    `parts[group]` maps the hash of a prefix that ends inside a block to the blocks that hold it, the one that offered
    it first first. `parts_of[b]` has what block b offers, shortest first.
    """

    __slots__ = ("parts", "parts_of")

    def __init__(self, num_blocks: int, num_groups: int) -> None:
        super().__init__(num_blocks, num_groups)
        self.parts: list[dict[bytes, dict[int, None]]] = [{} for _ in range(num_groups)]
        self.parts_of: list[list[bytes]] = [[] for _ in range(num_blocks)]

    def drop(self, blocks: Iterable[int]) -> None:
        """Takes the keys of these blocks away, and with them what they offer for copying."""
        blocks = list(blocks)
        super().drop(blocks)
        for block in blocks:
            for part in self.parts_of[block]:
                offered = self.parts[self.group_of[block]]
                del offered[part][block]
                if not offered[part]:
                    del offered[part]
            self.parts_of[block] = []

    def drop_one(self, block: int) -> None:
        """Takes the key of this block away, and what it offers for copying."""
        self.drop([block])

    def rename(self, blocks: Sequence[int]) -> None:
        """Takes the keys of these blocks away, which are about to get longer ones; their parts stay."""
        super().drop(blocks)

    def offer_parts(self, group: int, block: int, parts: Sequence[bytes]) -> None:
        """Offers the parts of a keyed block, shortest first; some of the first may be offered already."""
        known = self.parts_of[block]
        for part in parts[len(known) :]:
            known.append(part)
            self.parts[group].setdefault(part, {})[block] = None

    def offers_part(self, group: int, block: int, part: bytes) -> bool:
        """Whether a block offers a prefix that ends inside it for copying."""
        return block in self.parts[group].get(part, {})

    def find(self, parts: Sequence[bytes]) -> tuple[int, tuple[int, ...]]:
        """How many of the parts, shortest first, every group offers, and the block of the longest one a group."""
        for count in range(len(parts), 0, -1):
            holders = [offered.get(parts[count - 1]) for offered in self.parts]
            if all(holders):
                return count, tuple(next(iter(blocks)) for blocks in holders if blocks)
        return 0, ()

    def offered_parts(self) -> Iterator[tuple[int, bytes, int]]:
        """(block, hash, group) of everything that is offered; of one hash the block to be copied from first."""
        for group, offered in enumerate(self.parts):
            for part, blocks in offered.items():
                for block in blocks:
                    yield block, part, group


class TailPool(BlockPool):
    """A pool whose blocks offer parts, and which holds both ends of a copy until it is done (POOL-2)."""

    __slots__ = ("_taken", "copies", "tails")

    def __init__(self, config: AllocatorConfig) -> None:
        super().__init__(config)
        self.index = self.tails = TailIndex(config.num_blocks, len(config.groups))
        self.copies: deque[tuple[int, int]] = deque()
        self._taken = 0

    def store_keys(self, request: Request, table: Sequence[int], start: int, end: int, group: int) -> None:
        """Keys full blocks; one that carries the key of a part loses it to its own (HASH-2)."""
        self._make_keyless(table[start:end])
        super().store_keys(request, table, start, end, group)

    def store_parts(self, request: Request, tables: RequestTables, num_tokens: int) -> None:
        """Offers the parts of all keyed blocks that hold the first `num_tokens` tokens, which are computed (HASH-1).

        A last block that is not full is keyed by its longest part, unless it is by a longer one.
        """
        size = request.block_size
        full = num_tokens // size
        for group, table in enumerate(tables.blocks):
            last = request.parts_of(full, num_tokens - full * size)
            if last and (tables.cached is None or tables.cached[group] <= full):
                self._key_last(request, table[full], full, len(last), group)
            for position in range(-(-num_tokens // size)):
                block = table[position]
                parts = request.parts_of(position, num_tokens - position * size)
                if self.index.hash_of[block] is not None and len(self.tails.parts_of[block]) < len(parts):
                    self.tails.offer_parts(group, block, parts)

    def _key_last(self, request: Request, block: int, position: int, length: int, group: int) -> None:
        """Keys a block that is not full by its part of this length."""
        parts = request.parts_of(position, request.block_size)
        if self.index.hash_of[block] in parts[length - 1 :]:
            return
        self._make_keyless([block])
        self.index.add(group, [block], [parts[length - 1]], 0, 1)
        if self._events is not None:
            self._note_part(request, position, length, group)

    def _make_keyless(self, blocks: Sequence[int]) -> None:
        """Takes the keys of blocks away that are to get longer ones."""
        keyed = [block for block in blocks if self.index.hash_of[block] is not None]
        if keyed:
            if self._events is not None:
                self._note_removals(keyed)
            self.tails.rename(keyed)

    def _note_part(self, request: Request, position: int, length: int, group: int) -> None:
        """The event of a part that was stored."""
        assert self._events is not None
        size, num_tokens = request.block_size, length * request.hash_size
        parent = request.block_hashes[position - 1] if position else None
        tokens = tuple(request.token_ids[position * size : position * size + num_tokens])
        part = request.parts_of(position, num_tokens)[-1]
        self._events.append(BlockStored((part,), parent, tokens, num_tokens, group))

    def pin_sources(self, adoption: Adoption) -> None:
        """Holds what is to be copied, before anything is popped (COMMIT-1)."""
        self.touch(adoption.sources, adoption.idle_sources)

    def list_copies(self, adoption: Adoption, tables: RequestTables) -> None:
        """Puts a pair a group on the copy list, into the first block behind the hit, and holds that too (MEM-2)."""
        for source, table, kept in zip(adoption.sources, tables.blocks, adoption.kept, strict=True):
            self.refs[table[len(kept)]] += 1
            self.copies.append((source, table[len(kept)]))

    def take_copies(self) -> list[tuple[int, int]]:
        """The pairs that were listed since the last time."""
        listed = list(self.copies)[self._taken :]
        self._taken = len(self.copies)
        return listed

    def release_copy(self) -> bool:
        """Lets go of the ends of the oldest copy, the private one first (FREE-1). False if there is none."""
        if not self.copies:
            return False
        source, destination = self.copies.popleft()
        self._taken = max(self._taken - 1, 0)
        self.release([source, destination])
        return True


def found_with_tails(index: TailIndex, request: Request, found: FoundBlocks, length: int) -> int:
    """Adds to a hit of `length` blocks the longest part of the next one; how many tokens that is (LOOKUP-1)."""
    left = request.num_tokens - 1 - length * request.block_size
    count, found.tails = index.find(request.parts_of(length, left))
    found.tail_tokens = count * request.hash_size
    return found.tail_tokens

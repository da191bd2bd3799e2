"""The block pool: reference counts, the free queue, the prefix index, and the events of their changes."""

from collections.abc import Sequence
from operator import itemgetter

from slotproof.impl.config import LRU, AllocatorConfig
from slotproof.impl.events import AllBlocksCleared, BlockRemoved, BlockStored, KVEvent
from slotproof.impl.free_queue import NULL_BLOCK, FreeQueue
from slotproof.impl.prefix_index import PrefixIndex
from slotproof.impl.request import Request


class BlockPool:
    """Metadata of `num_blocks` blocks in flat lists; a block is an integer.

    A block other than null is queued exactly when `refs[b]` is 0 (POOL-1). The null block's count stays 0.
    """

    __slots__ = ("_all_to_back", "_events", "index", "num_usable", "queue", "refs")

    def __init__(self, config: AllocatorConfig) -> None:
        self.num_usable = config.num_blocks - 1
        self.queue = FreeQueue(config.num_blocks)
        self.index = PrefixIndex(config.num_blocks, len(config.groups))
        self.refs = [0] * config.num_blocks
        self._all_to_back = config.free_order == LRU
        self._events: list[KVEvent] | None = [] if config.enable_events else None

    def take(self, count: int) -> list[int]:
        """Pops `count` blocks from the front, keyless and held once (COMMIT-2). The caller has counted."""
        taken = self.queue.pop(count)
        if self._events is not None:
            self._note_removals(taken)
        self.index.drop(taken)
        refs = self.refs
        for block in taken:
            refs[block] = 1
        return taken

    def take_one(self) -> int:
        """What `take` does, for the one block that a decode step takes."""
        queue = self.queue
        after = queue.after
        block = after[NULL_BLOCK]
        following = after[block]
        after[NULL_BLOCK] = following
        queue.before[following] = NULL_BLOCK
        queue.count -= 1
        self.refs[block] = 1
        if self.index.hash_of[block] is not None:
            if self._events is not None:
                self._note_removals([block])
            self.index.drop_one(block)
        return block

    def is_idle_run(self, blocks: Sequence[int]) -> bool:
        """Whether all are idle and stand side by side, the last one first, as a table's do since it was freed."""
        if not blocks or self.refs[blocks[-1]]:
            return False
        # What an idle block is linked to is idle, so the links say it all. One operator reads them for all blocks.
        return len(blocks) == 1 or itemgetter(*blocks)(self.queue.after)[1:] == tuple(blocks)[:-1]

    def idle_among(self, blocks: Sequence[int]) -> list[int]:
        """Those that nobody holds."""
        refs = self.refs
        return [block for block in blocks if not refs[block]]

    def touch(self, blocks: Sequence[int], idle: Sequence[int]) -> None:
        """Holds keyed blocks, each named once, once more; those of them that are `idle` leave the queue (COMMIT-1)."""
        refs = self.refs
        self.queue.remove(idle)
        for block in blocks:
            refs[block] += 1

    def touch_run(self, blocks: Sequence[int]) -> None:
        """Does the same for an idle run, whose place in the queue is one step to leave."""
        refs = self.refs
        self.queue.remove_run(blocks)
        for block in blocks:
            refs[block] = 1

    def release(self, table: Sequence[int]) -> None:
        """Lets go of each block once, tail to head; those at 0 are queued as FREE-1 says. None of them is null."""
        refs, hash_of, all_to_back, queue = self.refs, self.index.hash_of, self._all_to_back, self.queue
        after, before = queue.after, queue.before
        front: list[int] = []
        last, num_shared = before[NULL_BLOCK], 0
        for block in reversed(table):
            if refs[block] > 1:
                refs[block] -= 1
                num_shared += 1
                continue
            refs[block] = 0
            if hash_of[block] is None and not all_to_back:
                front.append(block)
            else:
                # Joins the back at once; the queue's end is closed after the loop.
                after[last] = block
                before[block] = last
                last = block
        after[last] = NULL_BLOCK
        before[NULL_BLOCK] = last
        queue.count += len(table) - num_shared - len(front)
        if front:
            queue.push_front(front)

    def store_keys(self, request: Request, table: Sequence[int], start: int, end: int, group: int) -> None:
        """Keys the non-null entries `start`..`end` - 1 of a table of `group` (HASH-2)."""
        hashes = request.block_hashes
        if end - start == 1:
            self.index.add_one(group, table[start], hashes[start])
        else:
            self.index.add(group, table, hashes, start, end)
        if self._events is None:
            return
        stored = tuple(hashes[position] for position in range(start, end) if table[position] != NULL_BLOCK)
        if stored:
            size = request.block_size
            parent = hashes[start - 1] if start else None
            tokens = tuple(request.token_ids[start * size : end * size])
            self._events.append(BlockStored(stored, parent, tokens, size, group))

    def drop_keys(self, blocks: list[int]) -> None:
        """Takes the keys of these blocks away (EVICT-1)."""
        if self._events is not None:
            self._note_removals(blocks)
        self.index.drop(blocks)

    def _note_removals(self, blocks: list[int]) -> None:
        """One event a key that is about to go."""
        assert self._events is not None
        hash_of, group_of = self.index.hash_of, self.index.group_of
        for block in dict.fromkeys(blocks):
            block_hash = hash_of[block]
            if block_hash is not None:
                self._events.append(BlockRemoved(block_hash, group_of[block]))

    def clear_keys(self) -> bool:
        """Takes every key away if nothing is held; says whether it did (RESET-1)."""
        if self.queue.count != self.num_usable:
            return False
        self.index.clear()
        if self._events is not None:
            self._events.append(AllBlocksCleared())
        return True

    def take_events(self) -> list[KVEvent]:
        """The events since the last call; always empty when events are off."""
        if self._events is None:
            return []
        events, self._events = self._events, []
        return events

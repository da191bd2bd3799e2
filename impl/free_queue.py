"""The free queue: every block nobody holds, in eviction order."""

from collections.abc import Iterator, Sequence

NULL_BLOCK = 0


class FreeQueue:
    """Doubly linked list over block ids, in two flat integer lists; every step is O(1) per block.

    The null block is never queued (POOL-3), so its links serve as the sentinel: the front is after it, the
    back before it. Callers queue a block only when it is not queued, and take no more than `count`.
    """

    __slots__ = ("after", "before", "count")

    def __init__(self, num_blocks: int) -> None:
        self.after: list[int] = [*range(1, num_blocks), NULL_BLOCK]
        self.before: list[int] = [num_blocks - 1, *range(num_blocks - 1)]
        self.count = num_blocks - 1

    def pop(self, count: int) -> list[int]:
        """Takes `count` blocks from the front, front first (COMMIT-2)."""
        after = self.after
        popped: list[int] = []
        block = after[NULL_BLOCK]
        for _ in range(count):
            popped.append(block)
            block = after[block]
        after[NULL_BLOCK] = block
        self.before[block] = NULL_BLOCK
        self.count -= count
        return popped

    def remove(self, blocks: Sequence[int]) -> None:
        """Takes these blocks out from wherever they stand."""
        before, after = self.before, self.after
        for block in blocks:
            left, right = before[block], after[block]
            after[left] = right
            before[right] = left
        self.count -= len(blocks)

    def remove_run(self, blocks: Sequence[int]) -> None:
        """Takes blocks out that stand side by side, the last one of `blocks` first."""
        left, right = self.before[blocks[-1]], self.after[blocks[0]]
        self.after[left] = right
        self.before[right] = left
        self.count -= len(blocks)

    def push_front(self, blocks: Sequence[int]) -> None:
        """Puts a run at the front; its first block becomes the next one popped."""
        before, after, left, right = self.before, self.after, NULL_BLOCK, self.after[NULL_BLOCK]
        for block in blocks:
            after[left] = block
            before[block] = left
            left = block
        after[left] = right
        before[right] = left
        self.count += len(blocks)

    def __iter__(self) -> Iterator[int]:
        block = self.after[NULL_BLOCK]
        while block != NULL_BLOCK:
            yield block
            block = self.after[block]

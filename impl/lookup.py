"""Prefix hits: the longest prefix that every group can serve from the index (LOOKUP-1)."""

from collections.abc import Sequence
from itertools import islice, repeat, takewhile

from slotproof.impl.free_queue import NULL_BLOCK
from slotproof.impl.groups import Group, SlidingWindow
from slotproof.impl.prefix_index import PrefixIndex
from slotproof.impl.request import Request


class FoundBlocks(tuple[tuple[int, ...], ...]):
    """The blocks of a hit, one tuple per group; it knows whether it is still what the lookup found.

    tails: where a hit ends inside a block, the block of each group to copy the last `tail_tokens` tokens from.
    """

    origin: tuple[Request, PrefixIndex, int]
    """For which request, in which index, and how many keys had been taken away by then."""
    tails: tuple[int, ...] = ()
    tail_tokens: int = 0

    def still_offered(self, request: Request, index: PrefixIndex) -> bool:
        """Whether it was found for this request in this index, and no key was taken away since."""
        found_for, found_in, num_dropped = self.origin
        return found_for is request and found_in is index and num_dropped == index.num_dropped


class PrefixLookup:
    """Finds hits in one index; changes nothing."""

    __slots__ = ("_foremost", "_full", "_index", "_num_groups", "_windows")

    def __init__(self, index: PrefixIndex, groups: Sequence[Group]) -> None:
        self._index = index
        self._num_groups = len(groups)
        self._windows = [(at, group.hit_run) for at, group in enumerate(groups) if isinstance(group, SlidingWindow)]
        self._full = [at for at, group in enumerate(groups) if not isinstance(group, SlidingWindow)]
        self._foremost = index.offered[self._full[0]] if self._full else None

    def find(self, hashes: Sequence[bytes], limit: int) -> tuple[tuple[int, ...], ...]:
        """The blocks of the longest hit of at most `limit` blocks, the same number in every group.

        Null where a window does not look; an empty tuple if there is no hit.
        """
        if self._foremost is not None:
            # Most misses are those of a first block, and cost one question.
            if hashes[0] not in self._foremost:
                return ()
            if self._num_groups == 1:
                return (tuple(offered_prefix(self._foremost, hashes, limit)),)
        found: dict[int, list[int]] = {}
        for group in self._full:
            found[group] = blocks = offered_prefix(self._index.offered[group], hashes, limit)
            limit = len(blocks)
            if not limit:
                return ()
        if not self._windows:
            return tuple(tuple(blocks[:limit]) for blocks in found.values())
        length = self._common_length(hashes, limit)
        if not length:
            return ()
        for group, run in self._windows:
            skipped = max(length - run, 0)
            offered = self._index.offered[group]
            found[group] = [*[NULL_BLOCK] * skipped, *[offered[block_hash] for block_hash in hashes[skipped:length]]]
        return tuple(tuple(found[group][:length]) for group in range(self._num_groups))

    def _common_length(self, hashes: Sequence[bytes], limit: int) -> int:
        """Longest length of at most `limit` that is a hit in every window group."""
        while limit:
            shortest = limit
            for group, run in self._windows:
                shortest = self._window_hit(group, run, hashes, shortest)
            # A full-attention hit stays one when it is shortened, a window hit may not.
            if shortest == limit or len(self._windows) == 1:
                return shortest
            limit = shortest
        return 0

    def _window_hit(self, group: int, run: int, hashes: Sequence[bytes], limit: int) -> int:
        """Longest length of at most `limit` whose last `run` blocks (all, if shorter) are cached."""
        offered = self._index.offered[group]
        length = limit
        while length:
            # The leftmost miss rules out every length up to `run` blocks behind it, so go on at the miss.
            for position in range(max(length - run, 0), length):
                if hashes[position] not in offered:
                    length = position
                    break
            else:
                return length
        return 0


def offered_prefix(offered: dict[bytes, int], hashes: Sequence[bytes], limit: int) -> list[int]:
    """The blocks of the first `limit` hashes, up to the first that is not offered: one loop in C."""
    # Block 0 is never offered, so it can stand for a miss.
    return list(takewhile(bool, map(offered.get, islice(hashes, limit), repeat(NULL_BLOCK))))

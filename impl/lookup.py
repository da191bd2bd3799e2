"""Prefix hits: the longest prefix that every group can serve from the index (LOOKUP-1)."""

from collections.abc import Sequence

from slotproof.impl.free_queue import NULL_BLOCK
from slotproof.impl.groups import Group, SlidingWindow
from slotproof.impl.prefix_index import PrefixIndex


def longest_hit(index: PrefixIndex, groups: Sequence[Group], hashes: Sequence[bytes], limit: int) -> int:
    """Blocks of the longest hit of at most `limit` blocks, the same in every group; changes nothing."""
    windows: list[tuple[int, int]] = []
    for position, group in enumerate(groups):
        if isinstance(group, SlidingWindow):
            windows.append((position, group.hit_run))
        else:
            limit = _leading_run(index, position, hashes, limit)
    while limit:
        shortest = limit
        for position, run in windows:
            shortest = _window_hit(index, position, run, hashes, shortest)
        # A full-attention hit stays one when it is shortened, a window hit may not.
        if shortest == limit or len(windows) == 1:
            return shortest
        limit = shortest
    return 0


def hit_blocks(
    index: PrefixIndex, groups: Sequence[Group], hashes: Sequence[bytes], length: int
) -> tuple[tuple[int, ...], ...]:
    """The blocks of a hit of `length` blocks, one tuple per group, null where a window does not look."""
    tables: list[tuple[int, ...]] = []
    for position, group in enumerate(groups):
        skipped = max(length - group.hit_run, 0) if isinstance(group, SlidingWindow) else 0
        found = [index.find(position, block_hash) for block_hash in hashes[skipped:length]]
        tables.append((*[NULL_BLOCK] * skipped, *found))
    return tuple(tables)


def _leading_run(index: PrefixIndex, group: int, hashes: Sequence[bytes], limit: int) -> int:
    for position in range(limit):
        if index.find(group, hashes[position]) == NULL_BLOCK:
            return position
    return limit


def _window_hit(index: PrefixIndex, group: int, run: int, hashes: Sequence[bytes], limit: int) -> int:
    """Longest length of at most `limit` whose last `run` blocks (all, if shorter) are cached."""
    length = limit
    while length:
        # The leftmost miss rules out every length up to `run` blocks behind it, so go on at the miss.
        for position in range(max(length - run, 0), length):
            if index.find(group, hashes[position]) == NULL_BLOCK:
                length = position
                break
        else:
            return length
    return 0

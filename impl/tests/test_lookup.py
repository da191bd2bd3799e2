import random
from collections.abc import Sequence

import pytest

from slotproof.impl import FullAttention, SlidingWindow
from slotproof.impl.groups import Group
from slotproof.impl.lookup import PrefixLookup
from slotproof.impl.prefix_index import PrefixIndex

HASHES = [bytes([position]) for position in range(12)]


def index_of(*cached: str) -> PrefixIndex:
    """One string of x (cached) and . (not) per group; the block of position p in group g is 1 + 12 g + p."""
    index = PrefixIndex(1 + 12 * len(cached), len(cached))
    for group, marks in enumerate(cached):
        for position, mark in enumerate(marks):
            if mark == "x":
                index.add(group, [1 + 12 * group + position], [HASHES[position]], 0, 1)
    return index


def longest_hit(index: PrefixIndex, groups: Sequence[Group], hashes: Sequence[bytes], limit: int) -> int:
    blocks = PrefixLookup(index, groups).find(hashes, limit)
    assert len({len(table) for table in blocks}) <= 1
    return len(blocks[0]) if blocks else 0


@pytest.mark.parametrize(
    ("cached", "limit", "expected"),
    [("", 5, 0), ("xxx", 5, 3), ("xxx", 2, 2), ("xx.xx", 5, 2), (".xxxx", 5, 0)],
)
def test_full_attention_stops_at_the_first_miss(cached: str, limit: int, expected: int) -> None:
    assert longest_hit(index_of(cached), [FullAttention(4)], HASHES, limit) == expected


@pytest.mark.parametrize(
    ("cached", "limit", "expected"),
    [
        ("", 5, 0),
        ("..xx", 4, 4),
        ("..xx", 3, 0),
        ("x.xx.x", 6, 4),
        ("x...x", 5, 1),
        (".x...", 5, 0),
        ("xx...", 5, 2),
        ("xxxxx", 4, 4),
    ],
)
def test_window_needs_its_last_blocks_or_the_very_start(cached: str, limit: int, expected: int) -> None:
    assert longest_hit(index_of(cached), [SlidingWindow(4, 9)], HASHES, limit) == expected


def test_vllm_worked_example_of_a_window_of_four() -> None:
    # Block 1, window 4, 15-token prompt: 14 needs tokens 11-13, 6 needs 3-5.
    hashes = [bytes([position]) for position in range(15)]
    index = PrefixIndex(20, 1)
    for position in (2, 3, 4, 5, 11, 12, 13):
        index.add(0, [position + 1], [hashes[position]], 0, 1)
    assert longest_hit(index, [SlidingWindow(1, 4)], hashes, 14) == 14
    assert longest_hit(index, [SlidingWindow(1, 4)], hashes, 13) == 6
    assert PrefixLookup(index, [SlidingWindow(1, 4)]).find(hashes, 6) == ((0, 0, 0, 4, 5, 6),)


def test_groups_agree_by_fixed_point() -> None:
    groups = [SlidingWindow(4, 5), SlidingWindow(4, 9), FullAttention(4)]
    index = index_of("..x..x", "xx.xx.", "xxxxxx")
    # 6 fits the first window only, 5 the second only, 3 the first only: no length fits both but 0.
    assert longest_hit(index, groups, HASHES, 6) == 0
    index = index_of(".xx..x", "xx.xx.", "xxxxxx")
    assert longest_hit(index, groups, HASHES, 6) == 2
    assert PrefixLookup(index, groups).find(HASHES, 2) == ((0, 2), (13, 14), (25, 26))


def _valid(cached: str, group: Group, length: int) -> bool:
    first = max(length - group.hit_run, 0) if isinstance(group, SlidingWindow) else 0
    return "." not in cached[first:length]


def test_is_the_longest_length_valid_for_every_group() -> None:
    rng = random.Random(3)
    kinds: list[Group] = [FullAttention(2), *(SlidingWindow(2, window) for window in (2, 3, 4, 6, 9))]
    for _ in range(3000):
        groups = [rng.choice(kinds) for _ in range(rng.randint(1, 3))]
        cached = ["".join(rng.choice("xxx.") for _ in range(10)) for _ in groups]
        limit = rng.randint(0, 10)
        fitting = [
            length
            for length in range(limit + 1)
            if all(_valid(marks, group, length) for marks, group in zip(cached, groups, strict=True))
        ]
        assert longest_hit(index_of(*cached), groups, HASHES, limit) == fitting[-1], (groups, cached, limit)

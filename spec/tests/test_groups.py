from collections.abc import Callable

import pytest

from slotproof.spec import FullAttention, SlidingWindow


def cached_at(*indices: int) -> Callable[[int], bool]:
    return set(indices).__contains__


def test_full_attention_skips_nothing_and_has_no_cap() -> None:
    group = FullAttention(16)
    assert (group.skipped_tokens(1000), group.capped(25, 64, 10_000), group.blocks_read(20)) == (0, 25, 20)


@pytest.mark.parametrize(
    ("cached", "length"), [((0, 1, 2, 3, 4, 5, 6), 7), ((0, 1, 3, 4), 2), ((1, 2, 3), 0), (tuple(range(20)), 14)]
)
def test_full_attention_hits_up_to_the_first_miss(cached: tuple[int, ...], length: int) -> None:
    assert FullAttention(1).longest_hit(cached_at(*cached), 14) == length


def test_a_window_skips_what_it_does_not_read_again() -> None:
    group = SlidingWindow(16, 32)
    assert [group.skipped_tokens(settled) for settled in (31, 32, 96, 320)] == [0, 1, 65, 289]


def test_a_window_is_charged_for_the_window_alone() -> None:
    group = SlidingWindow(16, 32)
    assert [group.capped(required, 64, 10_000) for required in (6, 7, 25)] == [6, 7, 7]


def test_a_window_reads_the_end_of_a_hit() -> None:
    assert [SlidingWindow(16, 32).blocks_read(length) for length in (0, 1, 2, 20)] == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("limit", "length"), [(14, 14), (13, 6), (6, 6), (5, 5), (4, 0), (0, 0)], ids=lambda number: str(number)
)
def test_a_window_of_4_hits_behind_3_cached_tokens_in_a_row(limit: int, length: int) -> None:
    """Block 1, window 4, of 15 tokens 2-5 and 11-13 are cached: lengths 5, 6 and 14 qualify."""
    assert SlidingWindow(1, 4).longest_hit(cached_at(2, 3, 4, 5, 11, 12, 13), limit) == length


def test_a_shorter_row_counts_at_the_very_start_only() -> None:
    group = SlidingWindow(1, 4)
    hits = {cached: group.longest_hit(cached_at(*cached), 9) for cached in ((0, 1), (1, 2), (0, 2), (0,), ())}
    assert hits == {(0, 1): 2, (1, 2): 0, (0, 2): 1, (0,): 1, (): 0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FullAttention(0), "block size is 0: a block holds at least one token; use 1 or more"),
        (lambda: SlidingWindow(-1, 8), "block size is -1: a block holds at least one token; use 1 or more"),
        (lambda: SlidingWindow(4, 1), "window is 1: a sliding window of 1 is not modelled; use a window of 2 or more"),
    ],
)
def test_an_impossible_group_is_refused_by_name(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        make()
    assert str(refused.value) == message

import pytest

from slotproof.impl import FullAttention, SlidingWindow
from slotproof.impl.groups import ceil_div


def test_ceil_div() -> None:
    assert [ceil_div(n, 4) for n in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]


def test_full_attention_never_skips() -> None:
    group = FullAttention(4)
    assert group.skipped_blocks(1000) == 0
    assert group.admission_cap(1, 1000) is None


def test_window_skips_blocks_wholly_behind_it() -> None:
    # Window 4, 7 computed: tokens 0-3 are behind the window of token 7.
    group = SlidingWindow(2, 4)
    assert [group.skipped_blocks(n) for n in range(10)] == [0, 0, 0, 0, 0, 1, 1, 2, 2, 3]
    assert SlidingWindow(1, 2).skipped_blocks(-3) == 0


@pytest.mark.parametrize("window", [2, 3, 4, 5, 9])
@pytest.mark.parametrize("block_size", [1, 2, 4])
def test_release_point_is_where_skipping_grows(window: int, block_size: int) -> None:
    group = SlidingWindow(block_size, window)
    for nulls in range(6):
        point = group.release_point(nulls)
        assert group.skipped_blocks(point - 1) == nulls
        assert group.skipped_blocks(point) == nulls + 1


def test_window_cap() -> None:
    # vLLM: ceil(min(W - 1 + in flight, max_model_len) / bs) + 1.
    assert SlidingWindow(16, 32).admission_cap(64, 1024) == 7
    assert SlidingWindow(16, 32).admission_cap(1024, 64) == 5


def test_window_hit_run() -> None:
    assert [SlidingWindow(4, window).hit_run for window in (2, 4, 5, 6, 9, 10)] == [1, 1, 1, 2, 2, 3]

import pytest

from slotproof.spec.arithmetic import (
    blocks_for_window_hit,
    blocks_missing,
    ceil_div,
    imax,
    imin,
    is_short,
    slots_needed,
    tokens_behind_window,
    tokens_to_cache,
    window_admission_cap,
)


def test_smaller_and_larger_of_two() -> None:
    assert [(imin(a, b), imax(a, b)) for a, b in ((1, 2), (2, 1), (3, 3))] == [(1, 2), (1, 2), (3, 3)]


def test_blocks_that_hold_tokens() -> None:
    assert [ceil_div(tokens, 16) for tokens in (0, 1, 15, 16, 17, 300, 600)] == [0, 1, 1, 1, 2, 19, 38]


def test_slots_end_at_the_length_of_the_model() -> None:
    assert slots_needed(300, 1, 16, max_model_len=1000) == 317
    assert slots_needed(990, 1, 16, max_model_len=1000) == 1000


def test_only_finalized_tokens_get_keys() -> None:
    assert (tokens_to_cache(16, 8, 31), tokens_to_cache(30, 6, 31)) == (24, 31)


def test_a_token_reads_itself_and_window_minus_one_before_it() -> None:
    """With a window of 4 and 10 settled tokens the next one reads 7, 8, 9 and itself."""
    assert [tokens_behind_window(settled, 4) for settled in (0, 3, 4, 10)] == [0, 0, 1, 7]


@pytest.mark.parametrize(
    ("max_in_flight", "max_model_len", "cap"),
    [(64, 10_000, 7), (65, 10_000, 7), (66, 10_000, 8), (1, 10_000, 3), (10_000, 64, 5)],
)
def test_admission_cap_of_a_window_of_32(max_in_flight: int, max_model_len: int, cap: int) -> None:
    assert window_admission_cap(32, max_in_flight, max_model_len, 16) == cap


def test_blocks_that_let_a_window_resume() -> None:
    assert [blocks_for_window_hit(window, 16) for window in (2, 17, 18, 32, 33, 34)] == [1, 1, 2, 2, 2, 3]


def test_what_is_skipped_and_what_is_present_count_once_and_never_below_nothing() -> None:
    assert blocks_missing(required=24, skipped=18, present=20) == 4
    assert blocks_missing(required=24, skipped=21, present=20) == 3
    assert blocks_missing(required=7, skipped=18, present=20) == 0


def test_equality_admits() -> None:
    assert [is_short(38, 5, free, reserved) for free, reserved in ((21, 0), (42, 0), (43, 0), (44, 2))] == [
        True,
        True,
        False,
        True,
    ]

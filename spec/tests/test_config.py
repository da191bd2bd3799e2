from typing import Any

import pytest

from slotproof.spec import Config, FreeOrder, FullAttention, SlidingWindow

FITTING: dict[str, Any] = {
    "num_blocks": 10,
    "groups": (FullAttention(16),),
    "max_model_len": 100,
    "max_in_flight_tokens": 100,
}


def test_the_null_block_is_not_usable() -> None:
    assert Config(**FITTING).usable_blocks == 9


def test_all_groups_have_one_block_size() -> None:
    assert Config(**{**FITTING, "groups": (FullAttention(4), SlidingWindow(4, 8))}).block_size == 4


def test_keyless_blocks_are_queued_first_unless_another_order_is_asked_for() -> None:
    assert Config(**FITTING).free_order == FreeOrder.UNHASHED_FIRST


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"num_blocks": 1},
            "num_blocks is 1: block 0 is the null block and never handed out; use 2 or more",
        ),
        ({"groups": ()}, "groups is empty: a pool serves at least one KV cache group, for example full attention"),
        (
            {"groups": (FullAttention(4), FullAttention(8))},
            "groups have unequal block sizes: that is not modelled; use one block size for all groups",
        ),
        ({"max_model_len": 0}, "max_model_len is 0: use 1 or more"),
        ({"max_in_flight_tokens": 0}, "max_in_flight_tokens is 0: use 1 or more"),
        (
            {"watermark_blocks": 9},
            "watermark_blocks is 9: it must be at least 0 and less than the 9 usable blocks, "
            "or nothing is ever admitted",
        ),
        (
            {"watermark_blocks": -1},
            "watermark_blocks is -1: it must be at least 0 and less than the 9 usable blocks, "
            "or nothing is ever admitted",
        ),
        (
            {"hash_size": 3},
            "hash_size is 3: it must divide the block size 16, so that every block ends where a hash does",
        ),
        (
            {"hash_size": 0},
            "hash_size is 0: it must divide the block size 16, so that every block ends where a hash does",
        ),
        (
            {"hash_size": 2, "groups": (FullAttention(4), SlidingWindow(4, 8))},
            "hash_size is 2 with a sliding window: hits that end inside a block are modelled for full attention only; "
            "leave hash_size out, or use full attention groups",
        ),
    ],
    ids=lambda part: next(iter(part)) if isinstance(part, dict) else "",
)
def test_an_impossible_configuration_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        Config(**{**FITTING, **change})
    assert str(refused.value) == message


def test_a_hit_ends_inside_a_block_only_at_a_finer_granularity() -> None:
    sizes = {size: Config(**FITTING, hash_size=size) for size in (None, 4, 16)}
    assert [config.has_partial_hits for config in sizes.values()] == [False, True, False]
    assert [config.hash_unit for config in sizes.values()] == [16, 4, 16]
    assert Config(**{**FITTING, "groups": (SlidingWindow(4, 8),)}, hash_size=4).hash_unit == 4


def test_a_watermark_may_leave_one_usable_block() -> None:
    assert Config(**FITTING, watermark_blocks=8).watermark_blocks == 8

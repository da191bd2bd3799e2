from typing import Any

import pytest

from slotproof.impl import AllocatorConfig, FullAttention, SlidingWindow

FULL = FullAttention(16)


def test_defaults_are_vllm_today() -> None:
    config = AllocatorConfig(10, (FULL,), 100)
    assert (config.enable_caching, config.free_order, config.watermark_blocks) == (True, "unhashed-first", 0)
    assert (config.max_in_flight_tokens, config.enable_events, config.block_size) == (None, False, 16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_blocks": 1}, "num_blocks is 1; give at least 2, the null block and one usable block"),
        ({"watermark_blocks": -1}, "watermark_blocks is -1 of 9 usable blocks; give 0 to 8"),
        ({"watermark_blocks": 9}, "watermark_blocks is 9 of 9 usable blocks; give 0 to 8"),
        ({"groups": ()}, "groups is empty; give at least one FullAttention or SlidingWindow"),
        ({"groups": ("mamba",)}, "groups[0] is a str; use FullAttention or SlidingWindow"),
        ({"groups": (FullAttention(0),)}, "groups[0].block_size is 0; give at least 1 token"),
        (
            {"groups": (FULL, SlidingWindow(16, 1))},
            "groups[1].window is 1; give at least 2 tokens (1 is not supported)",
        ),
        (
            {"groups": (FULL, SlidingWindow(8, 4))},
            "groups have unequal block sizes [8, 16]; give every group the same one",
        ),
        ({"max_model_len": 0}, "max_model_len is 0; give at least 1 token"),
        ({"max_in_flight_tokens": 0}, "max_in_flight_tokens is 0; give at least 1 token, or None"),
        ({"free_order": "fifo"}, "free_order 'fifo' is unknown; use 'unhashed-first' or 'lru'"),
    ],
)
def test_says_what_cannot_work(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"num_blocks": 10, "groups": (FULL,), "max_model_len": 100, **change}
    with pytest.raises(ValueError) as caught:
        AllocatorConfig(**arguments)
    assert str(caught.value) == message


def test_smallest_pool_and_largest_watermark_are_accepted() -> None:
    AllocatorConfig(2, (SlidingWindow(1, 2),), 1)
    AllocatorConfig(10, (FULL,), 100, watermark_blocks=8)

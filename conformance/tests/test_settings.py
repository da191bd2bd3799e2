"""Configurations are drawn within what is fixed, and impossible ones are refused in one sentence."""

import pytest

from slotproof.conformance.driver import SeededChooser
from slotproof.conformance.errors import SetupError
from slotproof.conformance.settings import Settings, default_groups, parse_groups
from slotproof.conformance.targets.reference import PROFILE
from slotproof.spec.config import FreeOrder
from slotproof.spec.groups import FullAttention, SlidingWindow


def test_what_is_fixed_is_drawn_so_every_time() -> None:
    fixed = Settings("full,window:5", caching=False, block_size=3, num_blocks=7, free_order="lru", watermark_blocks=2)
    for seed in range(20):
        config = fixed.draw(SeededChooser(str(seed)), PROFILE)
        assert config.groups == (FullAttention(3), SlidingWindow(3, 5))
        assert (config.num_blocks, config.watermark_blocks) == (7, 2)
        assert (config.caching, config.free_order) == (False, FreeOrder.LRU)


def test_what_is_open_varies() -> None:
    drawn = {Settings().draw(SeededChooser(str(seed)), PROFILE) for seed in range(40)}
    assert len({config.num_blocks for config in drawn}) > 5
    assert {config.block_size for config in drawn} == {1, 2, 3, 4}
    assert {config.free_order for config in drawn} == set(FreeOrder)


def test_hits_end_inside_a_block_where_that_is_asked_for() -> None:
    drawn = [Settings("partial").draw(SeededChooser(str(seed)), PROFILE) for seed in range(40)]
    assert all(config.has_partial_hits for config in drawn)
    assert {(config.block_size, config.hash_size) for config in drawn} == {
        (2, 1),
        (4, 1),
        (4, 2),
        (6, 1),
        (6, 2),
        (6, 3),
    }
    of_two = [Settings("partial:2,full").draw(SeededChooser(str(seed)), PROFILE) for seed in range(20)]
    assert {(config.block_size, config.hash_size) for config in of_two} == {(4, 2), (6, 2)}
    assert {Settings("full").draw(SeededChooser(str(seed)), PROFILE).hash_size for seed in range(20)} == {None}
    assert Settings("partial", block_size=16).draw(SeededChooser("0"), PROFILE).block_size == 16
    assert Settings("partial").kinds == ("partial",)


def test_no_hit_ends_inside_a_block_of_one_token() -> None:
    assert default_groups(None) == default_groups(2) == ("full", "window", "full,window", "partial")
    assert default_groups(1) == ("full", "window", "full,window")


def test_groups_are_read_in_order() -> None:
    assert parse_groups("full, window:32,window") == (("full", None), ("window", 32), ("window", None))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"groups": "mamba"},
            "group kind 'mamba' is not modelled; use a comma-separated list of full, window, window:W",
        ),
        ({"groups": "full:3"}, "group kind 'full:3' is not modelled"),
        ({"groups": "window:x"}, "'x' is no window in tokens; write for example window:32"),
        ({"groups": "partial:x"}, "'x' is no hash granularity in tokens; write for example partial:32"),
        ({"groups": "partial:0"}, "hits cannot end at every 0 tokens; use partial:1 or more"),
        ({"groups": "partial,window"}, "hits that end inside a block are modelled for full attention only"),
        ({"groups": "partial", "block_size": 1}, "hits cannot end inside blocks of 1 tokens; use 2 or more"),
        ({"groups": "partial:4", "block_size": 4}, "hits cannot end inside blocks of 4 tokens at every 4 tokens"),
        ({"groups": "partial:3", "block_size": 4}, "hits cannot end inside blocks of 4 tokens at every 3 tokens"),
        ({"groups": "window:1"}, "a sliding window of 1 is not modelled; use a window of 2 or more"),
        ({"block_size": 0}, "block size is 0: a block holds at least one token; use 1 or more"),
        ({"block_size": -2}, "block size is -2"),
        ({"num_blocks": 1}, "num_blocks is 1: block 0 is the null block and never handed out; use 2 or more"),
        ({"num_blocks": 5, "watermark_blocks": 4}, "less than the 4 usable blocks"),
        ({"num_blocks": 5, "watermark_blocks": -1}, "it must be at least 0"),
        ({"free_order": "fifo"}, "'fifo' is not a valid FreeOrder"),
    ],
)
def test_an_impossible_configuration_is_refused_in_one_sentence(settings: dict[str, object], words: str) -> None:
    with pytest.raises(SetupError) as caught:
        Settings(**settings)  # type: ignore[arg-type]
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)

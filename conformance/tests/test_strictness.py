"""A sound allocator raises no alarm at any level of strictness, however little it shows; and each law has its level."""

from dataclasses import replace
from typing import Any

import pytest

from slotproof.conformance.adapter import NO_HIT, BlockIds, Hit, RequestView, Strictness
from slotproof.conformance.driver import walk_episode
from slotproof.conformance.session import Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.strictness import exempt, laws_for, level_of
from slotproof.conformance.targets.impl import PROFILE, ImplAdapter
from slotproof.spec.config import Config
from slotproof.spec.laws import LAWS

OPTIONAL = (
    "get_computed_blocks",
    "commit",
    "can_allocate",
    "evict",
    "reset_prefix_cache",
    "preempt",
    "defer_free",
    "return_deferred",
    "ref_count",
    "cached_keys",
    "free_queue",
    "cached_counts",
    "snapshot",
    "take_events",
)


class Reticent:
    """Our allocator, showing only some of its optional calls."""

    def __init__(self, strictness: Strictness, calls: tuple[str, ...]) -> None:
        self._inner = ImplAdapter()
        lookup = "call" if "get_computed_blocks" in calls else "none"
        self.profile = replace(PROFILE, strictness=strictness, lookup=lookup)
        for call in calls:
            setattr(self, call, getattr(self._inner, call))

    def reset(self, config: Config) -> None:
        self._inner.reset(config)

    def allocate_slots(
        self,
        request: RequestView,
        num_new_tokens: int,
        *,
        hit: Hit = NO_HIT,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,
        full_sequence_must_fit: bool = False,
        reserved_blocks: int = 0,
        has_scheduled_reqs: bool = True,
    ) -> BlockIds | None:
        keywords: dict[str, Any] = {name: value for name, value in locals().items() if name not in ("self", "request")}
        return self._inner.allocate_slots(request, keywords.pop("num_new_tokens"), **keywords)

    def free(self, request: RequestView) -> None:
        self._inner.free(request)

    def block_table(self, request: RequestView) -> BlockIds:
        return self._inner.block_table(request)

    def num_free_blocks(self) -> int:
        return self._inner.num_free_blocks()


SHOWN = {
    "nothing": (),
    "lookup": ("get_computed_blocks", "commit"),
    "references": ("get_computed_blocks", "commit", "ref_count"),
    "keys": ("get_computed_blocks", "commit", "cached_keys"),
    "queue": ("get_computed_blocks", "commit", "free_queue"),
    **{
        f"all but {call}": tuple(other for other in OPTIONAL if other != call)
        for call in ("ref_count", "cached_counts")
    },
    "everything": OPTIONAL,
}


@pytest.mark.parametrize("strictness", Strictness)
@pytest.mark.parametrize("shown", SHOWN)
def test_a_sound_allocator_raises_no_alarm(strictness: Strictness, shown: str) -> None:
    adapter, tally = Reticent(strictness, SHOWN[shown]), Tally.fresh()
    for groups in ("full", "window", "full,window"):
        for seed in range(3):
            assert walk_episode(adapter, Settings(groups), f"quiet/{seed}", 120, tally) is None
    assert tally.checks["POOL-4"] > 0
    assert (tally.checks["REFUSE-2"] > 0) == (strictness >= Strictness.DECISIONS)
    assert (tally.checks["COUNT-1"] > 0) == (strictness >= Strictness.COUNTS)


def test_levels_include_the_ones_before_them() -> None:
    held = [len(laws_for(replace(PROFILE, strictness=level))) for level in Strictness]
    assert held == sorted(set(held))
    assert held[-1] == len(LAWS)


def test_an_allocator_that_leaves_cached_blocks_out_of_its_free_count_is_not_held_to_the_sum() -> None:
    profile = replace(PROFILE, free_counts_cached=False)
    assert exempt("POOL-4", profile) == "its number of free blocks leaves cached blocks out"
    assert "POOL-4" not in [law.id for law in laws_for(profile)]
    assert exempt("POOL-4", PROFILE) is None


def test_safety_laws_are_those_of_every_sound_allocator() -> None:
    assert level_of("REFUSE-1") == level_of("HASH-1") == level_of("LOOKUP-1") == Strictness.SAFETY
    assert level_of("FREE-1") == Strictness.IDENTITY

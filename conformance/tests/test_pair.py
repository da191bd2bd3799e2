"""Two targets side by side: what both can be asked, how closely they are compared, and what counts as a difference."""

from dataclasses import replace
from typing import Any

import pytest

from slotproof.conformance.actions import Action
from slotproof.conformance.adapter import Profile, Strictness
from slotproof.conformance.errors import SetupError
from slotproof.conformance.pair import Pair, Sides, default_level, shared
from slotproof.conformance.replay import replay
from slotproof.conformance.session import Tally
from slotproof.conformance.targets.impl import ImplAdapter
from slotproof.conformance.targets.reference import PROFILE, ReferenceAdapter
from slotproof.spec.config import Config, FreeOrder
from slotproof.spec.groups import FullAttention

CONFIG = Config(6, (FullAttention(2),), 8, 8)
ADMIT = Action("admit", {"request": "A", "prompt": (1, 1, 2)})
FREE = Action("free", {"request": "A"})


class Lru(ReferenceAdapter):
    """Has one free order, another one than the configurations say."""

    profile = replace(PROFILE, name="lru", free_orders=("lru",))


class Whole(ReferenceAdapter):
    """Computes prompts whole."""

    profile = replace(PROFILE, name="whole", chunked_prefill=False, salts=False)


def test_versions_of_one_target_are_compared_in_everything() -> None:
    safe = Profile("a", "1")
    assert default_level(safe, replace(safe, version="2")) == Strictness.IDENTITY
    assert default_level(safe, PROFILE) == Strictness.DECISIONS
    assert default_level(replace(PROFILE, name="b", strictness=Strictness.COUNTS), PROFILE) == Strictness.COUNTS


def test_both_are_asked_only_what_both_can_do() -> None:
    one = Profile("one", group_kinds=("full", "window"), block_sizes=(1, 2), salts=True, chunked_prefill=True)
    other = Profile("other", block_sizes=(2, 4), salts=True, chunked_prefill=False, one_token_decode=True)
    both = shared(one, other)
    assert (both.name, both.group_kinds, both.block_sizes) == ("one and other", ("full",), (2,))
    assert (both.salts, both.chunked_prefill, both.one_token_decode) == (True, False, True)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Profile("other", block_sizes=(4,)), r"one and other share no block size: \(2,\) and \(4,\)"),
        (Profile("other", group_kinds=("window",)), "one and other cannot be configured alike: no group kind"),
        (Profile("other", caching=(False,)), "one and other cannot be configured alike: no group kind or no caching"),
    ],
)
def test_two_that_share_nothing_cannot_be_compared(other: Profile, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        shared(Profile("one", block_sizes=(2,), caching=(True,)), other)


def test_blocks_are_named_only_where_they_are_the_same() -> None:
    verbs = [
        {verb.name for verb in Pair(ImplAdapter(), ReferenceAdapter(), level).subject.verbs}
        for level in (Strictness.COUNTS, Strictness.IDENTITY)
    ]
    assert verbs[1] - verbs[0] == {"evict"}


def test_each_side_gets_a_free_order_that_it_has() -> None:
    sides = Sides(Pair(ReferenceAdapter(), Lru()), CONFIG, Tally.fresh())
    assert (sides.old.config.free_order, sides.new.config.free_order) == (FreeOrder.UNHASHED_FIRST, FreeOrder.LRU)


@pytest.mark.parametrize(
    ("level", "part"), [(Strictness.DECISIONS, None), (Strictness.COUNTS, None), (Strictness.IDENTITY, "free queue")]
)
def test_the_level_decides_what_is_a_difference(level: Strictness, part: str | None) -> None:
    failure = replay(Pair(ReferenceAdapter(), Lru(), level), CONFIG, [ADMIT, FREE])
    assert (None if failure is None else failure.violation.law_id) == part


def test_prompts_are_given_whole_to_both_if_one_needs_that() -> None:
    chunked: Any = Action("admit", {"request": "A", "prompt": (1, 1, 2), "new": 1})
    sides = Sides(Pair(ReferenceAdapter(), Whole(), Strictness.IDENTITY), CONFIG, Tally.fresh())
    Pair(ReferenceAdapter(), Whole()).subject.perform(sides, chunked)
    assert [side.world.requests["A"].num_computed_tokens for side in (sides.old, sides.new)] == [3, 3]


def test_keys_are_compared_whatever_they_are_called() -> None:
    more = Action("admit", {"request": "B", "prompt": (1, 1, 2, 2, 1)})
    assert replay(Pair(ImplAdapter(), ReferenceAdapter(), Strictness.IDENTITY), CONFIG, [ADMIT, more, FREE]) is None

"""The random driver: the same seed takes the same walk, and a walk keeps to what its target can do."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.conformance import driver
from slotproof.conformance.actions import VERBS
from slotproof.conformance.adapter import NO_HIT, BlockIds, Hit, Profile, RequestView
from slotproof.conformance.driver import SeededChooser, walk_episode
from slotproof.conformance.replay import replay
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.subject import ALLOCATOR
from slotproof.conformance.targets.impl import ImplAdapter
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.spec.admission import Call
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention
from slotproof.spec.laws import ANY
from slotproof.spec.transition import Allocated, Event

from .faults import FAULTS, plant

HYBRID = Settings("full,window")


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """The session of every episode that is walked."""
    made: list[Session] = []

    class KeptSession(Session):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(driver, "subject_of", lambda adapter: replace(ALLOCATOR, begin=KeptSession))
    return made


def walk(seed: str, settings: Settings = HYBRID, steps: int = 200, adapter: ReferenceAdapter | None = None) -> Tally:
    tally = Tally.fresh()
    assert walk_episode(adapter or ReferenceAdapter(), settings, seed, steps, tally) is None
    return tally


def test_the_same_seed_takes_the_same_walk(sessions: list[Session]) -> None:
    first, second = walk("7"), walk("7")
    assert sessions[0].config == sessions[1].config
    assert sessions[0].answers == sessions[1].answers
    assert len(sessions[0].answers) > 100
    assert first == second


def test_another_seed_takes_another_walk(sessions: list[Session]) -> None:
    first, second = walk("7"), walk("8")
    assert sessions[0].answers != sessions[1].answers
    assert first != second


def test_a_shorter_walk_is_the_beginning_of_a_longer_one(sessions: list[Session]) -> None:
    walk("7", steps=50)
    walk("7", steps=100)
    short, long = sessions[0].answers, sessions[1].answers
    assert 0 < len(short) < len(long)
    assert long[: len(short)] == short


def test_both_of_our_allocators_take_the_same_walk(sessions: list[Session]) -> None:
    pytest.importorskip("torch", reason="without torch ours has no batches, and the walk goes another way")
    walk("7")
    assert walk_episode(ImplAdapter(), HYBRID, "7", 200, Tally.fresh()) is None
    asked = [[event for event in session.answers if isinstance(event, Allocated)] for session in sessions]
    assert [replace(event, foretold=None) for event in asked[1]] == asked[0]
    assert {event.foretold for event in asked[1]} == {True, False}


def test_a_walk_ends_at_the_first_violation_which_its_actions_show_again(tmp_path: Path) -> None:
    faulty = plant(next(fault for fault in FAULTS if fault.law == "ADMIT-2"), tmp_path)
    failures = [walk_episode(faulty, HYBRID, f"ends/{number}", 200, Tally.fresh()) for number in range(9)]
    found = [failure for failure in failures if failure is not None]
    assert found
    for failure in found:
        again = replay(faulty, failure.config, failure.actions)
        assert again is not None
        assert again.actions == failure.actions
        assert str(again.violation) == str(failure.violation)


def test_every_kind_of_event_happens(sessions: list[Session]) -> None:
    for number in range(12):
        walk(f"events/{number}", HYBRID if number % 2 else Settings("partial"), steps=100)
    happened = Counter(kind_of(event) for session in sessions for event in session.answers)
    assert set(happened) == {*(kind.__name__ for kind in ANY if kind is not Allocated), "accepted", "refused"}


def kind_of(event: Event) -> str:
    if isinstance(event, Allocated):
        return "refused" if event.answer is None else "accepted"
    return type(event).__name__


def test_the_deck_holds_every_verb_as_often_as_its_weight_says() -> None:
    plain = Config(5, (FullAttention(4),), 8, 8)
    weights = {verb.name: verb.weight for verb in VERBS}
    assert Counter(verb.name for verb in ALLOCATOR.deck(replace(plain, hash_size=2))) == weights
    del weights["copied"]
    assert Counter(verb.name for verb in ALLOCATOR.deck(plain)) == weights


def test_what_the_user_fixed_is_fixed_and_the_rest_is_drawn(sessions: list[Session]) -> None:
    fixed = Settings("window:5", caching=False, block_size=3, num_blocks=7, free_order="lru", watermark_blocks=1)
    for number in range(5):
        walk(f"fixed/{number}", fixed, steps=10)
    configs = [session.config for session in sessions]
    assert {replace(config, max_model_len=8, max_in_flight_tokens=8) for config in configs} == {
        Config(7, configs[0].groups, 8, 8, 1, caching=False, free_order=configs[0].free_order)
    }
    assert len({config.max_model_len for config in configs}) > 1


def calls_of(sessions: list[Session]) -> list[Call]:
    return [event.call for session in sessions for event in session.answers if isinstance(event, Allocated)]


def remaining(call: Call) -> int:
    """Tokens left to compute when the call is made, drafts included, hit and external tokens not."""
    request = call.request
    covered = call.hit.num_tokens + call.num_external_computed_tokens
    return request.num_uncomputed_tokens + len(request.draft_token_ids) - covered


RESTRICTIONS: dict[str, tuple[dict[str, Any], Callable[[Call], bool]]] = {
    "whole prompts only": ({"chunked_prefill": False}, lambda call: call.num_new_tokens in (0, remaining(call))),
    "one token at a time": (
        {"one_token_decode": True, "chunked_prefill": False},
        lambda call: call.request.status != "running" or call.num_new_tokens == 1,
    ),
    "a step at a time": ({"runs_ahead": False}, lambda call: not call.request.flights),
    "no salts": ({"salts": False}, lambda call: (call.request.cache_salt, call.request.extra_keys) == (None, ())),
}
"""What a profile says, and what then holds of every call."""


@pytest.mark.parametrize("restriction", RESTRICTIONS)
def test_a_walk_keeps_to_the_profile_of_its_target(restriction: str, sessions: list[Session]) -> None:
    changes, keeps = RESTRICTIONS[restriction]

    class Restricted(ReferenceAdapter):
        profile: Profile = replace(ReferenceAdapter.profile, **changes)

    for number in range(4):
        walk(f"restricted/{number}", adapter=Restricted())
    restricted = calls_of(sessions)
    assert len(restricted) > 50
    assert all(map(keeps, restricted))

    sessions.clear()
    for number in range(4):
        walk(f"restricted/{number}")
    assert not all(map(keeps, calls_of(sessions)))


def test_a_parameter_that_the_target_does_not_name_is_never_used(sessions: list[Session]) -> None:
    class Plain(ReferenceAdapter):
        def allocate_slots(
            self, request: RequestView, num_new_tokens: int, *, hit: Hit = NO_HIT, reserved_blocks: int = 0
        ) -> BlockIds | None:
            return super().allocate_slots(request, num_new_tokens, hit=hit, reserved_blocks=reserved_blocks)

    for number in range(4):
        walk(f"plain/{number}", Settings("full", watermark_blocks=0), adapter=Plain())
    calls = calls_of(sessions)
    assert {call.reserved_blocks > 0 for call in calls} == {True, False}
    used = {
        (call.num_lookahead_tokens, call.num_external_computed_tokens, call.full_sequence_must_fit) for call in calls
    }
    assert used == {(0, 0, False)}
    assert {(call.delay_cache_blocks, call.has_scheduled_reqs) for call in calls} == {(False, True)}


def test_verbs_that_a_target_does_not_offer_are_left_out(sessions: list[Session]) -> None:
    class Bare(ReferenceAdapter):
        defer_free = evict = reset_prefix_cache = None  # type: ignore[assignment]

    walk("bare", steps=300, adapter=Bare())
    happened = {kind_of(event) for event in sessions[0].answers}
    assert happened.isdisjoint({"Deferred", "Returned", "Evicted", "Reset"})
    assert {"accepted", "refused", "Freed", "Committed"} <= happened


class TestChooser:
    def test_makes_the_same_choices_on_every_platform(self) -> None:
        chooser = SeededChooser("0/full/0/0")
        assert [chooser.integer(0, 99) for _ in range(8)] == [45, 56, 3, 74, 99, 82, 27, 43]

    def test_takes_both_ends_of_a_range(self) -> None:
        chooser = SeededChooser("ends")
        assert {chooser.integer(2, 4) for _ in range(100)} == {2, 3, 4}
        assert chooser.integer(5, 5) == 5

    def test_picks_every_item(self) -> None:
        chooser = SeededChooser("items")
        assert {chooser.pick("abc") for _ in range(100)} == set("abc")

    def test_takes_chances_as_often_as_asked(self) -> None:
        chooser = SeededChooser("chances")
        assert not any(chooser.chance(0) for _ in range(100))
        assert all(chooser.chance(100) for _ in range(100))
        assert 250 < sum(chooser.chance(30) for _ in range(1000)) < 350

"""The shrinker and what surrounds it: the shortest trace that still breaks the same law, the same one every time."""

from dataclasses import replace
from pathlib import Path

import pytest

from slotproof.conformance import shrink
from slotproof.conformance.actions import Action
from slotproof.conformance.adapter import Adapter
from slotproof.conformance.find import SHORT_STEPS, length, renamed, shortest_failure
from slotproof.conformance.replay import Failure, replay
from slotproof.conformance.settings import Settings
from slotproof.conformance.shrink import Shrinker
from slotproof.conformance.simpler import simpler_actions, simpler_configs
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention

from .faults import FAULTS, Fault, plant

TAILS_TO_THE_BACK = next(fault for fault in FAULTS if fault.law == "FREE-1")
RESERVE_IGNORED = next(fault for fault in FAULTS if fault.law == "ADMIT-3")

CONFIG = Config(14, (FullAttention(2),), 20, 20, watermark_blocks=2)


def admit(name: str, *prompt: int, **arguments: int | bool | str) -> Action:
    return Action("admit", {"request": name, "prompt": prompt, **arguments})


def output(name: str, accepted: int = 0) -> Action:
    return Action("output", {"request": name, "accepted": accepted, "token": 2})


def named(verb: str, name: str, **arguments: object) -> Action:
    return Action(verb, {"request": name, **arguments})


NOISY_TRACE = (
    admit("K", 1, 2, 1, 2, 2, salt="s", whole=True),
    output("K"),
    named("extend", "K", drafts=(1, 2), lookahead=1),
    admit("L", 1, 2, 1, lookahead=2, alone=True),
    output("K", accepted=1),
    Action("evict", {"blocks": (1, 2)}),
    named("preempt", "L"),
    named("retry", "L"),
    named("free", "K"),
)


def words(failure: Failure) -> list[str]:
    return [str(action) for action in failure.actions]


@pytest.fixture
def faulty(tmp_path: Path) -> Adapter:
    """An allocator that frees keyless blocks to the back."""
    return plant(TAILS_TO_THE_BACK, tmp_path)


def failure_of(adapter: Adapter, actions: tuple[Action, ...] = NOISY_TRACE) -> Failure:
    failure = replay(adapter, CONFIG, actions)
    assert failure is not None
    return failure


def test_a_noisy_trace_shrinks_to_the_fault(faulty: Adapter) -> None:
    """Given nine calls in a pool of 13 blocks, when they are shrunk, then one token comes and goes in a pool of two."""
    shrunk = Shrinker(faulty, failure_of(faulty)).run()
    assert words(shrunk) == ["admit L prompt=[1]", "preempt L"]
    assert shrunk.config == Config(3, (FullAttention(2),), 2, 20)
    assert (shrunk.violation.law_ids, shrunk.violation.objection) == (("FREE-1",), "the queue is (2, 1); (1, 2) is due")


def test_shrinking_is_deterministic(faulty: Adapter) -> None:
    first, second = (Shrinker(faulty, failure_of(faulty)).run() for _ in range(2))
    assert (first.config, first.actions, str(first.violation)) == (second.config, second.actions, str(second.violation))


def test_what_is_left_breaks_the_law_and_no_part_of_it_does(faulty: Adapter) -> None:
    shrunk = Shrinker(faulty, failure_of(faulty)).run()
    for position in range(len(shrunk.actions)):
        part = shrunk.actions[:position] + shrunk.actions[position + 1 :]
        assert replay(faulty, shrunk.config, part) is None


def test_a_shorter_trace_that_breaks_another_law_is_not_taken(tmp_path: Path) -> None:
    """Given a call that another fault lets through in an emptier pool, when A is left out, then a trace is not kept."""
    both = plant(Fault("two at once", "FREE-1", TAILS_TO_THE_BACK.edits + RESERVE_IGNORED.edits), tmp_path)
    trace = (
        admit("A", *(1,) * 18),
        admit("B", *(2,) * 9, reserved=9),
        named("free", "A"),
        named("retry", "B"),
        named("free", "B"),
    )
    without_a = replay(both, CONFIG, trace[1:])
    assert without_a is not None
    assert without_a.violation.law_id == "REFUSE-2"

    shrunk = Shrinker(both, failure_of(both, trace)).run()

    assert shrunk.violation.law_ids == ("FREE-1",)


def test_a_bound_on_the_work_leaves_the_best_so_far(faulty: Adapter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrink, "MAX_REPLAYS", 3)
    failure = failure_of(faulty)
    shrunk = Shrinker(faulty, failure).run()
    assert shrunk.violation.law_id == "FREE-1"
    assert 2 < len(shrunk.actions) <= len(failure.actions)


def test_simpler_actions_lack_or_lower_one_argument() -> None:
    action = admit("A", 1, 2, new=2, whole=True)
    assert [str(simpler) for simpler in simpler_actions(action)] == [
        "admit A prompt=[1] new=2 whole=True",
        "admit A prompt=[1 1] new=2 whole=True",
        "admit A prompt=[2] new=2 whole=True",
        "admit A prompt=[1 2] whole=True",
        "admit A prompt=[1 2] new=1 whole=True",
        "admit A prompt=[1 2] new=2",
    ]


@pytest.mark.parametrize(
    ("action", "simpler"),
    [
        (named("load", "A", external=2), ["load A external=1"]),
        (named("load", "A", external=1), []),
        (Action("evict", {"blocks": (1, 2)}), ["evict blocks=[1]", "evict blocks=[2]"]),
        (Action("return"), []),
    ],
    ids=str,
)
def test_what_an_action_needs_stays(action: Action, simpler: list[str]) -> None:
    assert [str(candidate) for candidate in simpler_actions(action)] == simpler


def test_simpler_configurations_have_less_of_one_thing_and_a_watermark_that_fits() -> None:
    config = Config(9, (FullAttention(2),), 10, 10, watermark_blocks=5)
    assert list(simpler_configs(config)) == [
        replace(config, num_blocks=5, watermark_blocks=3),
        replace(config, num_blocks=8),
        replace(config, watermark_blocks=0),
        replace(config, max_model_len=9),
    ]
    assert list(simpler_configs(Config(2, (FullAttention(2),), 1, 1))) == []


def test_requests_are_named_in_the_order_in_which_they_appear(faulty: Adapter) -> None:
    failure = failure_of(faulty, (admit("Q", 1, 1), admit("P", 2, 2, 2), named("free", "P")))
    assert words(renamed(faulty, failure, (), ())) == ["admit A prompt=[1 1]", "admit B prompt=[2 2 2]", "free B"]


def test_fewer_actions_are_shorter_then_fewer_blocks_then_fewer_letters(faulty: Adapter) -> None:
    long = failure_of(faulty, (admit("A", 1, 1), admit("B", 2, 2, 2), named("free", "B")))
    short = failure_of(faulty, (admit("A", 1, 1, 1), named("free", "A")))
    shorter_prompt = failure_of(faulty, (admit("A", 1), named("free", "A")))
    smaller = replace(short, config=replace(CONFIG, num_blocks=5))
    small_and_long = replace(long, config=replace(CONFIG, num_blocks=4))
    in_order = [smaller, shorter_prompt, short, small_and_long, long]
    assert sorted([long, small_and_long, short, shorter_prompt, smaller], key=length) == in_order


def test_short_walks_may_find_a_shorter_trace_than_shrinking_does(
    faulty: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a long trace and no way to shrink it, when short walks look too, then one of theirs is taken."""
    monkeypatch.setattr(shrink, "MAX_REPLAYS", 0)
    crowd = tuple(admit(f"R{number}", 1, 1, 1, 1, reserved=99) for number in range(SHORT_STEPS))
    found = failure_of(faulty, crowd + NOISY_TRACE)
    assert len(Shrinker(faulty, found).run().actions) > SHORT_STEPS

    shortest = shortest_failure(faulty, Settings("full"), found, "seed")

    assert len(shortest.actions) <= SHORT_STEPS
    assert shortest.violation.law_id == "FREE-1"

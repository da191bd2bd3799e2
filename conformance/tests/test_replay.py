"""Replay: a fixed list of actions is carried out, always the same way, up to the first law that is broken."""

from pathlib import Path

import pytest

from slotproof.conformance.actions import BY_NAME, Action, perform
from slotproof.conformance.adapter import Adapter
from slotproof.conformance.deviations import Deviation
from slotproof.conformance.driver import SeededChooser
from slotproof.conformance.replay import replay
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.targets.impl import ImplAdapter
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.conformance.vector import shipped_vectors
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention

from .faults import FAULTS, plant

CONFIG = Config(8, (FullAttention(2),), 16, 16, watermark_blocks=1)
ADMIT_A = Action("admit", {"request": "A", "prompt": (1, 1, 1)})
ADMIT_B = Action("admit", {"request": "B", "prompt": (1, 1, 2)})
OUTPUT_A = Action("output", {"request": "A", "accepted": 0, "token": 2})
FREE_A = Action("free", {"request": "A"})
FREE_B = Action("free", {"request": "B"})
TRACE = (ADMIT_A, ADMIT_B, OUTPUT_A, FREE_A, FREE_B)

QUEUE = "the queue is (4, 5, 6, 7, 2); (2, 4, 5, 6, 7) is due"


@pytest.fixture
def faulty(tmp_path: Path) -> Adapter:
    """An allocator that frees keyless blocks to the back."""
    return plant(next(fault for fault in FAULTS if fault.law == "FREE-1"), tmp_path)


def deviation(objection: str) -> Deviation:
    return Deviation(
        "tails-to-the-back", "faulty", "FREE-1", objection, "its choice", "its manual", Path("unread.json")
    )


def test_a_sound_allocator_gets_through() -> None:
    assert replay(ImplAdapter(), CONFIG, TRACE) is None


def test_a_failure_ends_with_the_action_that_broke_the_law(faulty: Adapter) -> None:
    failure = replay(faulty, CONFIG, TRACE)
    assert failure is not None
    assert (failure.config, failure.actions) == (CONFIG, TRACE[:4])
    assert (failure.violation.law_ids, failure.violation.objection) == (("FREE-1",), QUEUE)


def test_it_starts_with_a_fresh_pool_every_time(faulty: Adapter) -> None:
    first, second = replay(faulty, CONFIG, TRACE), replay(faulty, CONFIG, TRACE)
    assert first is not None
    assert second is not None
    assert first.actions == second.actions
    assert str(first.violation) == str(second.violation) == f"FREE-1: {QUEUE}"


def test_only_selected_laws_are_judged(faulty: Adapter) -> None:
    tally = Tally.fresh()
    assert replay(faulty, CONFIG, TRACE, law_ids=("POOL-1", "TABLE-1"), tally=tally) is None
    assert set(tally.checks) == {"POOL-1", "TABLE-1"}

    failure = replay(faulty, CONFIG, TRACE, law_ids=("POOL-1", "FREE-1"))
    assert failure is not None
    assert failure.violation.law_id == "FREE-1"


def test_a_known_deviation_is_counted_and_gone_past(faulty: Adapter) -> None:
    tally = Tally.fresh()
    assert replay(faulty, CONFIG, TRACE, deviations=[deviation("^the queue is ")], tally=tally) is None
    assert tally.deviations == {"tails-to-the-back": 2}


def test_a_deviation_covers_nothing_but_its_objection(faulty: Adapter) -> None:
    failure = replay(faulty, CONFIG, TRACE, deviations=[deviation("^the queue is empty")])
    assert failure is not None
    assert failure.violation.law_id == "FREE-1"


@pytest.mark.parametrize("verb", sorted(set(BY_NAME) - {"admit", "return", "evict", "reset"}))
def test_an_action_about_nobody_does_nothing(verb: str) -> None:
    session = Session(ReferenceAdapter(), CONFIG, Tally.fresh())
    perform(session, ADMIT_A)
    world, answers = session.world, list(session.answers)

    perform(session, Action(verb, {"request": "Z", "requests": ("Z",), "external": 1, "accepted": 0, "token": 1}))

    assert (session.world, session.answers) == (world, answers)


@pytest.mark.parametrize(
    "action",
    [
        ADMIT_A,
        Action("retry", {"request": "A"}),
        Action("load", {"request": "A", "external": 2}),
        Action("loaded", {"request": "A"}),
        Action("return"),
        Action("evict", {"blocks": (99,)}),
    ],
    ids=str,
)
def test_an_action_that_comes_at_the_wrong_time_does_nothing(action: Action) -> None:
    session = Session(ReferenceAdapter(), CONFIG, Tally.fresh())
    perform(session, ADMIT_A)
    world, answers = session.world, list(session.answers)

    perform(session, action)

    assert (session.world, session.answers) == (world, answers)


@pytest.mark.parametrize(
    "action",
    [Action("defer", {"request": "A"}), Action("return"), Action("evict", {"blocks": (1,)}), Action("reset")],
    ids=str,
)
def test_an_action_that_the_target_has_no_call_for_does_nothing(action: Action) -> None:
    class Bare(ReferenceAdapter):
        defer_free = evict = reset_prefix_cache = None  # type: ignore[assignment]

    session = Session(Bare(), CONFIG, Tally.fresh())
    perform(session, ADMIT_A)
    world, answers = session.world, list(session.answers)

    perform(session, action)

    assert (session.world, session.answers) == (world, answers)


@pytest.mark.parametrize("make", [ReferenceAdapter, ImplAdapter], ids=["reference", "impl"])
def test_every_part_of_a_trace_is_a_trace(make: type[Adapter]) -> None:
    """Given any vector, when some of its actions are left out, then the rest can be carried out and breaks no law."""
    adapter, chooser = make(), SeededChooser("parts")
    for vector in shipped_vectors():
        for _ in range(8):
            part = [action for action in vector.actions if chooser.chance(60)]
            assert replay(adapter, vector.config, part) is None, [str(action) for action in part]

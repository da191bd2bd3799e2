"""The reach table: each call is counted under the situation it was made in."""

from collections import Counter

import pytest

from slotproof.conformance.actions import Action, perform
from slotproof.conformance.reach import CELLS, Boundary, Cell, HitKind, Outcome, infeasible
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention, SlidingWindow
from slotproof.spec.preconditions import PRECONDITIONS
from slotproof.spec.request import Status

CONFIG = Config(9, (FullAttention(4),), 32, 32)

WAITING, RUNNING, PREEMPTED = Status.WAITING, Status.RUNNING, Status.PREEMPTED
ACCEPTED, WHOLE_PROMPT, STEP = Outcome.ACCEPTED, Outcome.WHOLE_PROMPT, Outcome.STEP
NO_HIT, HELD, IDLE, MIXED = HitKind.NONE, HitKind.HELD, HitKind.IDLE, HitKind.MIXED
INSIDE, FILLS, CROSSES = Boundary.INSIDE, Boundary.FILLS, Boundary.CROSSES


def admit(name: str, *prompt: int, **arguments: object) -> Action:
    return Action("admit", {"request": name, "prompt": prompt, **arguments})


def on(verb: str, name: str, **arguments: object) -> Action:
    return Action(verb, {"request": name, **arguments})


SIXTEEN = (1,) * 16
OUTPUT_A = on("output", "A", accepted=0, token=1)
A_ENDS_BEHIND_B = (admit("A", *SIXTEEN), admit("B", *SIXTEEN[:8], 2), on("free", "A"))

EXAMPLES: dict[str, tuple[tuple[Action, ...], Cell]] = {
    "first tokens end inside a block": (
        (admit("A", 1, 1, 1),),
        Cell(ACCEPTED, WAITING, NO_HIT, False, INSIDE),
    ),
    "first tokens fill a block": (
        (admit("A", 1, 1, 1, 1),),
        Cell(ACCEPTED, WAITING, NO_HIT, False, FILLS),
    ),
    "first tokens need a second block": (
        (admit("A", 1, 1, 1, 1, 1),),
        Cell(ACCEPTED, WAITING, NO_HIT, False, CROSSES),
    ),
    "lookahead counts for where a call ends": (
        (admit("A", 1, 1, 1, lookahead=1),),
        Cell(ACCEPTED, WAITING, NO_HIT, True, FILLS),
    ),
    "a running request's token crosses from a full block": (
        (admit("A", 1, 1, 1), OUTPUT_A, on("extend", "A"), OUTPUT_A, on("extend", "A", lookahead=4)),
        Cell(ACCEPTED, RUNNING, NO_HIT, True, CROSSES),
    ),
    "refused by the whole prompt": (
        (admit("A", *SIXTEEN), admit("B", *(2,) * 17, new=1, whole=True)),
        Cell(WHOLE_PROMPT, WAITING, NO_HIT, False, INSIDE),
    ),
    "refused by the step": (
        (admit("A", *SIXTEEN), admit("B", *(2,) * 17)),
        Cell(STEP, WAITING, NO_HIT, False, CROSSES),
    ),
    "refused by both is refused by the whole prompt": (
        (admit("A", *SIXTEEN), admit("B", *(2,) * 17, whole=True)),
        Cell(WHOLE_PROMPT, WAITING, NO_HIT, False, CROSSES),
    ),
    "a running request is refused": (
        (admit("A", 1, 1, 1, 1), OUTPUT_A, on("extend", "A", reserved=9)),
        Cell(STEP, RUNNING, NO_HIT, False, INSIDE),
    ),
    "the hit is held by another": (
        (admit("A", *SIXTEEN), admit("B", *SIXTEEN[:8], 2)),
        Cell(ACCEPTED, WAITING, HELD, False, INSIDE),
    ),
    "the hit is idle": (
        (admit("A", *SIXTEEN), on("free", "A"), admit("B", *SIXTEEN[:8], 2)),
        Cell(ACCEPTED, WAITING, IDLE, False, INSIDE),
    ),
    "the hit is idle in part": (
        (*A_ENDS_BEHIND_B, admit("C", *SIXTEEN, 2)),
        Cell(ACCEPTED, WAITING, MIXED, False, INSIDE),
    ),
    "a preempted request hits its own": (
        (admit("A", *SIXTEEN), on("preempt", "A"), on("retry", "A")),
        Cell(ACCEPTED, PREEMPTED, IDLE, False, FILLS),
    ),
    "a preempted request is refused": (
        (*A_ENDS_BEHIND_B, on("preempt", "B"), on("retry", "B", reserved=9, lookahead=2)),
        Cell(STEP, PREEMPTED, IDLE, True, INSIDE),
    ),
    "a load waits": (
        (admit("A", *SIXTEEN, reserved=9), on("load", "A", external=6)),
        Cell(ACCEPTED, WAITING, NO_HIT, False, INSIDE),
    ),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_last_call_is_counted_under_its_situation(example: str) -> None:
    actions, cell = EXAMPLES[example]
    tally = Tally.fresh()
    session = Session(ReferenceAdapter(), CONFIG, tally)
    for action in actions[:-1]:
        perform(session, action)
    before = Counter(tally.reach)

    perform(session, actions[-1])

    assert tally.reach - before == {cell: 1}


def test_null_entries_of_a_window_hit_are_neither_held_nor_idle() -> None:
    """Given a hit of four blocks of which a window reads the last, when another holds that, then the hit is held."""
    tally = Tally.fresh()
    session = Session(ReferenceAdapter(), Config(9, (SlidingWindow(4, 5),), 32, 32), tally)
    for action in (admit("A", *SIXTEEN), admit("B", *SIXTEEN, 2)):
        perform(session, action)
    assert tally.reach[Cell(ACCEPTED, WAITING, HELD, False, INSIDE)] == 1


def test_tokens_beyond_the_model_length_count_for_nothing() -> None:
    tally = Tally.fresh()
    session = Session(ReferenceAdapter(), Config(9, (FullAttention(4),), 7, 7), tally)
    perform(session, admit("A", 1, 1, 1, 1, 1, lookahead=9))
    assert set(tally.reach) == {Cell(ACCEPTED, WAITING, NO_HIT, True, CROSSES)}
    perform(session, OUTPUT_A)
    perform(session, on("extend", "A", lookahead=9))
    assert tally.reach[Cell(ACCEPTED, RUNNING, NO_HIT, True, INSIDE)] == 1


def test_there_is_a_cell_for_every_situation_and_a_running_request_has_no_hit() -> None:
    assert len(CELLS) == len(set(CELLS)) == 3 * 3 * 4 * 2 * 3
    excluded = {cell: infeasible(cell) for cell in CELLS if infeasible(cell) is not None}
    assert {(cell.status, cell.hit) for cell in excluded} == {(RUNNING, HELD), (RUNNING, IDLE), (RUNNING, MIXED)}
    assert len(excluded) == 3 * 3 * 2 * 3
    assert set(excluded.values()) == {"adopt-before-holding"} <= set(PRECONDITIONS)

"""Two policies held against each other in a small world.

First the laws: NEW must not break one that OLD keeps. Then the decisions, one turn at a time: from every state that NEW
reaches, OLD is asked too. If both always do the same, they are equal; if NEW at most leaves waiting requests out that
OLD would admit, NEW refines OLD; else the first turn that differs ends the shortest trace that tells them apart.
"""

from dataclasses import dataclass
from enum import StrEnum

from slotproof.conformance.scheduler_judge import LAW_IDS
from slotproof.conformance.scheduler_model import Check, Reached, SchedulerModel, World
from slotproof.conformance.scheduler_search import Explored, Found, explore_policy, turns_of
from slotproof.conformance.search import search
from slotproof.spec.scheduler.move import Kind
from slotproof.spec.scheduler.policy import Policy
from slotproof.spec.scheduler.schedule import AllocatorRaised
from slotproof.spec.scheduler.turn import Scheduled, Turn, take_turn


class Relation(StrEnum):
    """How NEW stands to OLD in a world."""

    EQUAL = "equal"
    REFINES = "refines"
    """It admits less at times, and never does anything else."""
    DIFFERENT = "different"
    BREAKS = "breaks"
    """It breaks a law that OLD keeps."""
    UNKNOWN = "unknown"
    """The time was up before everything was searched."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What was found. `trace` is NEW's, to the end; `instead` is what OLD does in its last turn, if that is the
    point.
    """

    old: Policy
    new: Policy
    world: World
    relation: Relation
    old_explored: Explored
    new_explored: Explored
    trace: Found | None = None
    instead: Turn | None = None

    @property
    def is_fine(self) -> bool:
        """Whether NEW is equal or refines OLD."""
        return self.relation in (Relation.EQUAL, Relation.REFINES)


def diff(old: Policy, new: Policy, world: World, *, seconds: float | None = None) -> Difference:
    """Compare two policies in a world; `seconds` bounds each search of it."""
    explored = explore_policy(old, world, seconds=seconds)
    kept = tuple(law_id for law_id in LAW_IDS if law_id not in explored.broken)
    judged = explore_policy(new, world, kept, seconds=seconds, first_only=True)
    if judged.found:
        return Difference(old, new, world, Relation.BREAKS, explored, judged, judged.found[0])
    relation, trace, instead = compare(old, new, world, seconds)
    if relation in (Relation.EQUAL, Relation.REFINES) and not (explored.exhausted and judged.exhausted):
        relation = Relation.UNKNOWN
    return Difference(old, new, world, relation, explored, judged, trace, instead)


def compare(
    old: Policy, new: Policy, world: World, seconds: float | None = None
) -> tuple[Relation, Found | None, Turn | None]:
    """NEW's turns against OLD's from the same states; laws apart."""
    lesser: list[Turn] = []
    outcome = search(SchedulerModel(new, world, decisions_check(old, lesser)), seconds=seconds)
    if outcome.violation is not None:
        turns = turns_of(outcome.violation)
        instead = take_turn(old, turns[-1].before, turns[-1].event)
        return Relation.DIFFERENT, Found((), turns), instead
    if not outcome.exhausted:
        return Relation.UNKNOWN, None, None
    return (Relation.REFINES if lesser else Relation.EQUAL), None, None


def decisions_check(old: Policy, lesser: list[Turn]) -> Check:
    """Objects to a turn in which OLD does something else; a turn in which NEW only admits less is noted."""

    def check(reached: Reached) -> str | None:
        turn = reached.turn
        assert turn is not None
        try:
            instead = take_turn(old, turn.before, turn.event)
        except AllocatorRaised:
            return "OLD cannot go on from here"
        if instead.after.key() == turn.after.key() and decisions(instead) == decisions(turn):
            return None
        if isinstance(turn.event, Scheduled) and admits_less(turn, instead):
            lesser.append(turn)
            return None
        return "OLD does something else"

    return check


Decisions = list[tuple[Kind, str, int]]
ENTERING = (Kind.ADMIT, Kind.PARK)
UNFULFILLED = (Kind.REFUSE, Kind.RUN_REFUSED)


def decisions(turn: Turn) -> Decisions:
    """What a step does, refusals left out."""
    return [
        (decision.kind, decision.request_id, decision.num_tokens)
        for decision in turn.decisions
        if decision.kind not in UNFULFILLED
    ]


def admits_less(turn: Turn, instead: Turn) -> bool:
    """Whether a step does what the other one does, but for some admissions."""
    mine, others = decisions(turn), decisions(instead)
    rest = [decision for decision in others if decision in mine or decision[0] not in ENTERING]
    return mine == rest and len(mine) < len(others)

"""A policy in a small world, searched to the end: which laws it breaks there, each with a shortest trace."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from slotproof.conformance.actions import Action
from slotproof.conformance.lasso import Graph, find_lasso
from slotproof.conformance.policy_actions import happening_of
from slotproof.conformance.scheduler_judge import LAW_IDS, Objection, objections_to_cycle
from slotproof.conformance.scheduler_model import Check, Reached, SchedulerModel, World, laws_check
from slotproof.conformance.search import Outcome, Trace, search, walk
from slotproof.spec.laws import SCHEDULER_LAWS
from slotproof.spec.scheduler.policy import Policy
from slotproof.spec.scheduler.turn import Scheduled, Turn

OF_CYCLES = frozenset(law.id for law in SCHEDULER_LAWS if law.of_cycle is not None)


@dataclass(frozen=True, slots=True)
class Found:
    """A shortest trace to what is objected to. With `repeats_from` its last turns, from that number on (counted from
    0), repeat for ever.
    """

    objections: tuple[Objection, ...]
    turns: tuple[Turn, ...]
    repeats_from: int | None = None

    def objection_of(self, law_id: str) -> str | None:
        """What this law objects to."""
        return dict(self.objections).get(law_id)

    @property
    def num_steps(self) -> int:
        """How often `schedule` is called until the end, or until everything repeats."""
        return sum(isinstance(turn.event, Scheduled) for turn in self.turns[: self.repeats_from])


@dataclass(frozen=True, slots=True)
class Explored:
    """What a policy does in a world: how much there is, and what is broken, nearest first."""

    policy: Policy
    world: World
    states: int
    transitions: int
    depth: int
    exhausted: bool
    seconds: float
    found: tuple[Found, ...]

    @property
    def broken(self) -> set[str]:
        """The laws that something objects to."""
        return {law_id for found in self.found for law_id, _ in found.objections}


class RecordingModel(SchedulerModel):
    """A model that remembers the turns between its states; for one process."""

    def __init__(self, policy: Policy, world: World, check: Check) -> None:
        super().__init__(policy, world, check)
        self.graph = Graph()

    def successors(self, state: Reached) -> Iterator[tuple[Action, Reached]]:
        """Every turn that is possible now."""
        here = self.canonical(state)
        for action, reached in super().successors(state):
            self.graph.add(here, state.state, happening_of(action), self.canonical(reached))
            yield action, reached


def explore_policy(
    policy: Policy,
    world: World,
    law_ids: tuple[str, ...] = LAW_IDS,
    *,
    seconds: float | None = None,
    first_only: bool = False,
) -> Explored:
    """Search the world for what breaks these laws: each broken law once, or only the nearest.

    `seconds` bounds each of the searches, of which there is one more than laws are broken.
    """
    found: list[Found] = []
    asked = law_ids
    while True:
        model = RecordingModel(policy, world, laws_check(asked))
        outcome = search(model, seconds=seconds)
        broken = _violation(outcome) or _lasso(model, outcome, asked)
        if broken is not None:
            found.append(broken)
            asked = tuple(law_id for law_id in asked if law_id not in {named for named, _ in broken.objections})
        if broken is None or first_only:
            return Explored(
                policy,
                world,
                outcome.states,
                outcome.transitions,
                outcome.depth,
                outcome.exhausted,
                outcome.seconds,
                tuple(found),
            )


def _violation(outcome: Outcome[Reached, Action]) -> Found | None:
    trace = outcome.violation
    if trace is None:
        return None
    turns = turns_of(trace)
    objections = trace.objection
    assert isinstance(objections, list)
    last = turns[-1]
    on_the_spot = objections[0][0] in OF_CYCLES and objections_to_cycle([last], (objections[0][0],)) == objections
    return Found(tuple(objections), turns, len(turns) - 1 if on_the_spot else None)


def _lasso(model: RecordingModel, outcome: Outcome[Reached, Action], law_ids: tuple[str, ...]) -> Found | None:
    """The nearest cycle that a law of cycles objects to."""
    if not OF_CYCLES.intersection(law_ids):
        return None
    lasso = find_lasso(model.graph, [job.name for job in model.initial().state.scope.jobs])
    if lasso is None:
        return None
    stem = path_to(outcome, lasso.cycle[0])
    turns = turns_of(walk(model, [*stem, *lasso.cycle[1:]]))
    cycle = list(turns[len(stem) - 1 :])
    objections = objections_to_cycle(cycle, law_ids)
    assert objections, "a cycle was found that no law objects to"
    return Found(tuple(objections), turns, len(stem) - 1)


def path_to(outcome: Outcome[Reached, Action], key: Hashable) -> list[Hashable]:
    """The keys of the states on a shortest way to the state of this key."""
    return outcome.path_to(outcome.keys.index(key))


def turns_of(trace: Trace[Reached, Action]) -> tuple[Turn, ...]:
    """The turns of a trace."""
    return tuple(reached.turn for reached in trace.states if reached.turn is not None)

"""Two policies held against each other on random turns, in worlds that no search exhausts.

First OLD is walked, to know which laws it breaks; then NEW, which must not break another; then NEW again, beside what
OLD does from the same states. The same seed and steps make the same worlds and turns.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from slotproof.conformance.driver import walk_episode
from slotproof.conformance.find import shortest_failure
from slotproof.conformance.pair import NO_LAW
from slotproof.conformance.plan import Plan
from slotproof.conformance.policy_diff import Relation, decisions_check
from slotproof.conformance.policy_run import DECISION, POLICY, TURN, PolicyRun, PolicyTarget
from slotproof.conformance.replay import Failure, replay
from slotproof.conformance.scheduler_judge import LAW_IDS
from slotproof.conformance.scheduler_model import SchedulerModel, World, laws_check
from slotproof.conformance.scheduler_search import Found
from slotproof.conformance.search import search
from slotproof.conformance.session import Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.shrink import Shrinker
from slotproof.conformance.target_diff import is_over
from slotproof.conformance.violation import EpisodeOver, Violation
from slotproof.spec.scheduler.policy import Policy
from slotproof.spec.scheduler.turn import Turn, take_turn

WALKS = 3
"""Of OLD, of NEW, of both."""

EPISODE_STEPS = 150
"""Most turns in one world; where requests do not come again, all have ended before."""


@dataclass(frozen=True, slots=True)
class Walked:
    """What was found. `turns` are those of the last walk; `trace` is NEW's in `world`, `instead` what OLD does in its
    last turn, if that is the point.
    """

    old: Policy
    new: Policy
    relation: Relation
    turns: int
    seconds: float
    old_breaks: frozenset[str]
    world: World | None = None
    trace: Found | None = None
    instead: Turn | None = None


def walk_diff(old: Policy, new: Policy, plan: Plan, on_progress: Callable[[int], None] = lambda _: None) -> Walked:
    """Compare two policies on the plan's walk, made three times; its time limit is that of each."""
    started, walk = monotonic(), Walk(plan, on_progress)
    broken = walk.laws_broken(PolicyTarget(old))
    kept = tuple(law_id for law_id in LAW_IDS if law_id not in broken)
    judged, compared = PolicyTarget(new), PolicyTarget(new, old)
    failure = walk.first_failure(judged, kept) or walk.first_failure(compared, NO_LAW)
    seconds = monotonic() - started
    if failure is None:
        relation = Relation.REFINES if compared.lesser else Relation.EQUAL
        return Walked(old, new, relation, walk.turns, seconds, broken)
    world, differs = World("random", failure.config), failure.violation.law_id == DECISION
    trace = trace_of(compared if differs else judged, failure)
    instead = take_turn(old, trace.turns[-1].before, trace.turns[-1].event) if differs else None
    relation = Relation.DIFFERENT if differs else Relation.BREAKS
    return Walked(old, new, relation, walk.turns, seconds, broken, world, trace, instead)


class Walk:
    """One plan, made again and again; `turns` counts those of the last time."""

    def __init__(self, plan: Plan, on_progress: Callable[[int], None]) -> None:
        self.turns = 0
        self._plan = plan
        self._done = 0
        self._on_progress = on_progress

    def laws_broken(self, target: PolicyTarget) -> frozenset[str]:
        """The laws that a policy breaks on the walk."""
        broken: set[str] = set()
        for settings, seed in self._episodes():
            kept = tuple(law_id for law_id in LAW_IDS if law_id not in broken)
            failure = self._episode(target, settings, seed, kept)
            broken.update(failure.violation.law_ids if failure is not None else ())
        return frozenset(broken)

    def first_failure(self, target: PolicyTarget, law_ids: tuple[str, ...]) -> Failure | None:
        """The first thing that is objected to, shrunk."""
        for settings, seed in self._episodes():
            failure = self._episode(target, settings, seed, law_ids)
            if failure is not None:
                return shrunk(target, settings, failure, seed)
        return None

    def _episodes(self) -> Iterator[tuple[Settings, str]]:
        """Settings and seed of one episode after the other, until the turns are made or the time is up."""
        started, self.turns, number, plan = monotonic(), 0, 0, self._plan
        while self.turns < plan.steps and not is_over(plan, started):
            settings = plan.settings[number % len(plan.settings)]
            yield settings, f"{plan.seed}/{settings.groups}/{number}"
            number += 1

    def _episode(self, target: PolicyTarget, settings: Settings, seed: str, law_ids: tuple[str, ...]) -> Failure | None:
        tally = Tally.fresh()
        failure = walk_episode(target, settings, seed, EPISODE_STEPS, tally, law_ids=law_ids)
        self.turns += tally.checks[TURN]
        self._done += tally.checks[TURN]
        self._on_progress(self._done)
        return failure


def shrunk(target: PolicyTarget, settings: Settings, failure: Failure, seed: str) -> Failure:
    """A failure made shorter as any other; then by short walks in its world, and by a search of that."""
    law_ids = laws_of(failure)
    small = Shrinker(target, failure, law_ids).run()
    return nearest_failure(target, shortest_failure(target, settings, small, seed, law_ids))


MOST_STATES = 20_000
"""So many states of a shrunk world are searched for a shorter trace."""


def nearest_failure(target: PolicyTarget, failure: Failure) -> Failure:
    """The shortest trace in a failure's world, as far as a search gets, shrunk again; else the failure itself."""
    law_ids = laws_of(failure)
    check = laws_check(law_ids) if target.old is None else decisions_check(target.old, [])
    model = SchedulerModel(target.policy, World("", failure.config), check)
    trace = search(model, max_states=MOST_STATES).violation
    if trace is None or len(trace.actions) >= len(failure.actions):
        return failure
    shorter = replay(target, failure.config, trace.actions, law_ids=law_ids)
    return failure if shorter is None else Shrinker(target, shorter, law_ids).run()


def laws_of(failure: Failure) -> tuple[str, ...]:
    """What must be judged for a failure to show."""
    return NO_LAW if failure.violation.law_id == DECISION else (failure.violation.law_id,)


def trace_of(target: PolicyTarget, failure: Failure) -> Found:
    """A failure's turns, carried out once more, and what is objected to at their end."""
    violation = failure.violation
    run = PolicyRun(target, failure.config, Tally.fresh(), law_ids=laws_of(failure))
    with suppress(Violation, EpisodeOver):
        for action in failure.actions:
            POLICY.perform(run, action)
    objections = () if violation.law_id == DECISION else ((violation.law_id, violation.objection),)
    return Found(objections, tuple(run.turns), run.repeats_from)

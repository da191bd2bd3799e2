"""Two targets held against each other: the same random actions carried out on both, up to the first difference."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from slotproof.conformance.adapter import Strictness
from slotproof.conformance.counterexample import outcome_words, pool_strip, setting_words
from slotproof.conformance.driver import EPISODE_STEPS, walk_episode
from slotproof.conformance.errors import SetupError
from slotproof.conformance.find import shortest_failure
from slotproof.conformance.page import page
from slotproof.conformance.pair import Pair, Sides
from slotproof.conformance.plan import Plan
from slotproof.conformance.replay import Failure, replay
from slotproof.conformance.scheduler_adapter import EngineConfig
from slotproof.conformance.scheduler_laws import snapshot_of
from slotproof.conformance.scheduler_trace import SchedulerTrace
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.target_page import columns_of, frame_of
from slotproof.conformance.vector import Step, Vector
from slotproof.conformance.violation import EpisodeOver, Violation


@dataclass(frozen=True, slots=True)
class Side:
    """What is known of one of the two: how it was named, its version, and where it stands in the end."""

    target: str
    version: str
    state: str = ""


@dataclass(frozen=True, slots=True)
class Parting:
    """The shortest trace found that tells two targets apart: `part` is what differs after its last call."""

    failure: Failure
    calls: tuple[str, ...]
    old: Side
    new: Side
    page: str
    """The trace to look at: the states of OLD, then where NEW is instead."""

    @property
    def part(self) -> str:
        """What differs."""
        return self.failure.violation.law_id

    def lines(self) -> list[str]:
        """The trace for a terminal."""
        violation = self.failure.violation
        return [
            f"OLD and NEW part in their {self.part}",
            *(f"  {line}" for line in setting_words(self.failure.config)),
            *(f"  {number}. {call}" for number, call in enumerate(self.calls, start=1)),
            f"  OLD     {violation.expected}",
            f"  NEW     {violation.got}",
            f"  OLD     {self.old.state}",
            f"  NEW     {self.new.state}",
        ]


@dataclass(frozen=True, slots=True)
class Compared:
    """What a walk over two targets gave."""

    old: Side
    new: Side
    level: Strictness
    steps: int
    seconds: float
    parting: Parting | None


def compare_targets(
    pair: Pair, names: tuple[str, str], plan: Plan, on_progress: Callable[[int], None] = lambda _: None
) -> Compared:
    """Carry the plan's walk out on both.

    Raises:
        SetupError: when a difference does not show again on the same actions.
    """
    started = monotonic()
    steps, found = first_difference(pair, plan, started, on_progress)
    old, new = (Side(name, side.profile.version) for name, side in zip(names, (pair.old, pair.new), strict=True))
    parting = None if found is None else narrated(pair, found, old, new)
    return Compared(old, new, pair.level, steps, monotonic() - started, parting)


def first_difference(
    pair: Pair, plan: Plan, started: float, on_progress: Callable[[int], None]
) -> tuple[int, Failure | None]:
    """The steps made, and the shortest trace to the first difference, if there is one."""
    steps, tally = 0, Tally.fresh()
    for settings, seed, length in episodes(plan):
        if is_over(plan, started):
            break
        found = walk_episode(pair, settings, seed, length, tally)
        steps += length if found is None else len(found.actions)
        on_progress(steps)
        if found is not None:
            return steps, shortest_failure(pair, settings, again(pair, found, seed), seed)
    return steps, None


def episodes(plan: Plan) -> Iterator[tuple[Settings, str, int]]:
    """The settings, seed and length of each episode, as `verify` has them."""
    for chunk in plan.chunks():
        for start in range(0, chunk.steps, EPISODE_STEPS):
            seed = f"{plan.seed}/{chunk.settings.groups}/{chunk.number}/{start}"
            yield chunk.settings, seed, min(EPISODE_STEPS, chunk.steps - start)


def is_over(plan: Plan, started: float) -> bool:
    """Whether the time is up."""
    return plan.seconds is not None and monotonic() - started > plan.seconds


def again(pair: Pair, found: Failure, seed: str) -> Failure:
    """The difference once more, from the actions alone.

    Raises:
        SetupError: when it does not show.
    """
    failure = replay(pair, found.config, found.actions)
    if failure is None:
        raise SetupError(
            f"the difference that seed {seed} found ({found.violation.law_id}) does not show again on the same "
            "actions: one of the two does not answer the same way twice, so nothing can be said about them"
        )
    return failure


def narrated(pair: Pair, failure: Failure, old: Side, new: Side) -> Parting:
    """Carry a difference out once more, and write down what each action came to on OLD, and where both end."""
    sides, calls = Sides(pair, failure.config, Tally.fresh()), []
    frames = [frame_of(sides.old, "At the beginning")]
    for number, action in enumerate(failure.actions, start=1):
        with suppress(Violation, EpisodeOver):
            pair.subject.perform(sides, action)
        calls.append(outcome_words(sides.old, action))
        frames.append(frame_of(sides.old, f"{number}. {calls[-1]}"))
    calls[-1] = str(failure.actions[-1])
    due, got = failure.violation.expected, failure.violation.got
    frames[-1] = frame_of(sides.old, f"{len(calls)}. {calls[-1]}, by OLD ({old.target} {old.version})  ->  {due}")
    frames.append(frame_of(sides.new, f"{len(calls)}. {calls[-1]}, by NEW ({new.target} {new.version})  ->  {got}"))
    head = f"{old.target} and {new.target} part in their {failure.violation.law_id}"
    drawn = page(head, setting_words(failure.config), frames, columns_of(sides.old), None)
    states = [state_words(side) for side in (sides.old, sides.new)]
    ends = [Side(side.target, side.version, state) for side, state in zip((old, new), states, strict=True)]
    return Parting(failure, tuple(calls), ends[0], ends[1], drawn)


def state_words(side: Any) -> str:
    """The pool and the tables."""
    return pool_strip(side.snapshot if isinstance(side, Session) else snapshot_of(side.config, side.view))


def trace_of(parting: Parting) -> Vector | SchedulerTrace:
    """The trace for `slotproof replay`, on either of the two."""
    name = f"{parting.old.target} and {parting.new.target} part in their {parting.part}"
    config, actions = parting.failure.config, parting.failure.actions
    if isinstance(config, EngineConfig):
        return SchedulerTrace(name, config, actions, SOURCE)
    return Vector(name, (), config, tuple(Step(action) for action in actions), SOURCE)


SOURCE = "found by slotproof diff"


def as_document(compared: Compared) -> dict[str, Any]:
    """The fields of `slotproof diff --json` for two targets."""
    parting = compared.parting
    return {
        "old": compared.old.target,
        "old_version": compared.old.version,
        "new": compared.new.target,
        "new_version": compared.new.version,
        "strictness": compared.level.name.lower(),
        "relation": "equal" if parting is None else "different",
        "steps": compared.steps,
        "seconds": compared.seconds,
        "trace": None
        if parting is None
        else {
            "part": parting.part,
            "calls": list(parting.calls),
            "old": parting.failure.violation.expected,
            "new": parting.failure.violation.got,
            "replay": trace_of(parting).as_json(),
        },
    }

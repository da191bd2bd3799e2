"""A policy as something to walk, replay and shrink like a target: one episode of it in a world that may be large."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from slotproof.conformance.actions import Action, Arguments, Chooser, Verb
from slotproof.conformance.adapter import Profile
from slotproof.conformance.deviations import Deviation
from slotproof.conformance.policy_actions import POLICY_VERBS, PolicyVerb
from slotproof.conformance.policy_diff import decisions_check
from slotproof.conformance.policy_scopes import draw_scope, scope_with_fewer_blocks, simpler_scopes
from slotproof.conformance.scheduler_judge import LAW_IDS, Objection, objections, objections_to_cycle
from slotproof.conformance.scheduler_laws import kind_of
from slotproof.conformance.scheduler_model import Reached, canonical
from slotproof.conformance.scheduler_search import OF_CYCLES
from slotproof.conformance.session import Tally
from slotproof.conformance.subject import Subject
from slotproof.conformance.violation import EpisodeOver, Violation
from slotproof.spec.laws import BY_ID
from slotproof.spec.scheduler.job import Scope
from slotproof.spec.scheduler.policy import Policy
from slotproof.spec.scheduler.schedule import AllocatorRaised
from slotproof.spec.scheduler.state import start
from slotproof.spec.scheduler.turn import Happening, Processed, Turn, happenings, take_turn

WEIGHTS = {"schedule": 30, "process": 30, "arrive": 10, "loaded": 10, "failed": 3, "input": 6, "abort": 2, "reset": 2}
"""How often the driver tries each verb; others once."""

TURN = "turn"
"""Under this name turns are counted."""

DECISION = "decision"
"""In place of a law's id: two policies do different things."""


@dataclass(frozen=True, slots=True)
class PolicyTarget:
    """A policy to be judged by the laws; with `old`, to be compared with what that does from the same states."""

    policy: Policy
    old: Policy | None = None
    lesser: list[Turn] = field(default_factory=list)
    """Turns in which OLD would have admitted more."""

    @property
    def profile(self) -> Profile:
        """A policy works with every kind of group."""
        return Profile(self.policy.name, group_kinds=("full", "window", "hybrid"))

    @property
    def subject(self) -> Subject:
        """Its action table, worlds and simplifications."""
        return POLICY


class PolicyRun:
    """One episode. Raises Violation when a law objects or OLD does something else, EpisodeOver when all is done."""

    def __init__(
        self,
        target: PolicyTarget,
        scope: Scope,
        tally: Tally,
        *,
        law_ids: Sequence[str] = (),
        deviations: Sequence[Deviation] = (),
    ) -> None:
        self.state = start(scope)
        self.turns: list[Turn] = []
        self.repeats_from: int | None = None
        self._target = target
        self._tally = tally
        self._law_ids = tuple(law_id for law_id in LAW_IDS if not law_ids or law_id in law_ids)
        self._seen: dict[Hashable, int] = {canonical(self.state): 0}

    def possible(self, event: type[Happening]) -> list[Happening]:
        """What of this kind may happen now."""
        return [possible for possible in happenings(self.state) if isinstance(possible, event)]

    def let(self, event: Happening) -> None:
        """Something happens."""
        self._tally.checks[TURN] += 1
        try:
            turn = take_turn(self._target.policy, self.state, event)
        except AllocatorRaised as error:
            self.turns.append(Turn(self.state, event, self.state, raised=str(error)))
            self._object([("COUNT-1", str(error))] if "COUNT-1" in self._law_ids else [])
            raise EpisodeOver from error
        self.turns.append(turn)
        self.state = turn.after
        self._object(objections(turn, self._law_ids))
        self._compare(turn)
        self._note_cycle()

    def _note_cycle(self) -> None:
        """A state for the second time: what led from the first to it may go on for ever."""
        if not OF_CYCLES.intersection(self._law_ids):
            return
        first = self._seen.setdefault(canonical(self.state), len(self.turns))
        found = objections_to_cycle(self.turns[first:], self._law_ids) if first < len(self.turns) else []
        if found:
            self.repeats_from = first
            self._object(found)

    def _compare(self, turn: Turn) -> None:
        if self._target.old is None:
            return
        difference = decisions_check(self._target.old, self._target.lesser)(Reached(turn.after, turn))
        if difference is not None:
            raise Violation(DECISION, str(difference), "the same turn", str(difference))

    def _object(self, found: list[Objection]) -> None:
        if found:
            (law_id, objection), *others = found
            raise Violation(law_id, objection, BY_ID[law_id].sentence, objection, tuple(others))


def propose_event(verb: PolicyVerb, run: PolicyRun, chooser: Chooser) -> Arguments | None:
    """One of the ways in which this may happen now; the last call of an episode is to `schedule`."""
    possible = run.possible(verb.event)
    if possible:
        return verb.arguments(chooser.pick(possible))
    return {} if verb.name == "schedule" and not happenings(run.state) else None


def run_event(verb: PolicyVerb, run: PolicyRun, arguments: Arguments) -> None:
    """Let it happen if it may."""
    event, possible = verb.happening(arguments), run.possible(verb.event)
    if event in possible:
        run.let(event)
    elif isinstance(event, Processed) and possible:
        run.let(possible[0])
    elif not happenings(run.state):
        raise EpisodeOver


def verb_of(verb: PolicyVerb) -> Verb[PolicyRun]:
    """A row of the policies' table as the driver wants it."""
    needs = ("request",) if verb.name not in ("schedule", "process", "reset") else ()
    weight = WEIGHTS.get(verb.name, 1)
    return Verb(verb.name, verb.meaning, needs, weight, partial(propose_event, verb), partial(run_event, verb))


def simpler_events(action: Action) -> Iterator[Action]:
    """Fewer accepted drafts."""
    accepted: dict[str, int] = dict(action.arguments.get("accepted", {}))
    for name, count in accepted.items():
        if count:
            yield Action(action.verb, {"accepted": {**accepted, name: count - 1}})


def nothing_absorbed(actions: tuple[Action, ...], position: int) -> tuple[Action, ...]:
    """Outputs are the world's, not the trace's."""
    return actions


def is_same(first: Violation, second: Violation) -> bool:
    """The same law, and the same said of whatever requests and blocks."""
    return (first.law_id, kind_of(first.objection)) == (second.law_id, kind_of(second.objection))


begin: Callable[..., Any] = PolicyRun

POLICY = Subject(
    tuple(map(verb_of, POLICY_VERBS)),
    begin,
    draw_scope,
    simpler_events,
    simpler_scopes,
    scope_with_fewer_blocks,
    nothing_absorbed,
    is_same,
    lambda settings, scope, number: scope,
    named_by=(),
)

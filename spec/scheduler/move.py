"""A move in the making: the state as it is by now, and everything that was asked, answered and decided on the way."""

from dataclasses import dataclass, replace
from enum import StrEnum

from slotproof.spec.scheduler.state import Entry, Memory, SchedulerState
from slotproof.spec.snapshot import Snapshot
from slotproof.spec.transition import Event, Transition


class Kind(StrEnum):
    """What was decided about a request."""

    RUN = "runs"
    """A running request was scheduled."""
    ADMIT = "is admitted"
    """A waiting request was scheduled and runs."""
    PARK = "is parked"
    """A waiting request got the blocks of its load."""
    PROMOTE = "is promoted"
    """Its load is noticed to be done; it waits for its first step."""
    RUN_REFUSED = "is refused more blocks"
    """A running request was refused."""
    REFUSE = "is refused"
    """A waiting request was refused, and stays where it is."""
    PREEMPT = "is preempted"
    END = "ends"
    PAUSE = "waits for input"
    """A session's turn is over."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision: the tokens it schedules, and the call of the allocator it rests on."""

    kind: Kind
    request_id: str
    num_tokens: int = 0
    transition: Transition | None = None
    stops: bool = False
    """A refusal after which the waiting pass ends."""


@dataclass(frozen=True, slots=True)
class Move:
    """What a scheduling pass hands on: the state, what is left of the step's budget, the step's entries so far."""

    state: SchedulerState
    budget: int = 0
    entries: tuple[Entry, ...] = ()
    decisions: tuple[Decision, ...] = ()
    transitions: tuple[Transition, ...] = ()
    stopped: bool = False
    """Whether the pass ends here."""
    written: Memory | None = None
    """What the slots held right after the worker had written."""

    @property
    def is_preempting(self) -> bool:
        """Whether somebody was preempted."""
        return any(decision.kind == Kind.PREEMPT for decision in self.decisions)

    def with_state(self, state: SchedulerState) -> "Move":
        """The move with another state."""
        return replace(self, state=state)

    def called(self, event: Event, snapshot: Snapshot) -> "Move":
        """The move after a call of the allocator."""
        transition = Transition(self.state.snapshot, event, snapshot, dict(self.state.requests))
        state = replace(self.state, snapshot=snapshot)
        return replace(self, state=state, transitions=(*self.transitions, transition))

    def decided(
        self, kind: Kind, request_id: str, num_tokens: int = 0, *, of_call: bool = False, stops: bool = False
    ) -> "Move":
        """The move after a decision, which rests on the last call if `of_call` says so."""
        transition = self.transitions[-1] if of_call else None
        return replace(self, decisions=(*self.decisions, Decision(kind, request_id, num_tokens, transition, stops)))

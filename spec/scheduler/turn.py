"""One turn of the engine: what happens, and everything the laws want to know about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from slotproof.spec.arithmetic import imin
from slotproof.spec.scheduler import environment
from slotproof.spec.scheduler.move import Decision, Move
from slotproof.spec.scheduler.policy import Policy
from slotproof.spec.scheduler.schedule import schedule_step
from slotproof.spec.scheduler.state import Entry, Memory, SchedulerState
from slotproof.spec.scheduler.worker import forget
from slotproof.spec.transition import Transition


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request arrived."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Scheduled:
    """`schedule` was called."""


@dataclass(frozen=True, slots=True)
class Processed:
    """The oldest step in flight was processed; so many drafts of each request that had some were accepted, and the
    loads of these requests in it failed.
    """

    accepted: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadDone:
    """A load ended."""

    request_id: str


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """A load ended and has written nothing."""

    request_id: str


@dataclass(frozen=True, slots=True)
class InputCame:
    """A session that had waited for it got its next input."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Aborted:
    """A request was aborted."""

    request_id: str


@dataclass(frozen=True, slots=True)
class CacheReset:
    """The prefix cache was to be reset, perhaps with what runs preempted first."""

    preempt_running: bool = False


Happening = Arrived | Scheduled | Processed | LoadDone | LoadFailed | InputCame | Aborted | CacheReset


@dataclass(frozen=True, slots=True)
class Turn:
    """What the laws about a scheduler judge: the states around it, what happened, what was decided and asked."""

    before: SchedulerState
    event: Happening
    after: SchedulerState
    entries: tuple[Entry, ...] = ()
    decisions: tuple[Decision, ...] = ()
    transitions: tuple[Transition, ...] = ()
    written: Memory | None = None
    raised: str | None = None
    """Why the turn could not be taken: the allocator raised."""


def take_turn(policy: Policy, state: SchedulerState, event: Happening) -> Turn:
    """Let something happen that is possible in this state.

    Raises:
        AllocatorRaised: when the policy's allocator raises.
    """
    move = _move(policy, state, event)
    after = forget(move.state)
    return Turn(state, event, after, move.entries, move.decisions, move.transitions, move.written)


def _move(policy: Policy, state: SchedulerState, event: Happening) -> Move:
    if isinstance(event, Arrived):
        return environment.arrive(state, event.request_id)
    if isinstance(event, Scheduled):
        return schedule_step(policy, state)
    if isinstance(event, Processed):
        return environment.process(policy, state, event.accepted, event.failed)
    if isinstance(event, LoadDone | LoadFailed):
        return environment.finish_load(policy, state, event.request_id, isinstance(event, LoadFailed))
    if isinstance(event, InputCame):
        return environment.more_input(state, event.request_id)
    if isinstance(event, Aborted):
        return environment.abort(policy, state, event.request_id)
    return environment.reset(policy, state, event.preempt_running)


def happenings(state: SchedulerState) -> list[Happening]:
    """Everything that may happen now, what keeps the engine going first."""
    events: list[Happening] = []
    if state.steps:
        events += [Processed(accepted, failed) for accepted in acceptances(state) for failed in failures(state)]
    if len(state.steps) < state.scope.max_steps_in_flight and state.requests:
        events.append(Scheduled())
    events += [LoadDone(name) for name in state.loading]
    events += [LoadFailed(name) for name in state.loading if state.job(name).load_may_fail]
    events += [InputCame(name) for name in state.paused]
    events += [Arrived(name) for name in state.arrivals()]
    events += [Aborted(name) for name in state.requests if name in state.scope.may_abort]
    if state.scope.may_reset and state.snapshot.pool.keyed:
        events.append(CacheReset())
    if state.scope.may_reset_running and state.running:
        events.append(CacheReset(preempt_running=True))
    return events


def failures(state: SchedulerState) -> list[tuple[str, ...]]:
    """Every way in which the loads of the oldest step may fail."""
    names = [entry.request_id for entry in state.steps[0] if entry.num_loaded]
    ways: list[tuple[str, ...]] = [()]
    for name in names:
        if state.job(name).load_may_fail:
            ways += [(*way, name) for way in ways]
    return ways


def acceptances(state: SchedulerState) -> list[Mapping[str, int]]:
    """Every way in which the drafts of the oldest step may be accepted; what is sampled last ends the request."""
    ways: list[dict[str, int]] = [{}]
    for entry in state.steps[0]:
        if entry.num_drafts and not entry.stale:
            left = len(state.job(entry.request_id).token_ids) - state.requests[entry.request_id].num_tokens
            counts = range(imin(entry.num_drafts, left - 1) + 1)
            ways = [{**way, entry.request_id: count} for way in ways for count in counts]
    return [MappingProxyType(way) for way in ways]

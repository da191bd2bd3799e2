"""How a request gives its blocks back, and how it ends: at once, or behind a fence while a step in flight may still
write.
"""

from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType

from slotproof.spec.arithmetic import imax
from slotproof.spec.release import defer_free, free, return_deferred
from slotproof.spec.scheduler.move import Kind, Move
from slotproof.spec.scheduler.state import Outcome, SchedulerState, Step, with_entry, without_entry, without_name
from slotproof.spec.snapshot import Snapshot
from slotproof.spec.transition import Deferred, Event, Freed, Returned


class Why(StrEnum):
    """Why blocks come back."""

    FINISHED = "finished"
    ABORTED = "aborted"
    FAILED = "failed"
    PREEMPTED = "preempted"


Given = tuple[Snapshot, tuple[int, ...]]
"""The snapshot after blocks were given back, and the fences of its deferred frees."""


def at_once(state: SchedulerState, name: str, why: Why) -> Given:
    """The blocks are free now, whatever is in flight."""
    return free(state.snapshot, name), state.fences


def behind_fence(state: SchedulerState, name: str, why: Why) -> Given:
    """The blocks are free when every step that may write them has been processed; at once if there is none."""
    fence = fence_of(state, name)
    if fence == 0 or name not in state.snapshot.holdings:
        return at_once(state, name, why)
    return defer_free(state.snapshot, name), (*state.fences, imax(fence, state.fences[-1] if state.fences else 0))


def fence_of(state: SchedulerState, name: str) -> int:
    """How many of the oldest steps in flight must be processed before none of them names the request."""
    naming = [number for number, step in enumerate(state.steps) if any(entry.request_id == name for entry in step)]
    return naming[-1] + 1 if naming else 0


def gave_back(move: Move, name: str, given: Given) -> Move:
    """The move after a request's blocks were given back, or are to be."""
    snapshot, fences = given
    deferred = len(fences) > len(move.state.fences)
    event: Event = Deferred(name) if deferred else Freed(name)
    after = move.called(event, snapshot)
    return after.with_state(replace(after.state, fences=fences))


def end(move: Move, name: str, outcome: Outcome, given: Given | None) -> Move:
    """The request has ended. None: its blocks are still written."""
    move = leave(move, name, given)
    state = replace(move.state, ended=with_entry(move.state.ended, name, outcome))
    return move.with_state(state).decided(Kind.END, name)


def pause(move: Move, name: str, given: Given | None) -> Move:
    """A session's turn is over. None: it keeps its blocks."""
    move = leave(move, name, given)
    state = replace(move.state, paused=(*move.state.paused, name))
    return move.with_state(state).decided(Kind.PAUSE, name)


def leave(move: Move, name: str, given: Given | None) -> Move:
    """The request leaves the scheduler; what is in flight for it counts no more."""
    move = move if given is None else gave_back(move, name, given)
    state = replace(
        move.state,
        requests=without_entry(move.state.requests, name),
        waiting=without_name(move.state.waiting, name),
        running=without_name(move.state.running, name),
        loaded=without_name(move.state.loaded, name),
        unloadable=without_name(move.state.unloadable, name),
        steps=disowned(move.state.steps, name),
        overtaken=without_entry(move.state.overtaken, name),
        preempted=MappingProxyType({}),
    )
    return move.with_state(state)


def disowned(steps: tuple[Step, ...], name: str) -> tuple[Step, ...]:
    """The steps in flight with the request's entries stale."""
    return tuple(
        tuple(replace(entry, stale=True) if entry.request_id == name else entry for entry in step) for step in steps
    )


def pass_fences(move: Move) -> Move:
    """One step has been processed: the deferred frees that waited for nothing else come back (FREE-1)."""
    fences = tuple(fence - 1 for fence in move.state.fences)
    due = sum(fence <= 0 for fence in fences)
    move = move.with_state(replace(move.state, fences=fences[due:]))
    for _ in range(due):
        move = move.called(Returned(), return_deferred(move.state.snapshot))
    return move

"""SCHED-5 over a whole run: a cycle of turns that a fair engine may repeat for ever."""

from collections.abc import Sequence

from slotproof.spec.scheduler.state import SchedulerState
from slotproof.spec.scheduler.turn import (
    Aborted,
    Arrived,
    CacheReset,
    Happening,
    LoadDone,
    LoadFailed,
    Processed,
    Scheduled,
    Turn,
)


def nobody_starves(cycle: Sequence[Turn]) -> str | None:
    """SCHED-5, over a cycle: the state behind its last turn is the one before its first, up to the names of blocks."""
    if not is_fair(cycle):
        return None
    starving = [name for name in cycle[0].before.requests if starves(cycle, name)]
    if not starving:
        return None
    names = f"request {starving[0]}" if len(starving) == 1 else f"requests {', '.join(starving)}"
    running = any(turn.entries for turn in cycle)
    return f"{names} can wait for ever" + ("" if running else ": nothing is scheduled any more")


def is_fair(cycle: Sequence[Turn]) -> bool:
    """Whether the engine keeps its word: it schedules, and every step and every load ends at some time; and whether
    nobody keeps interfering.
    """
    happened = [turn.event for turn in cycle]
    if any(map(interferes, happened)) or not any(isinstance(event, Scheduled) for event in happened):
        return False
    if all(turn.before.steps for turn in cycle) and not any(isinstance(event, Processed) for event in happened):
        return False
    ended = {event.request_id for event in happened if isinstance(event, LoadDone | LoadFailed)}
    return all(
        any(name not in turn.before.loading for turn in cycle) for name in cycle[0].before.loading if name not in ended
    )


def interferes(event: Happening) -> bool:
    """Whether somebody takes from a request what it had, which happens finitely often."""
    return isinstance(event, Aborted) or (isinstance(event, CacheReset) and event.preempt_running)


def starves(cycle: Sequence[Turn], name: str) -> bool:
    """Whether a request is there all the time, and nobody of higher priority comes in between.

    Nobody gains a token on a cycle, so whoever is there never ends.
    """
    if any(name not in turn.before.requests for turn in cycle):
        return False
    state = cycle[0].before
    return not any(precedes(state, turn.event.request_id, name) for turn in cycle if isinstance(turn.event, Arrived))


def precedes(state: SchedulerState, newcomer: str, name: str) -> bool:
    """Whether a request that arrives later goes first all the same."""
    return state.job(newcomer).priority < state.job(name).priority

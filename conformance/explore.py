"""Every small world exhausted: of the specification by itself, or of the specification against a target."""

import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from slotproof.conformance.actions import Action
from slotproof.conformance.adapter import Adapter
from slotproof.conformance.counterexample import narrate
from slotproof.conformance.driven import TargetModel
from slotproof.conformance.errors import SetupError
from slotproof.conformance.model import SpecModel
from slotproof.conformance.replay import Failure, replay
from slotproof.conformance.report import Found
from slotproof.conformance.scope import Scope
from slotproof.conformance.search import Model, Progress, Trace, search
from slotproof.conformance.shrink import Shrinker
from slotproof.conformance.smoke import smoke_check
from slotproof.conformance.targets.registry import load_allocator
from slotproof.conformance.vector import Vector, not_for
from slotproof.conformance.violation import Violation


@dataclass(frozen=True, slots=True)
class Explored:
    """What exploring one scope gave; `peak_mib` is the most memory that one of its processes took."""

    scope: Scope
    states: int
    transitions: int
    depth: int
    exhausted: bool
    seconds: float
    peak_mib: int
    found: Found | None = None


def explore(
    scopes: Sequence[Scope],
    target: str | None = None,
    *,
    renaming: bool = True,
    workers: int | None = None,
    max_states: int | None = None,
    seconds: float | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Iterator[Explored]:
    """Explore scopes, and yield what each gave, in their order. One scope is shared by all processes, of several each
    process takes whole ones, and then progress is not told.

    Args:
        scopes: the small worlds.
        target: what is driven through them and compared with the specification; None for the specification alone.
        renaming: whether worlds that differ by the names of blocks and requests count once.
        workers: processes, None for one a core.
        max_states: of each scope.
        seconds: for all scopes together.
        on_progress: told every few hundred states.

    Raises:
        SetupError: when a target cannot be used.
    """
    workers = workers or os.cpu_count() or 1
    if target is not None:
        check_target(target, scopes)
    deadline = None if seconds is None else time.monotonic() + seconds
    run = partial(explore_one, target=target, renaming=renaming, max_states=max_states, deadline=deadline)
    if len(scopes) == 1 or workers == 1:
        for scope in scopes:
            yield run(scope, workers=workers, on_progress=on_progress)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(run, scopes)


def explore_one(
    scope: Scope,
    *,
    target: str | None = None,
    renaming: bool = True,
    workers: int = 1,
    max_states: int | None = None,
    deadline: float | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Explored:
    """Explore one scope; `deadline` is a time of the monotonic clock."""
    model: Model[Any, Any] = SpecModel(scope, renaming) if target is None else TargetModel(target, scope, renaming)
    seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
    outcome = search(model, workers=workers, max_states=max_states, seconds=seconds, on_progress=on_progress)
    found = None if outcome.violation is None else worth_showing(scope, target or "reference", outcome.violation)
    counts = outcome.states, outcome.transitions, outcome.depth, outcome.exhausted, outcome.seconds
    return Explored(scope, *counts, peak_mib(), found)


def worth_showing(scope: Scope, target: str, trace: Trace[Any, tuple[Action, ...]]) -> Found:
    """The counterexample at the end of a trace, without the calls that turn out to be needed for nothing.

    Raises:
        SetupError: when a target does not answer the same way twice.
    """
    assert isinstance(trace.objection, Violation)
    adapter, actions = load_allocator(target), tuple(chain.from_iterable(trace.actions))
    failure = replay(adapter, scope.config, actions)
    if failure is None:
        raise SetupError(
            f"{trace.objection} was found, but does not show again on the same calls: "
            f"{target} does not answer the same way twice, so nothing can be said about it"
        )
    return Found.of(narrate(adapter, target, None, shortened(adapter, failure)))


def shortened(adapter: Adapter, failure: Failure) -> Failure:
    """The failure shrunk; the search finds the fewest moves, and a move may bring a result that nobody needs."""
    return Shrinker(adapter, failure).run()


def check_target(target: str, scopes: Sequence[Scope]) -> None:
    """Make sure that a target can be driven through the scopes.

    Raises:
        SetupError: saying why not.
    """
    adapter = load_allocator(target)
    for scope in scopes:
        reason = not_for(adapter, Vector("", (), scope.config, ()))
        if reason is not None:
            raise SetupError(f"{target} cannot be driven through {scope}: {reason}")
    smoke_check(adapter)


def peak_mib() -> int:
    """The most memory that this process, or one that it started, has taken, in MiB."""
    peaks = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(peaks) // 1024


@dataclass(frozen=True, slots=True)
class Speed:
    """States a second of processor time: of worlds up to renaming, and of worlds as they are."""

    canonical: float
    raw: float


def speed(scope: Scope, max_states: int) -> Speed:
    """How fast the specification is explored, every law on, over the first `max_states` states of a scope."""
    paces = []
    for renaming in (True, False):
        started = time.process_time()
        outcome = search(SpecModel(scope, renaming), max_states=max_states)
        paces.append(outcome.states / (time.process_time() - started))
    return Speed(*paces)

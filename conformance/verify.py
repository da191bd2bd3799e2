"""The main job: a seeded walk over small worlds, in parallel, and one verdict.

The walk is cut into chunks that are told apart by the seed alone. Results are taken in the order of the walk, whoever
finishes first, so the same seed and steps give the same report, and a time limit stops a prefix of the same walk.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from slotproof.conformance.actions import Action
from slotproof.conformance.adapter import Adapter, Profile
from slotproof.conformance.counterexample import narrate
from slotproof.conformance.deviations import Deviation
from slotproof.conformance.driver import EPISODE_STEPS, walk_episode
from slotproof.conformance.errors import AdapterError, SetupError
from slotproof.conformance.find import shortest_failure
from slotproof.conformance.plan import Chunk, Plan
from slotproof.conformance.replay import replay
from slotproof.conformance.report import Found, Report, new_report
from slotproof.conformance.scheduler_adapter import EngineConfig, SchedulerAdapter
from slotproof.conformance.scheduler_laws import LAW_IDS
from slotproof.conformance.scheduler_trace import read_trace
from slotproof.conformance.session import Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.smoke import smoke_check
from slotproof.conformance.subject import is_scheduler
from slotproof.conformance.targets.registry import load_target
from slotproof.conformance.vector import read_vector
from slotproof.spec.config import Config
from slotproof.spec.laws import LAWS


@dataclass(slots=True)
class ChunkResult:
    """What one piece of the walk gave; `failing` is the episode that ended in a violation, and its seed."""

    steps: int
    tally: Tally
    failing: tuple[Config | EngineConfig, tuple[Action, ...], str] | None = None


def verify(plan: Plan, on_progress: Callable[[int], None] = lambda _: None) -> Report:
    """Run the plan; `on_progress` is told the steps done so far.

    Raises:
        SetupError: when the target cannot be used; AdapterError when its adapter is broken.
    """
    started = time.monotonic()
    adapter = _adapter(plan.target)
    if not is_scheduler(adapter):
        smoke_check(cast(Adapter, adapter))
    require_judged(plan, adapter)
    report = new_report(plan, adapter)
    plan = replace(plan, settings=usable_settings(plan, adapter.profile, report))
    report.stale_deviations = tuple(
        deviation.id for deviation in plan.deviations if not still_shows(adapter, deviation)
    )
    done: set[Settings] = set()
    for chunk, result in _results(plan, started):
        if chunk.settings in done:
            continue
        report.steps += result.steps
        report.tally.add(result.tally)
        on_progress(report.steps)
        if result.failing is not None:
            report.found.append(worth_showing(adapter, plan, chunk.settings, *result.failing))
            done.add(chunk.settings)
            if plan.fail_fast or len(done) == len(plan.settings):
                break
    report.seconds = time.monotonic() - started
    return report


def require_judged(plan: Plan, adapter: Any) -> None:
    """The laws that were asked for are about this kind of target.

    Raises:
        SetupError: naming one that is not.
    """
    judged = LAW_IDS if is_scheduler(adapter) else [law.id for law in LAWS]
    others = [law_id for law_id in plan.law_ids if law_id not in judged]
    if not others:
        return
    if is_scheduler(adapter):
        raise SetupError(f"{others[0]} is not judged for schedulers, and {plan.target} is one; verify an allocator")
    raise SetupError(
        f"{others[0]} is a law about schedulers, and {plan.target} is an allocator; verify a scheduler, or hold "
        "policies to it with `slotproof diff`"
    )


def usable_settings(plan: Plan, profile: Profile, report: Report) -> tuple[Settings, ...]:
    """The group settings the target supports; at least one must be left."""
    usable, skipped = [], []
    for settings in plan.settings:
        reason = unusable(profile, settings)
        if reason is None:
            usable.append(settings)
        else:
            skipped.append((settings.groups, reason))
    report.skipped_settings = tuple(skipped)
    if not usable:
        reasons = "; ".join(sorted({reason for _, reason in skipped}))
        raise SetupError(
            f"nothing to verify: {reasons}; choose other --groups, --caching, --free-order or --block-size"
        )
    return tuple(usable)


def unusable(profile: Profile, settings: Settings) -> str | None:
    """Why a target of this profile cannot be run with these settings, or None."""
    lacking = [kind for kind in settings.kinds if kind not in profile.group_kinds]
    if lacking:
        return f"{profile.name} has no {lacking[0]} groups"
    if settings.caching not in profile.caching:
        return f"{profile.name} cannot run with caching {'on' if settings.caching else 'off'}"
    if settings.free_order is not None and settings.free_order not in profile.free_orders:
        return f"{profile.name} has no free order {settings.free_order}"
    if settings.block_size is not None and settings.block_size not in (profile.block_sizes or [settings.block_size]):
        return f"{profile.name} does not take block size {settings.block_size}"
    return None


def still_shows(adapter: Any, deviation: Deviation) -> bool:
    """Whether a known deviation's vector still breaks its law in the known way."""
    vector = read_trace(deviation.vector) if is_scheduler(adapter) else read_vector(deviation.vector)
    failure = replay(adapter, vector.config, vector.actions)
    return failure is not None and deviation.covers(failure.violation.law_id, failure.violation.objection)


def _results(plan: Plan, started: float) -> Iterator[tuple[Chunk, ChunkResult]]:
    """The chunks' results in the order of the walk, a few ahead being worked on."""
    chunks = plan.chunks()
    if plan.workers == 1:
        for chunk in chunks:
            if plan.seconds is not None and time.monotonic() - started > plan.seconds:
                return
            yield chunk, run_chunk(plan, chunk)
        return
    try:
        yield from _parallel_results(plan, chunks, started)
    except BrokenProcessPool as error:
        raise AdapterError(
            f"the process that {plan.target} ran in died; run it in an environment of its own, "
            "as NAME@/path/to/python, to see what it printed"
        ) from error


def _parallel_results(plan: Plan, chunks: Iterator[Chunk], started: float) -> Iterator[tuple[Chunk, ChunkResult]]:
    with ProcessPoolExecutor(plan.workers) as pool:
        waiting: list[tuple[Chunk, Future[ChunkResult]]] = []
        try:
            for chunk in chunks:
                if plan.seconds is not None and time.monotonic() - started > plan.seconds:
                    break
                waiting.append((chunk, pool.submit(run_chunk, plan, chunk)))
                if len(waiting) >= 2 * plan.workers:
                    first, future = waiting.pop(0)
                    yield first, future.result()
            for chunk, future in waiting:
                yield chunk, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


def run_chunk(plan: Plan, chunk: Chunk) -> ChunkResult:
    """Walk one chunk; it ends at its first violation."""
    adapter = _adapter(plan.target)
    result = ChunkResult(0, Tally.fresh())
    while result.steps < chunk.steps:
        steps = min(EPISODE_STEPS, chunk.steps - result.steps)
        seed = f"{plan.seed}/{chunk.settings.groups}/{chunk.number}/{result.steps}"
        failure = walk_episode(
            adapter,
            chunk.settings,
            seed,
            steps,
            result.tally,
            law_ids=plan.law_ids,
            deviations=plan.deviations,
        )
        result.steps += steps if failure is None else len(failure.actions)
        if failure is not None:
            result.failing = failure.config, failure.actions, seed
            break
    return result


def worth_showing(
    adapter: Any, plan: Plan, settings: Settings, config: Any, actions: tuple[Action, ...], seed: str
) -> Found:
    """The counterexample for an episode that failed in some process."""
    failure = replay(adapter, config, actions, law_ids=plan.law_ids, deviations=plan.deviations)
    if failure is None:
        raise SetupError(
            f"the violation that seed {seed} found does not show again on the same calls: "
            f"{plan.target} does not answer the same way twice, so nothing can be said about it"
        )
    shortest = shortest_failure(adapter, settings, failure, seed, plan.law_ids, plan.deviations)
    return Found.of(narrate(adapter, plan.target, plan.seed, shortest))


def _adapter(target: str) -> Adapter | SchedulerAdapter:
    """One adapter a process: a forked worker must not talk to its parent's child process."""
    return _adapter_of(os.getpid(), target)


@cache
def _adapter_of(_: int, target: str) -> Adapter | SchedulerAdapter:
    return load_target(target)


def settings_for(groups: Sequence[str], **fixed: Any) -> tuple[Settings, ...]:
    """One group setting each, with the same fixed values."""
    return tuple(Settings(groups=setting, **fixed) for setting in groups)

"""`slotproof replay` for the trace of a scheduler."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from slotproof.conformance.cli.words import count_of
from slotproof.conformance.counterexample import Counterexample, narrate_engine
from slotproof.conformance.errors import SetupError
from slotproof.conformance.replay import replay
from slotproof.conformance.scheduler_adapter import SchedulerAdapter
from slotproof.conformance.scheduler_trace import SchedulerTrace, is_trace, read_trace
from slotproof.conformance.subject import is_scheduler
from slotproof.conformance.targets.registry import load_target


@dataclass(slots=True)
class TraceReplayed:
    """How a trace came out."""

    trace: SchedulerTrace
    target: str
    version: str
    broken: Counterexample | None

    @property
    def holds(self) -> bool:
        """Whether no law was broken."""
        return self.broken is None


def is_trace_file(named: str) -> bool:
    """Whether a file is the trace of a scheduler."""
    path = Path(named)
    try:
        return path.is_file() and is_trace(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return False


def replay_trace(named: str, target: str | None) -> TraceReplayed:
    """Carry the trace out on the target, or on the one it names.

    Raises:
        SetupError: for a target that is no scheduler, or cannot be asked.
    """
    trace = read_trace(Path(named))
    name = target or (trace.violates or {}).get("target", "vllm-scheduler")
    adapter = load_target(name)
    if not is_scheduler(adapter):
        raise SetupError(f"{named} is the trace of a scheduler and {name} is none; name vllm-scheduler@/path/to/python")
    scheduler = cast(SchedulerAdapter, adapter)
    failure = replay(scheduler, trace.config, trace.actions)
    broken = None if failure is None else narrate_engine(scheduler, name, 0, failure)
    return TraceReplayed(trace, name, scheduler.profile.version, broken)


def trace_text(replayed: TraceReplayed) -> str:
    """What is wrong, or that nothing is."""
    due = (replayed.trace.violates or {}).get("law")
    if replayed.broken is None:
        held = f"the laws hold at each of the {count_of(len(replayed.trace.actions), 'action')}"
        if due is None:
            return f"On {replayed.target} {held}."
        return f"The violation no longer shows: {replayed.target} does not break {due}; {held}."
    *lines, _ = replayed.broken.text().splitlines()
    shows = due in replayed.broken.failure.violation.law_ids
    end = f"The violation still shows: {replayed.target} breaks {due}." if shows else f"{replayed.target} breaks a law."
    return "\n".join([*lines, "", end])


def trace_document(replayed: TraceReplayed) -> dict[str, Any]:
    """The fields of `--json`."""
    broken = replayed.broken
    return {
        "vector": replayed.trace.name,
        "target": replayed.target,
        "target_version": replayed.version,
        "verdict": "conforms" if replayed.holds else "violates",
        "violation": None if broken is None else {key: broken.as_json()[key] for key in ("law", "also", "objection")},
        "calls": [] if broken is None else list(broken.calls),
    }

"""The trace that `slotproof diff` shows for two policies: in lines, as JSON, as a page."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slotproof.conformance.cli.html import write_html
from slotproof.conformance.cli.words import count_of
from slotproof.conformance.errors import SetupError
from slotproof.conformance.policy_actions import action_of
from slotproof.conformance.policy_diff import Difference
from slotproof.conformance.policy_walk import Walked
from slotproof.conformance.scheduler_model import World
from slotproof.conformance.scheduler_search import Found
from slotproof.conformance.scheduler_words import trace_lines, turn_words
from slotproof.conformance.trace_page import page
from slotproof.spec.laws import BY_ID
from slotproof.spec.scheduler.policy import Policy


@contextmanager
def policy_errors(old: Policy, new: Policy, where: str) -> Iterator[None]:
    """What a function of a policy raises becomes the user's mistake, with its place.

    Raises:
        SetupError: when one raises.
    """
    try:
        yield
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}, line {frame.lineno}"
        raise SetupError(
            f"a function of policy {old.name!r} or {new.name!r} raised {type(error).__name__}{where} "
            f"({place}): {error}; repair it first"
        ) from error


def named_objection(trace: Found, wanted: str | None) -> tuple[str, str]:
    """The law to name, of all that object: the one a scenario is about, if it does."""
    asked = trace.objection_of(wanted) if wanted is not None else None
    return (wanted, asked) if wanted is not None and asked is not None else trace.objections[0]


def trace_text(result: Difference | Walked, wanted: str | None) -> list[str]:
    """The trace, and what is wrong at its end."""
    trace, world = result.trace, result.world
    assert trace is not None
    assert world is not None
    if not trace.objections:
        assert result.instead is not None
        head = f"OLD and NEW part in world {world.name}, after {count_of(len(trace.turns), 'turn')}"
        return [head, *trace_lines(world, trace), f"  OLD     {turn_words(result.instead)}"]
    law_id, objection = named_objection(trace, wanted)
    also = ", ".join(dict.fromkeys(other for other, _ in trace.objections if other != law_id))
    head = f"{law_id}{f' (and {also})' if also else ''} broken by {result.new.name}, kept by {result.old.name}"
    law = f"  law     {BY_ID[law_id].sentence}"
    return [head, *trace_lines(world, trace), law, f"  found   {objection}"]


def steps_of(trace: Found) -> str:
    """The length of a trace in words."""
    stem = trace.turns[: trace.repeats_from]
    words = f"{count_of(len(stem), 'turn')}, with {count_of(trace.num_steps, 'call')} of schedule"
    cycle = len(trace.turns) - len(stem)
    return f"{words}, then {count_of(cycle, 'turn')} for ever" if cycle else words


def trace_document(world: World, trace: Found) -> dict[str, Any]:
    """The trace in `--json`."""
    return {
        "world": world.name,
        "setup": [action.as_json() for action in world.setup],
        "actions": [action_of(turn.event).as_json() for turn in trace.turns],
        "turns": [turn_words(turn) for turn in trace.turns],
        "steps": trace.num_steps,
        "repeats_from": trace.repeats_from,
    }


def write_page(path: Path, result: Difference | Walked, wanted: str | None) -> Path | None:
    """The trace as a page; None if there is no trace.

    Raises:
        SetupError: when the file cannot be written.
    """
    if result.trace is None or result.world is None:
        return None
    found = named_objection(result.trace, wanted) if result.trace.objections else None
    return write_html(path, page(result.world, result.trace, found, f"{result.new.name}, against {result.old.name}"))

"""`slotproof diff OLD NEW --steps N` for two policies: random turns in worlds that no search exhausts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from slotproof.conformance.cli.diff_trace import policy_errors, steps_of, trace_document, trace_text, write_page
from slotproof.conformance.cli.output import new_console, print_json, print_text, progress_bar, warn
from slotproof.conformance.errors import SetupError
from slotproof.conformance.plan import Plan
from slotproof.conformance.policy_diff import Relation
from slotproof.conformance.policy_walk import WALKS, Walked, walk_diff
from slotproof.conformance.scheduler_words import world_lines
from slotproof.conformance.verify import settings_for
from slotproof.spec.scheduler.policy import Policy


def diff_walks(
    policies: tuple[Policy, Policy],
    groups: Sequence[str],
    seed: int,
    steps: int,
    seconds: float | None,
    html: Path | None,
    as_json: bool,
) -> int:
    """Walk, print what came of it, and return the exit code."""
    old, new = policies
    plan = Plan(new.name, settings_for(groups), seed=seed, steps=steps, seconds=seconds)
    with policy_errors(old, new, ""), progress_bar("comparing", WALKS * steps, None, "turns") as tell:
        walked = walk_diff(old, new, plan, tell)
    if walked.turns == 0:
        raise SetupError("nothing was compared: the time was up before the first turn; give more --seconds")
    page = write_page(html, walked, None) if html is not None else None
    if html is not None and page is None:
        warn(f"slotproof: there is no trace to show, so {html} was not written")
    if as_json:
        print_json(as_document(walked))
    else:
        print_walked(new_console(), walked, page)
    return 0 if walked.trace is None else 1


def print_walked(console: Console, walked: Walked, page: Path | None) -> None:
    """Who is compared, the trace if there is one, and the verdict."""
    print_text(console, f"OLD  {walked.old.name}\nNEW  {walked.new.name}\n")
    if walked.old_breaks:
        print_text(console, f"OLD breaks {', '.join(sorted(walked.old_breaks))}, so NEW is not held to that.\n")
    if walked.trace is not None:
        print_text(console, "\n".join(trace_text(walked, None)))
        print_text(console)
    if page is not None:
        print_text(console, f"Written: {page}")
    print_text(console, verdict(walked), "bold green" if walked.trace is None else "bold red")


def verdict(walked: Walked) -> str:
    """The last line."""
    done = f"{walked.turns:,} random turns"
    if walked.trace is None:
        words = "refines OLD: it admits less at times" if walked.relation == Relation.REFINES else "is equal to OLD"
        return f"NEW {words}, on {done}."
    if walked.relation == Relation.BREAKS:
        law_id = walked.trace.objections[0][0]
        return f"NEW breaks {law_id}, which OLD keeps on as many turns, found after {done}: {steps_of(walked.trace)}."
    return f"NEW is different from OLD and breaks no law that OLD keeps, found after {done}: {steps_of(walked.trace)}."


def as_document(walked: Walked) -> dict[str, Any]:
    """The fields of `--json`."""
    trace, world = walked.trace, walked.world
    law_id, objection = trace.objections[0] if trace is not None and trace.objections else (None, None)
    return {
        "old": walked.old.name,
        "new": walked.new.name,
        "relation": walked.relation.value,
        "turns": walked.turns,
        "seconds": walked.seconds,
        "old_breaks": sorted(walked.old_breaks),
        "law": law_id,
        "objection": objection,
        "trace": None
        if trace is None or world is None
        else {**trace_document(world, trace), "setting": world_lines(world)},
    }

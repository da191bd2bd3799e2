"""`slotproof diff` for two targets: equal on so many random actions, or the shortest trace that tells them apart."""

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from rich.console import Console

from slotproof.conformance.adapter import Strictness
from slotproof.conformance.cli.html import write_html
from slotproof.conformance.cli.output import (
    new_console,
    others_on_stderr,
    print_json,
    print_text,
    progress_bar,
    warn,
    write_whole,
)
from slotproof.conformance.cli.saving import replay_line
from slotproof.conformance.cli.words import count_of
from slotproof.conformance.errors import SetupError
from slotproof.conformance.pair import Pair
from slotproof.conformance.plan import Plan
from slotproof.conformance.target_diff import Compared, as_document, compare_targets, trace_of
from slotproof.conformance.targets.registry import TARGETS, load_target
from slotproof.conformance.verify import settings_for, unusable

DEFAULT_STEPS = 20_000
TRACE_FILE = "difference.json"


class Level(StrEnum):
    """How closely two targets are compared."""

    DECISIONS = "decisions"
    COUNTS = "counts"
    IDENTITY = "identity"


def names_target(name: str) -> bool:
    """Whether a name can only be that of a target."""
    return name.partition("=")[0] in TARGETS or "@" in name or name.startswith("exec:")


def diff_targets(
    old: str,
    new: str,
    level: Level | None,
    groups: Sequence[str],
    seed: int,
    steps: int,
    seconds: float | None,
    save: Path | None,
    html: Path | None,
    as_json: bool,
) -> int:
    """Compare, print what came of it, and return the exit code."""
    with others_on_stderr():
        compared = compared_under_a_bar(old, new, level, groups, seed, steps, seconds)
    written = write_trace(save, compared) if save is not None else None
    page = write_html(html, compared.parting.page) if html is not None and compared.parting is not None else None
    if html is not None and page is None:
        warn(f"slotproof: there is no trace to show, so {html} was not written")
    if as_json:
        print_json(as_document(compared))
    else:
        print_compared(new_console(), compared, written, page)
    return 0 if compared.parting is None else 1


def compared_under_a_bar(
    old: str, new: str, level: Level | None, groups: Sequence[str], seed: int, steps: int, seconds: float | None
) -> Compared:
    """The outcome of the walk over both.

    Raises:
        SetupError: when they cannot be asked the same, or no step was made.
    """
    pair = Pair(load_target(old), load_target(new), None if level is None else Strictness[level.name])
    settings = tuple(one for one in settings_for(groups) if unusable(pair.profile, one) is None)
    if not settings:
        raise SetupError(f"nothing to compare: {unusable(pair.profile, settings_for(groups)[0])}; name other --groups")
    plan = Plan(old, settings, seed=seed, steps=steps, seconds=seconds)
    with progress_bar(f"comparing {old} and {new}", steps, seconds) as tell:
        compared = compare_targets(pair, (old, new), plan, tell)
    if compared.steps == 0:
        raise SetupError("nothing was compared: the time was up before the first calls were made; give more --seconds")
    return compared


def print_compared(console: Console, compared: Compared, written: Path | None, page: Path | None) -> None:
    """Who is compared, the trace if there is one, and the verdict."""
    for name, side in (("OLD", compared.old), ("NEW", compared.new)):
        print_text(console, f"{name}  {side.target} {side.version}")
    print_text(console)
    if compared.parting is not None:
        print_text(console, "\n".join(compared.parting.lines()))
        if written is not None:
            for side in (compared.old, compared.new):
                print_text(console, f"  again   {replay_line(written, side.target)}")
        print_text(console)
    if page is not None:
        print_text(console, f"Written: {page}")
    print_text(console, verdict(compared), "bold green" if compared.parting is None else "bold red")


def verdict(compared: Compared) -> str:
    """The last line."""
    done, level = count_of(compared.steps, "action"), compared.level.name.lower()
    if compared.parting is None:
        return f"NEW is equal to OLD in all that was compared ({level}), on {done}."
    calls = count_of(len(compared.parting.calls), "action")
    return f"NEW is different from OLD in its {compared.parting.part} ({level}), found after {done}: {calls}."


def write_trace(folder: Path, compared: Compared) -> Path | None:
    """The trace as a file that `slotproof replay` takes; None if there is no trace.

    Raises:
        SetupError: when it cannot be written.
    """
    if compared.parting is None:
        return None
    path = folder / TRACE_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(trace_of(compared.parting).as_json(), indent=2) + "\n")
    except OSError as error:
        raise SetupError(f"{path} cannot be written: {error.strerror}; name another folder with --save") from error
    return path

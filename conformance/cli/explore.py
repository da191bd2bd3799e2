"""`slotproof explore`: every small world."""

import json
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer

from slotproof.conformance.cli.html import Html, write_html
from slotproof.conformance.cli.options import AsJson
from slotproof.conformance.cli.output import (
    new_console,
    new_table,
    others_on_stderr,
    print_json,
    print_text,
    progress_bar,
    warn,
)
from slotproof.conformance.cli.saving import Saved, save_examples, text_of, usable_folder
from slotproof.conformance.cli.verify import Switch
from slotproof.conformance.cli.words import count_of
from slotproof.conformance.counterexample import config_words
from slotproof.conformance.errors import SetupError
from slotproof.conformance.explore import Explored, explore
from slotproof.conformance.report import Found
from slotproof.conformance.scope import Scope, make_scope, small_worlds
from slotproof.conformance.target_page import target_page
from slotproof.conformance.targets.registry import load_allocator
from slotproof.conformance.vector import config_as_json, parse_vector
from slotproof.spec.config import FreeOrder

NAME = "explore"
EXAMPLE = "Example: slotproof explore --blocks 6 --requests 3 --tokens 4 --replay impl"


class Extra(StrEnum):
    """What else can happen."""

    EVICT = "evict"
    RESET = "reset"
    LOAD = "load"
    DEFER = "defer"


WORLD = "The world (any of these explores that world alone)"
LIMITS = "How, and how far"

Replay = Annotated[
    str | None,
    typer.Option(
        metavar="TARGET",
        help="Also make every call on this target, and compare. As for verify.",
        rich_help_panel=LIMITS,
    ),
]
Blocks = Annotated[
    int | None,
    typer.Option(min=2, help="Blocks of the pool, the null block included.", show_default="5", rich_help_panel=WORLD),
]
Requests = Annotated[
    int | None,
    typer.Option(min=1, max=8, help="Requests that live at a time.", show_default="2", rich_help_panel=WORLD),
]
Tokens = Annotated[
    int | None,
    typer.Option(min=1, help="Most finalized tokens of a request.", show_default="4", rich_help_panel=WORLD),
]
Prompt = Annotated[
    int | None,
    typer.Option(min=1, help="Tokens of a prompt.", show_default="one fewer than --tokens", rich_help_panel=WORLD),
]
BlockSize = Annotated[int | None, typer.Option(min=1, help="Tokens a block.", show_default="2", rich_help_panel=WORLD)]
Step = Annotated[
    int | None, typer.Option(min=1, help="Most new tokens a call.", show_default="2", rich_help_panel=WORLD)
]
Lookahead = Annotated[
    int | None, typer.Option(min=0, help="Most lookahead tokens a call.", show_default="1", rich_help_panel=WORLD)
]
Drafts = Annotated[
    int | None, typer.Option(min=0, help="Most draft tokens a call.", show_default="1", rich_help_panel=WORLD)
]
Groups = Annotated[
    str | None,
    typer.Option(
        metavar="KINDS",
        help="KV cache groups, as in full,window:3, or partial: full attention with hits that end inside a block.",
        show_default="full",
        rich_help_panel=WORLD,
    ),
]
Window = Annotated[
    int | None, typer.Option(help="The same as --groups window:TOKENS.", metavar="TOKENS", rich_help_panel=WORLD)
]
Watermark = Annotated[
    int | None, typer.Option(min=0, help="Watermark in blocks.", show_default="0", rich_help_panel=WORLD)
]
Reserved = Annotated[
    int | None, typer.Option(min=0, help="Most reserved blocks of a call.", show_default="0", rich_help_panel=WORLD)
]
Order = Annotated[
    FreeOrder | None,
    typer.Option(help="How freed blocks are queued.", show_default="unhashed-first", rich_help_panel=WORLD),
]
Caching = Annotated[Switch | None, typer.Option(help="Prefix caching.", show_default="on", rich_help_panel=WORLD)]
Whole = Annotated[
    bool, typer.Option("--whole", help="Admissions may also ask for the whole prompt.", rich_help_panel=WORLD)
]
InFlight = Annotated[
    bool, typer.Option("--in-flight", help="Steps stay in flight while other calls come.", rich_help_panel=WORLD)
]
With = Annotated[
    list[Extra] | None,
    typer.Option("--with", help="What else can happen; repeat it for several.", rich_help_panel=WORLD),
]
NoRenaming = Annotated[
    bool,
    typer.Option("--no-renaming", help="Count worlds that differ by names as different.", rich_help_panel=LIMITS),
]
States = Annotated[int | None, typer.Option(min=1, help="Stop a world at so many states.", rich_help_panel=LIMITS)]
Seconds = Annotated[float | None, typer.Option(min=0.1, help="Stop after about so long.", rich_help_panel=LIMITS)]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes.", show_default="one a core", rich_help_panel=LIMITS)
]
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write counterexample.json and test_counterexample.py there if a law is broken.",
        show_default="counterexample.json in the current directory; nothing with --json",
        rich_help_panel=LIMITS,
    ),
]


def command(
    replay: Replay = None,
    blocks: Blocks = None,
    requests: Requests = None,
    tokens: Tokens = None,
    prompt: Prompt = None,
    block_size: BlockSize = None,
    step: Step = None,
    lookahead: Lookahead = None,
    drafts: Drafts = None,
    groups: Groups = None,
    window: Window = None,
    watermark: Watermark = None,
    reserved: Reserved = None,
    free_order: Order = None,
    caching: Caching = None,
    whole: Whole = False,
    in_flight: InFlight = False,
    extras: With = None,
    no_renaming: NoRenaming = False,
    states: States = None,
    seconds: Seconds = None,
    workers: Workers = None,
    as_json: AsJson = False,
    save: Save = None,
    html: Html = None,
) -> None:
    """Visit every world of a few blocks and requests, and hold the specification to every law at each call.

    Without options about the world, the small worlds that CI explores, one after the other.

    Exit code 0: exhausted, no law broken. 1: a law is broken. 3: stopped before the end. 2: nothing was explored.
    """
    if window is not None and groups is not None:
        raise SetupError("--window and --groups both say what the groups are; give one of them")
    world: dict[str, Any] = {
        "blocks": blocks,
        "requests": requests,
        "tokens": tokens,
        "prompt": prompt,
        "block_size": block_size,
        "step": step,
        "lookahead": lookahead,
        "drafts": drafts,
        "groups": f"window:{window}" if window is not None else groups,
        "watermark": watermark,
        "reserved": reserved,
        "free_order": free_order,
        "caching": None if caching is None else caching == Switch.ON,
        "whole": whole or None,
        "in_flight": in_flight or None,
        "extras": [extra.value for extra in extras] if extras else None,
    }
    said = {name: value for name, value in world.items() if value is not None}
    scopes = (make_scope(**said),) if said else tuple(small_worlds().values())
    folder = usable_folder(save) if save is not None else None
    run = Run(scopes, replay, not no_renaming, workers, states, seconds)
    explored = run.explored()
    found = [one.found for one in explored if one.found is not None]
    saved = save_examples(found, folder or Path(), with_tests=save is not None) if not as_json or save else Saved()
    page = write_page(html, found, run.target or "reference") if html is not None else None
    if as_json:
        print_json(document(run, explored))
    else:
        print_explored(run, explored, saved, page)
    raise typer.Exit(exit_code(explored))


def write_page(path: Path, found: list[Found], target: str) -> Path | None:
    """The first counterexample as a page; None if there is none."""
    if not found:
        warn(f"slotproof: there is no trace to show, so {path} was not written")
        return None
    vector = parse_vector(json.dumps(found[0].fields["replay"]), "the counterexample")
    with others_on_stderr():
        text = target_page(load_allocator(target), target, vector.config, [step.action for step in vector.steps])
    return write_html(path, text)


@dataclass(slots=True)
class Run:
    """What is explored, and how."""

    scopes: tuple[Scope, ...]
    target: str | None
    renaming: bool
    workers: int | None
    max_states: int | None
    seconds: float | None
    spent: float = 0.0

    @property
    def subject(self) -> str:
        """Whose worlds they are."""
        return self.target or "the specification"

    def explored(self) -> list[Explored]:
        """Explore every scope, under a progress bar."""
        explored: list[Explored] = []
        started = monotonic()
        goal = self.max_states or UNKNOWN
        with others_on_stderr(), progress_bar(f"exploring {self.subject}", goal, self.seconds, "states") as tell:
            results = explore(
                self.scopes,
                self.target,
                renaming=self.renaming,
                workers=self.workers,
                max_states=self.max_states,
                seconds=self.seconds,
                on_progress=lambda progress: tell(sum(one.states for one in explored) + progress.states),
            )
            for one in results:
                explored.append(one)
                tell(sum(one.states for one in explored), len(explored) / len(self.scopes))
        self.spent = monotonic() - started
        return explored


UNKNOWN = 10**6
"""States that a bar stands for when nobody knows how many there are."""


def exit_code(explored: list[Explored]) -> int:
    """1 if a law is broken, 3 if something was left out, 0 else."""
    if any(one.found for one in explored):
        return 1
    return 0 if all(one.exhausted for one in explored) else 3


def document(run: Run, explored: list[Explored]) -> dict[str, Any]:
    """The fields of `--json`."""
    return {
        "target": run.target,
        "states": sum(one.states for one in explored),
        "transitions": sum(one.transitions for one in explored),
        "depth": max(one.depth for one in explored),
        "exhausted": all(one.exhausted for one in explored),
        "seconds": run.spent,
        "peak_mib": max(one.peak_mib for one in explored),
        "violations": [one.found.fields for one in explored if one.found is not None],
        "worlds": [
            {
                "config": config_as_json(one.scope.config),
                "world": str(one.scope),
                "states": one.states,
                "transitions": one.transitions,
                "depth": one.depth,
                "exhausted": one.exhausted,
                "seconds": one.seconds,
            }
            for one in explored
        ],
    }


def print_explored(run: Run, explored: list[Explored], saved: Saved, page: Path | None) -> None:
    """One row a world, what broke a law, and the verdict."""
    console = new_console()
    table = new_table("world", "states", "transitions", "depth", "s", right=("states", "transitions", "depth", "s"))
    for config, worlds in groupby(explored, key=lambda one: config_words(one.scope.config)):
        table.add_row(config)
        for one in worlds:
            states = f"{one.states:,}" + ("" if one.exhausted else " and more")
            table.add_row(f"  {one.scope}", states, f"{one.transitions:,}", str(one.depth), f"{one.seconds:.1f}")
    console.print(table)
    found = [one.found for one in explored if one.found is not None]
    for example, path in zip(found, saved.vectors, strict=True):
        print_text(console, f"\n{text_of(example, run.target or 'reference', path)}")
    written = [*(path for path in saved.vectors if path is not None), *saved.tests, *([page] if page else [])]
    if written:
        print_text(console, f"\nWritten: {', '.join(map(str, written))}")
    style = {0: "bold green", 1: "bold red", 3: "bold yellow"}[exit_code(explored)]
    print_text(console, f"\n{verdict(run, explored)}", style)


def verdict(run: Run, explored: list[Explored]) -> str:
    """The last line."""
    states, transitions = sum(one.states for one in explored), sum(one.transitions for one in explored)
    pace = f"{run.spent:.1f} s, {states / max(run.spent, 1e-9):,.0f} states/s"
    done = f"{count_of(states, 'state')}, {count_of(transitions, 'transition')} in {pace}, {peak(explored)}"
    broken = list(dict.fromkeys(one.found.law_id for one in explored if one.found is not None))
    if broken:
        return f"{run.subject} breaks {', '.join(broken)}: {done}."
    if exit_code(explored):
        return f"Not exhausted, no law broken so far by {run.subject}: {done}."
    agreed = " and answers as the specification does" if run.target else ""
    return f"Exhausted: {run.subject} keeps every law{agreed}: {done}."


def peak(explored: list[Explored]) -> str:
    """The most memory taken."""
    return f"at most {max(one.peak_mib for one in explored):,} MiB a process"

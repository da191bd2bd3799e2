"""`slotproof diff`: two policies, or two targets: equal, one refining the other, or the shortest trace between them."""

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

from slotproof.conformance.cli.diff_targets import DEFAULT_STEPS, Level, diff_targets, names_target
from slotproof.conformance.cli.diff_trace import (
    named_objection,
    policy_errors,
    steps_of,
    trace_document,
    trace_text,
    write_page,
)
from slotproof.conformance.cli.diff_walk import diff_walks
from slotproof.conformance.cli.html import Html
from slotproof.conformance.cli.options import AsJson
from slotproof.conformance.cli.output import (
    new_console,
    new_table,
    print_json,
    print_text,
    progress_bar,
    warn,
)
from slotproof.conformance.cli.words import count_of
from slotproof.conformance.errors import SetupError
from slotproof.conformance.policy_diff import Difference, Relation, diff
from slotproof.conformance.scenarios import Scenario, scenarios
from slotproof.conformance.scheduler_model import World
from slotproof.conformance.scheduler_worlds import WORLDS
from slotproof.conformance.settings import DEFAULT_GROUPS
from slotproof.spec.scheduler.policy import SHIPPED, Policy

NAME = "diff"
EXAMPLE = (
    "Examples: slotproof diff --scenario S3, slotproof diff fcfs my_module:NEW, "
    "slotproof diff vllm@/old/python vllm@/new/python"
)
NOT_EXHAUSTED = 3

EITHER = f"A policy ({', '.join(SHIPPED)}, or module:policy), or a target as for verify."

POLICIES = "Of two policies"
TARGETS = "Of two targets"
RANDOM = "Of two targets, or of two policies with --steps"

Old = Annotated[str | None, typer.Argument(metavar="[OLD]", help=EITHER, show_default="with --scenario: its own")]
New = Annotated[str | None, typer.Argument(metavar="[NEW]", help=EITHER, show_default="with --scenario: its own")]
WorldNames = Annotated[
    list[str] | None,
    typer.Option(
        "--world",
        metavar="WORLD",
        help=f"Compare in this world only: {', '.join(WORLDS)}, or module:world. May be repeated.",
        show_default="all that are shipped",
        rich_help_panel=POLICIES,
    ),
]
ScenarioId = Annotated[
    str | None,
    typer.Option(
        "--scenario", metavar="ID", help="A shipped change, S1 to S9; `list` shows them.", rich_help_panel=POLICIES
    ),
]
Closeness = Annotated[
    Level | None,
    typer.Option(
        help="What is compared: who is admitted and what is told, also how many blocks it takes, or also which.",
        show_default="identity for two versions of one target, else as closely as both follow the specification",
        rich_help_panel=TARGETS,
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KINDS",
        help="KV cache groups, as in full,window:32; repeat it to compare with several settings.",
        show_default="full, window and full,window",
        rich_help_panel=RANDOM,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(help="The same seed and steps make the same actions.", show_default="0", rich_help_panel=RANDOM),
]
Steps = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="How many random actions, or turns.",
        show_default=f"{DEFAULT_STEPS}; of policies, none",
        rich_help_panel=RANDOM,
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write the trace there as difference.json.", rich_help_panel=TARGETS),
]
Seconds = Annotated[float | None, typer.Option(min=0.1, help="Stop each search, or the walk, after so long.")]


def command(
    old: Old = None,
    new: New = None,
    scenario: ScenarioId = None,
    world: WorldNames = None,
    html: Html = None,
    strictness: Closeness = None,
    groups: Groups = None,
    seed: Seed = None,
    steps: Steps = None,
    seconds: Seconds = None,
    save: Save = None,
    as_json: AsJson = False,
) -> None:
    """Compare two scheduling policies in every state of small worlds, or two targets on random actions.

    With --steps policies are compared on random turns, in worlds too large to be searched. Targets are allocators or
    whole schedulers, each perhaps in an environment of its own: both do the same, and the first difference is shrunk.

    Exit code 0: NEW is equal, or refines OLD (it admits less at times and never does anything else). 1: the shortest
    trace breaks a law that OLD keeps, or tells the two apart. 3: the time was up first. 2: it could not be asked.
    """
    if old is not None and new is not None and (is_target(old) or is_target(new)):
        refuse("two targets", {"--world": world, "--scenario": scenario})
        require_two_targets(old, new)
        walk = groups or DEFAULT_GROUPS, seed or 0, steps or DEFAULT_STEPS, seconds
        raise typer.Exit(diff_targets(old, new, strictness, *walk, save, html, as_json))
    refuse("two policies", {"--strictness": strictness, "--save": save})
    if steps is not None:
        refuse("random turns", {"--world": world, "--scenario": scenario})
        turns = groups or DEFAULT_GROUPS, seed or 0, steps, seconds
        raise typer.Exit(diff_walks(two_policies(old, new), *turns, html, as_json))
    refuse("a search of every state; random turns are asked for with --steps", {"--groups": groups, "--seed": seed})
    if scenario == "list":
        list_scenarios(new_console(), as_json)
        return
    chosen = find_scenario(scenario) if scenario is not None else None
    old_policy, new_policy, worlds = what_to_compare(old, new, world, chosen)
    results = compare_in(worlds, old_policy, new_policy, seconds)
    wanted = chosen.law_id if chosen is not None else None
    written = write_page(html, decisive(results), wanted) if html is not None else None
    if html is not None and written is None:
        warn(f"slotproof: there is no trace to show, so {html} was not written")
    if as_json:
        print_json(as_document(results, wanted))
    else:
        print_results(new_console(), results, chosen, written)
    raise typer.Exit(exit_code(results))


def compare_in(worlds: list[World], old: Policy, new: Policy, seconds: float | None) -> list[Difference]:
    """The worlds in order, up to the first in which a law is broken."""
    results: list[Difference] = []
    with progress_bar("comparing", len(worlds), None, "worlds") as tell:
        for world in worlds:
            results.append(diff_in(world, old, new, seconds))
            tell(len(results))
            if results[-1].relation == Relation.BREAKS:
                break
    return results


def diff_in(world: World, old: Policy, new: Policy, seconds: float | None) -> Difference:
    """One world.

    Raises:
        SetupError: when a function of a policy raises.
    """
    with policy_errors(old, new, f" in world {world.name}"):
        return diff(old, new, world, seconds=seconds)


def what_to_compare(
    old: str | None, new: str | None, worlds: list[str] | None, chosen: Scenario | None
) -> tuple[Policy, Policy, list[World]]:
    """The policies and worlds that the arguments mean.

    Raises:
        SetupError: when one is missing, unknown, or given twice.
    """
    if chosen is not None:
        if old is not None:
            raise SetupError(f"--scenario {chosen.id} brings its two policies; leave OLD and NEW out")
        places = [find_world(name) for name in worlds] if worlds else [chosen.world]
        return chosen.old, chosen.new, places
    policies = two_policies(old, new)
    return *policies, [find_world(name) for name in worlds] if worlds else list(WORLDS.values())


def two_policies(old: str | None, new: str | None) -> tuple[Policy, Policy]:
    """OLD and NEW.

    Raises:
        SetupError: when one is missing or unknown.
    """
    if old is None or new is None:
        raise SetupError("name two policies, OLD and NEW, or a shipped change with --scenario S1 to S9")
    return find_policy(old), find_policy(new)


def is_target(name: str) -> bool:
    """Whether OLD or NEW means a target, not a policy."""
    if name in SHIPPED:
        return False
    if names_target(name):
        return True
    value = attribute_of(name) if ":" in name else None
    return callable(value) and not isinstance(value, Policy)


def require_two_targets(*names: str) -> None:
    """Both are targets.

    Raises:
        SetupError: when one is a policy.
    """
    for name in names:
        if name in SHIPPED or (":" in name and not names_target(name) and isinstance(attribute_of(name), Policy)):
            other = next(other for other in names if other != name)
            raise SetupError(f"{name} is a policy and {other} a target; compare two of a kind")


def refuse(what: str, options: Mapping[str, object]) -> None:
    """No option is given that means nothing here.

    Raises:
        SetupError: naming one.
    """
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise SetupError(f"{given[0]} means nothing for {what}; leave it out")


def attribute_of(name: str) -> object:
    """What `module:attribute` names, None if it cannot be had."""
    module_name, _, attribute = name.partition(":")
    try:
        return getattr(module_of(module_name), attribute, None)
    except Exception:
        return None


def module_of(name: str) -> Any:
    """The module of that name; the current folder is importable."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)


def find_scenario(name: str) -> Scenario:
    """The shipped scenario of this id.

    Raises:
        SetupError: when there is none.
    """
    found = scenarios().get(name.upper())
    if found is None:
        raise SetupError(f"there is no scenario {name!r}; the scenarios are {', '.join(scenarios())}")
    return found


def find_policy(name: str) -> Policy:
    """A shipped policy, or one of the user's.

    Raises:
        SetupError: when there is none.
    """
    if name in SHIPPED:
        return SHIPPED[name]
    return named(name, Policy, f"policy {name!r}", f"use {', '.join(SHIPPED)}, or module:policy")


def find_world(name: str) -> World:
    """A shipped world, or one of the user's.

    Raises:
        SetupError: when there is none.
    """
    if name in WORLDS:
        return WORLDS[name]
    return named(name, World, f"world {name!r}", f"use {', '.join(WORLDS)}, or module:world")


Value = TypeVar("Value")


def named(name: str, kind: type[Value], what: str, remedy: str) -> Value:
    """The value of a user's module."""
    module_name, colon, attribute = name.partition(":")
    if not colon:
        raise SetupError(f"there is no {what}; {remedy}")
    try:
        module = module_of(module_name)
    except Exception as error:
        raise SetupError(f"the module of {what} cannot be imported: {type(error).__name__}: {error}") from error
    value = getattr(module, attribute, None)
    if not isinstance(value, kind):
        raise SetupError(f"{what} is a {type(value).__name__}, not a {kind.__name__} of slotproof; {remedy}")
    return value


WORST_FIRST = (Relation.BREAKS, Relation.DIFFERENT, Relation.UNKNOWN, Relation.REFINES, Relation.EQUAL)


def decisive(results: list[Difference]) -> Difference:
    """The world that decides: the first in which a law is broken, else in which the two differ, and so on."""
    return min(results, key=lambda result: WORST_FIRST.index(result.relation))


def exit_code(results: list[Difference]) -> int:
    """0 equal or refines, 1 a trace, 3 not exhausted."""
    result = decisive(results)
    if result.trace is not None:
        return 1
    return 0 if result.is_fine else NOT_EXHAUSTED


# Output.


def print_results(console: Console, results: list[Difference], chosen: Scenario | None, page_at: Path | None) -> None:
    """What was searched, the trace if there is one, and the verdict."""
    last = decisive(results)
    if chosen is not None:
        print_text(console, f"{chosen.id}. {chosen.title}\n  {chosen.property}\n")
    print_text(console, f"OLD  {last.old.name}\nNEW  {last.new.name}\n")
    console.print(worlds_table(results))
    print_text(console)
    if last.trace is not None:
        print_text(console, "\n".join(trace_text(last, chosen.law_id if chosen is not None else None)))
        print_text(console)
    if page_at is not None:
        print_text(console, f"Written: {page_at}")
    print_text(console, verdict(results, chosen.law_id if chosen is not None else None))


def worlds_table(results: list[Difference]) -> Any:
    """One row a world."""
    table = new_table("world", "states", "turns", "depth", "NEW is", "OLD breaks", right=("states", "turns", "depth"))
    for result in results:
        explored = result.new_explored
        counts = f"{explored.states:,}", f"{explored.transitions:,}", str(explored.depth)
        broken = ", ".join(sorted(result.old_explored.broken)) or "nothing"
        table.add_row(result.world.name, *counts, result.relation.value, broken)
    return table


def verdict(results: list[Difference], wanted: str | None) -> str:
    """The last line."""
    last, trace = decisive(results), decisive(results).trace
    states = sum(result.new_explored.states for result in results)
    if last.relation == Relation.BREAKS:
        assert trace is not None
        return f"NEW breaks {named_objection(trace, wanted)[0]}, which OLD keeps: {steps_of(trace)}."
    if last.relation == Relation.DIFFERENT:
        assert trace is not None
        return f"NEW is different from OLD and breaks no law that OLD keeps: {steps_of(trace)}."
    if last.relation == Relation.UNKNOWN:
        return f"Not exhausted: no difference in the {states:,} states searched; give it more --seconds."
    words = "refines OLD: it admits less at times" if last.relation == Relation.REFINES else "is equal to OLD"
    return f"NEW {words}, in all {states:,} states of {count_of(len(results), 'world')}."


def as_document(results: list[Difference], wanted: str | None) -> dict[str, Any]:
    """The fields of `--json`."""
    last, trace = decisive(results), decisive(results).trace
    law_id, objection = named_objection(trace, wanted) if trace is not None and trace.objections else (None, None)
    return {
        "old": last.old.name,
        "new": last.new.name,
        "relation": last.relation.value,
        "worlds": [
            {
                "name": result.world.name,
                "relation": result.relation.value,
                "states": result.new_explored.states,
                "transitions": result.new_explored.transitions,
                "exhausted": result.new_explored.exhausted,
                "seconds": result.new_explored.seconds,
                "old_breaks": sorted(result.old_explored.broken),
            }
            for result in results
        ],
        "law": law_id,
        "objection": objection,
        "trace": None if trace is None else trace_document(last.world, trace),
    }


def list_scenarios(console: Console, as_json: bool) -> None:
    """The shipped changes."""
    if as_json:
        rows = [{"id": one.id, "title": one.title, "law": one.law_id} for one in scenarios().values()]
        print_json({"scenarios": rows})
        return
    table = new_table("id", "change", "law")
    for one in scenarios().values():
        table.add_row(one.id, one.title, one.law_id)
    console.print(table)

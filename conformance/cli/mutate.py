"""`slotproof mutate`: whether theorems and laws notice small changes of the specification."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from slotproof.conformance.cli.needs import needs_the_proofs
from slotproof.conformance.cli.options import AsJson
from slotproof.conformance.cli.output import (
    new_console,
    new_table,
    others_on_stderr,
    print_json,
    print_text,
    progress_bar,
)
from slotproof.conformance.cli.words import count_of
from slotproof.conformance.driver import EPISODE_STEPS, walk_episode
from slotproof.conformance.errors import SetupError
from slotproof.conformance.session import Tally
from slotproof.conformance.settings import DEFAULT_GROUPS, Settings
from slotproof.conformance.targets.registry import load_allocator
from slotproof.conformance.violation import Violation
from slotproof.spec.config import FreeOrder

NAME = "mutate"
EXAMPLE = "Example: slotproof mutate spec --only admission.watermark_for"

GROUPS = (*DEFAULT_GROUPS, "window,window")
"""Two windows agree on a hit only after several rounds."""

CACHING = (True, True, False)
"""How often each setting is walked with prefix caching on and off."""

COLUMNS = ("mutants", "theorems", "laws", "crash", "timeout", "equivalent", "survived")

What = Annotated[str, typer.Argument(metavar="WHAT", help="What to change: spec, the specification.")]
Only = Annotated[str, typer.Option(metavar="TEXT", help="Only mutants whose id contains this.", show_default="all")]
AllKillers = Annotated[
    bool, typer.Option("--all-killers", help="Gather all that notices a mutant, not only the first; takes longer.")
]

Record = Annotated[
    Path | None, typer.Option(metavar="FILE", help="With --all-killers, write who notices what to this file.")
]


def command(
    what: What, only: Only = "", all_killers: AllKillers = False, record: Record = None, as_json: AsJson = False
) -> None:
    """Change the specification in every small way, and show which change neither theorems nor laws notice.

    Exit code 0: every change is noticed or known to change nothing. 1: one survives. 2: nothing was tried.
    """
    if what != "spec":
        raise SetupError(f"{what!r} cannot be mutated; use spec, the specification")
    if record is not None and not all_killers:
        raise SetupError("--record keeps all that notices a mutant; ask for that with --all-killers")
    runner = load_runner()
    report = run(runner, only, all_killers)
    if record is not None:
        record.write_text(json.dumps(runner.record_json(report), indent=1) + "\n", encoding="utf-8")
    if as_json:
        print_json(runner.report_json(report))
    else:
        print_report(new_console(), runner, report)
    raise typer.Exit(0 if report.succeeded else 1)


def load_runner() -> Any:
    """The mutants and what tries them."""
    with needs_the_proofs():
        from slotproof.proofs import mutate
    return mutate


def run(runner: Any, only: str, all_killers: bool) -> Any:
    """Try the mutants under a progress bar.

    Raises:
        SetupError: when no mutant is meant, or the specification is not proved as it is.
    """
    number = len(runner.mutants_named(only))
    if number == 0:
        raise SetupError(
            f"there is no mutant whose id contains {only!r}; an id is for example keys.block_key:1 arithmetic"
        )
    try:
        with others_on_stderr(), progress_bar("mutating the specification", number, None) as tell:
            return runner.run(partial(kills_by_laws, runner), only=only, exhaustive=all_killers, on_done=tell)
    except runner.NotProved as error:
        raise SetupError(str(error)) from error


def kills_by_laws(runner: Any) -> Iterator[Any]:
    """A short seeded walk of the specification behind the adapter, as it is now; every law that objects is a kill."""
    adapter, tally = load_allocator("reference"), Tally.fresh()
    for number, settings in enumerate(walks()):
        try:
            failure = walk_episode(adapter, settings, f"mutate/{number}", EPISODE_STEPS, tally)
        except Exception as error:
            yield runner.Kill(runner.Verdict.CRASH, *crash(error))
            continue
        if failure is not None:
            yield from kills_by_violation(runner, failure.violation)


def walks() -> tuple[Settings, ...]:
    """The settings in turn, so that each is met early."""
    return tuple(
        Settings(groups, caching=caching, free_order=order)
        for caching in CACHING
        for order in FreeOrder
        for groups in GROUPS
    )


def kills_by_violation(runner: Any, violation: Violation) -> Iterator[Any]:
    """One kill a law that objects; an exception that the suite books on a law's account is still a crash."""
    if violation.__cause__ is not None:
        yield runner.Kill(runner.Verdict.CRASH, *crash(violation.__cause__))
        return
    objections = ((violation.law_id, violation.objection), *violation.others)
    for law_id, objection in objections:
        yield runner.Kill(runner.Verdict.VIOLATED, runner.SECOND.killer, law_id, objection)


def crash(error: BaseException) -> tuple[str, str, str]:
    """Killer, law and words for an exception of the specification in the walk."""
    return "run-time laws", "", f"{type(error).__name__}: {error}"


def print_report(console: Console, runner: Any, report: Any) -> None:
    """The counts, what survives, what is listed wrongly, and the line that sums it up."""
    for name, part in (("kind", lambda mutant: mutant.kind), ("module", lambda mutant: mutant.module)):
        table = new_table(name, *COLUMNS, right=COLUMNS)
        for row, counts in sorted(runner.counts_by(report, part).items()):
            table.add_row(row, *map(str, numbers(runner, counts)))
        console.print(table)
        console.print()
    if report.survivors:
        table = new_table("survivor", "change")
        for result in report.survivors:
            table.add_row(result.mutant.id, result.mutant.change)
        console.print(table)
        console.print()
    for line in report.stale:
        print_text(console, f"{line}; correct equivalents.json.")
    if report.exhaustive:
        print_only_killers(console, report)
    print_text(console, summary(runner, report), "bold green" if report.succeeded else "bold red")


def numbers(runner: Any, counts: Counter[Any]) -> list[int]:
    """The columns of one row."""
    verdict = runner.Verdict
    groups = (
        runner.BY_PROOFS,
        (verdict.VIOLATED,),
        (verdict.CRASH,),
        (verdict.TIMEOUT,),
        runner.EQUIVALENT,
        (verdict.SURVIVED,),
    )
    return [counts.total(), *(sum(counts[one] for one in group) for group in groups)]


def print_only_killers(console: Console, report: Any) -> None:
    """How many mutants only one law notices."""
    table = new_table("law", "mutants that only it notices", right=("mutants that only it notices",))
    for law, mutants in report.only_killer().items():
        table.add_row(law, str(len(mutants)))
    console.print(table)
    console.print()


def summary(runner: Any, report: Any) -> str:
    """The last line."""
    verdict, number = runner.Verdict, report.number
    by_proofs, total = number(*runner.BY_PROOFS), len(report.results)
    return (
        f"{count_of(total, 'mutant')}: {by_proofs} killed by theorems ({by_proofs / total:.0%}), "
        f"{number(verdict.VIOLATED)} by run-time laws, {number(verdict.CRASH)} by a crash, "
        f"{number(verdict.TIMEOUT)} by timeout; {number(verdict.PROVED_EQUIVALENT)} proved equivalent, "
        f"{number(verdict.LISTED_EQUIVALENT)} listed equivalent; {count_of(len(report.survivors), 'survivor')}; "
        f"{report.seconds:.0f} s."
    )

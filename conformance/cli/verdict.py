"""A report for people: what was checked, what was reached, what is known to differ, what is broken."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from slotproof.conformance.cli.output import new_table, print_text
from slotproof.conformance.cli.saving import Saved, text_of
from slotproof.conformance.cli.words import count_of
from slotproof.conformance.reach import Boundary
from slotproof.conformance.report import Report, law_rows, reach_rows, report_json
from slotproof.conformance.scheduler_reach import MODES, POLICIES
from slotproof.spec.preconditions import PRECONDITIONS

REACHED_OFTEN = 100
"""A situation met fewer times has hardly been tested."""

REACH_TITLE = """
How often each situation of allocate_slots was met. Across: lookahead 0 or > 0; and the last slot is inside the block
in which the new tokens start, fills it, or lies beyond it."""

STATUS_STYLE = {"held": "green", "violated": "bold red", "skipped": "dim", "shown": "yellow", "stale": "bold red"}
COLUMNS = 2 * len(Boundary)


def print_report(console: Console, report: Report, saved: Saved) -> None:
    """Everything but the last line."""
    plan, profile = report.plan, report.profile
    groups = "; ".join(settings.groups for settings in plan.settings)
    strictness = profile.strictness.name.lower()
    print_text(console, f"{profile.name} {profile.version}, held to {strictness}; groups {groups}; seed {plan.seed}\n")
    console.print(law_table(report))
    print_reach(console, report)
    if plan.deviations:
        console.print(deviation_table(report))
        print_text(console)
    for groups, reason in report.skipped_settings:
        print_text(console, f"Groups {groups} skipped: {reason}.")
    for note in profile.notes:
        print_text(console, f"Note: {note}")
    print_counterexamples(console, report, saved)


def law_table(report: Report) -> Table:
    """One row a law, of those asked for."""
    table = new_table("law", "checks", "status", "reason", right=("checks",))
    wanted = report.plan.law_ids
    for row in (row for row in law_rows(report) if not wanted or row["id"] in wanted):
        table.add_row(row["id"], f"{row['checks']:,}", _status(row["status"]), row["reason"])
    return table


def _status(status: str) -> Text:
    return Text(status, style=STATUS_STYLE[status])


def print_reach(console: Console, report: Report) -> None:
    """The situations of allocate_slots, how often each was met, and why not the rest."""
    rows = reach_rows(report)
    if report.of_scheduler:
        print_situations(console, rows)
        return
    marks = _marks(rows)
    print_text(console, REACH_TITLE)
    console.print(reach_table(rows, marks))
    for reason, mark in marks.items():
        meaning = f": {PRECONDITIONS[reason]}" if reason in PRECONDITIONS else ""
        print_text(console, f"  {mark}  excluded by {reason}{meaning}" if meaning else f"  {mark}  {reason}")
    feasible = [row["count"] for row in rows if not row["excluded_by"]]
    often = sum(count >= REACHED_OFTEN for count in feasible)
    rest = "" if often == len(feasible) else f" (! marks the other {len(feasible) - often})"
    print_text(
        console, f"{often} of {len(feasible)} feasible situations were met at least {REACHED_OFTEN} times{rest}.\n"
    )


def print_situations(console: Console, rows: list[dict[str, Any]]) -> None:
    """The situations of a scheduler, mode and policy across."""
    across = [f"{mode}\n{policy}" for mode in MODES for policy in POLICIES]
    table = new_table("\nsituation", *across, right=across)
    for start in range(0, len(rows), len(across)):
        line = rows[start : start + len(across)]
        table.add_row(line[0]["situation"], *(_cell(row, {"one step at a time": "-"}) for row in line))
    print_text(console, "\nHow often each situation was met.")
    console.print(table)
    feasible = [row["count"] for row in rows if not row["excluded_by"]]
    often = sum(count >= REACHED_OFTEN for count in feasible)
    rest = "" if often == len(feasible) else f" (! marks the other {len(feasible) - often})"
    print_text(console, f"{often} of {len(feasible)} situations were met at least {REACHED_OFTEN} times{rest}.\n")


def _met(count: int) -> Text:
    return Text(f"!{count}", style="bold yellow") if count < REACHED_OFTEN else Text(f"{count:,}")


def _marks(rows: list[dict[str, Any]]) -> dict[str, str]:
    """A letter for each reason that excludes situations."""
    reasons = dict.fromkeys(row["excluded_by"] for row in rows if row["excluded_by"])
    return {reason: chr(ord("a") + number) for number, reason in enumerate(reasons)}


def reach_table(rows: list[dict[str, Any]], marks: dict[str, str]) -> Table:
    """Outcome, status and hit down; lookahead, and where the tokens end in their block, across."""
    across = [f"{lookahead}\n{boundary.value}" for lookahead in ("0", "> 0") for boundary in Boundary]
    table = new_table("\noutcome", "\nstatus", "\nhit", *across, right=across)
    previous: tuple[str, str] = ("", "")
    for line in _lines(rows):
        outcome, status, hit = line[0]["outcome"], line[0]["status"], line[0]["hit"]
        names = (outcome if outcome != previous[0] else "", status if (outcome, status) != previous else "", hit)
        table.add_row(*names, *(_cell(row, marks) for row in line))
        previous = outcome, status
    return table


def _lines(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The cells come with lookahead and boundary turning fastest."""
    for start in range(0, len(rows), COLUMNS):
        yield rows[start : start + COLUMNS]


def _cell(row: dict[str, Any], marks: dict[str, str]) -> Text:
    if row["excluded_by"]:
        return Text(marks[row["excluded_by"]], style="dim")
    return _met(row["count"])


def deviation_table(report: Report) -> Table:
    """What the target is known to do otherwise, and how often it did."""
    table = new_table("deviation", "law", "times", "status", "reason", right=("times",))
    for row in report_json(report)["deviations"]:
        reason = f"{row['reason']} {row['link']}"
        table.add_row(row["id"], row["law"], f"{row['count']:,}", _status(row["status"]), reason)
    return table


def print_counterexamples(console: Console, report: Report, saved: Saved) -> None:
    """Each broken law's shortest trace, and where it was written."""
    for found, path in zip(report.found, saved.vectors, strict=True):
        print_text(console, f"\n{text_of(found, report.plan.target, path)}")
    written = [*(path for path in saved.vectors if path is not None), *saved.tests]
    if written:
        print_text(console, f"\nWritten: {', '.join(map(str, written))}")
    for stale in report.stale_deviations:
        print_text(
            console, f"\nThe known deviation {stale} no longer shows: its vector breaks no law; take it off the list."
        )
    if not report.conforms:
        print_text(console)


def verdict_line(report: Report) -> str:
    """The last line."""
    broken = list(dict.fromkeys(found.law_id for found in report.found))
    if broken:
        verdict = f"violates {', '.join(broken)}"
    elif report.stale_deviations:
        verdict = f"violates no law, but {count_of(len(report.stale_deviations), 'known deviation')} went stale"
    else:
        verdict = "conforms"
    pace = f"{report.steps / max(report.seconds, 1e-9):,.0f} steps/s"
    done = f"{count_of(report.steps, 'step')} in {report.seconds:.1f} s"
    return f"{report.plan.target} {verdict}: {done}, {pace if not report.found else 'shrinking included'}."

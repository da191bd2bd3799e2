"""`slotproof replay`: a counterexample or a vector, call by call, or a recorded request trace."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from slotproof.conformance.actions import Action, perform
from slotproof.conformance.adapter import Adapter, Strictness
from slotproof.conformance.cli import workload
from slotproof.conformance.cli.files import find_vector
from slotproof.conformance.cli.html import Html, write_html
from slotproof.conformance.cli.options import AsJson
from slotproof.conformance.cli.output import new_console, others_on_stderr, print_json, print_text
from slotproof.conformance.cli.replay_trace import is_trace_file, replay_trace, trace_document, trace_text
from slotproof.conformance.cli.words import count_of
from slotproof.conformance.counterexample import call_words, config_words, pool_strip
from slotproof.conformance.errors import SetupError
from slotproof.conformance.scheduler_adapter import EngineConfig
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.smoke import smoke_check
from slotproof.conformance.target_page import target_page
from slotproof.conformance.targets.registry import load_allocator, load_target
from slotproof.conformance.vector import Mismatch, Vector, not_for, run_vector
from slotproof.conformance.violation import Violation
from slotproof.conformance.workload.trace import is_trace, load_requests
from slotproof.spec.config import Config, FreeOrder
from slotproof.spec.laws import BY_ID
from slotproof.spec.snapshot import Snapshot

NAME = "replay"
EXAMPLE = "Example: slotproof replay counterexample.json impl"

File = Annotated[
    str, typer.Argument(help="A counterexample, a vector file, the name of a shipped vector, or a request trace.")
]
TRACE = "Request traces"
Blocks = Annotated[
    int | None,
    typer.Option(help="Blocks in the pool, the null block included.", show_default="10001", rich_help_panel=TRACE),
]
BlockSize = Annotated[
    int | None,
    typer.Option(
        help="Tokens a block; divides what an id stands for.", show_default="as the ids", rich_help_panel=TRACE
    ),
]
Order = Annotated[FreeOrder, typer.Option(help="Where freed blocks without a key go.", rich_help_panel=TRACE)]
First = Annotated[
    int | None, typer.Option("--first", metavar="N", help="Only the first N requests.", min=1, rich_help_panel=TRACE)
]
ByTime = Annotated[
    bool,
    typer.Option("--by-time", help="Serve by time of arrival, not in the order of the file.", rich_help_panel=TRACE),
]
Lru = Annotated[
    bool, typer.Option("--lru", help="Plain LRU for several capacities instead of an allocator.", rich_help_panel=TRACE)
]
Plot = Annotated[Path | None, typer.Option(help="Draw hit rate and usage to this image.", rich_help_panel=TRACE)]
Target = Annotated[
    str | None, typer.Argument(help="As for verify.", show_default="the target a counterexample names, else impl")
]


@dataclass(slots=True)
class Replayed:
    """How a vector came out: each call in words, and what was wrong, if anything."""

    vector: Vector
    target: str
    version: str
    compares: bool
    """Whether the target is held to the values that the vector expects."""
    calls: list[str]
    before: Snapshot
    after: Snapshot
    violation: Violation | None
    checks: int
    mismatch: str | None = None

    @property
    def holds(self) -> bool:
        """Whether no law was broken and every expectation was met."""
        return self.violation is None and self.mismatch is None

    @property
    def due(self) -> str | None:
        """The law that the file says is broken."""
        return None if self.vector.violates is None else self.vector.violates["law"]

    @property
    def still_shows(self) -> bool | None:
        """Whether the law that the file says is broken still is; None for a file that says nothing."""
        if self.due is None:
            return None
        return self.violation is not None and self.due in self.violation.law_ids


def command(
    file: File,
    target: Target = None,
    blocks: Blocks = None,
    block_size: BlockSize = None,
    free_order: Order = FreeOrder.UNHASHED_FIRST,
    first: First = None,
    by_time: ByTime = False,
    lru: Lru = False,
    plot: Plot = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Carry a counterexample or a vector out on a target, and show what each call answers.

    A recorded request trace (.jsonl, .csv, also .gz: Mooncake, WEKA, Azure, Vidur) is served one request at a time by
    impl, vllm or reference: hit rate, evictions, refusals and usage.

    Exit code 0: every law and every expected value holds; 1: one does not; 2: the file or the target cannot be used.
    """
    if is_trace_file(file):
        with others_on_stderr():
            of_scheduler = replay_trace(file, target)
        trace = of_scheduler.trace
        page = draw(html, of_scheduler.target, trace.config, trace.actions) if html is not None else None
        if as_json:
            print_json({"file": file, **trace_document(of_scheduler)})
        else:
            print_result(trace_text(of_scheduler), page)
        raise typer.Exit(0 if of_scheduler.holds else 1)
    if is_trace(Path(file)):
        if html is not None:
            raise SetupError("--html draws counterexamples and vectors; a recorded request trace is drawn by --plot")
        selection = workload.Selection(Path(file), first, by_time)
        serve_trace(selection, target or "impl", (blocks, block_size, free_order), lru, plot, as_json)
        return
    vector = find_vector(file)
    name = target or (vector.violates["target"] if vector.violates is not None else "impl")
    with others_on_stderr():
        replayed = replay(vector, name)
    page = draw(html, name, vector.config, [step.action for step in vector.steps]) if html is not None else None
    if as_json:
        print_json({"file": file, **as_document(replayed)})
    else:
        print_result(text_of(replayed), page)
    raise typer.Exit(0 if replayed.holds else 1)


def draw(path: Path, target: str, config: Config | EngineConfig, actions: Sequence[Action]) -> Path:
    """The trace as a page."""
    with others_on_stderr():
        text = target_page(load_target(target), target, config, actions)
    return write_html(path, text)


def print_result(text: str, page: Path | None) -> None:
    """The result, and where the page is."""
    console = new_console()
    if page is not None:
        print_text(console, f"Written: {page}")
    print_text(console, text)


def serve_trace(
    selection: workload.Selection,
    target: str,
    pool: tuple[int | None, int | None, FreeOrder],
    lru: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Serve a request trace, or give it to plain LRU."""
    requests = load_requests(selection.path, selection.first, selection.by_time)
    if lru:
        workload.report_lru(selection.path, requests, as_json)
    else:
        workload.report(selection, target, requests, workload.setting_for(requests, *pool), plot, as_json)


def replay(vector: Vector, target: str) -> Replayed:
    """Carry the vector out on the target.

    Raises:
        SetupError: for a target that cannot be asked about it.
    """
    adapter = load_allocator(target)
    reason = not_for(adapter, vector)
    if reason is not None:
        raise SetupError(f"{vector.name} cannot be carried out on {target}: {reason}")
    smoke_check(adapter)
    replayed = narrated(adapter, vector, target)
    if replayed.violation is None:
        try:
            run_vector(adapter, vector)
        except Mismatch as mismatch:
            replayed.mismatch = str(mismatch)
    return replayed


def narrated(adapter: Adapter, vector: Vector, target: str) -> Replayed:
    """Each call in words, up to the first that breaks a law."""
    session = Session(adapter, vector.config, Tally.fresh())
    calls: list[str] = []
    violation, before = None, session.snapshot
    for step in vector.steps:
        before = session.snapshot
        session.answers.clear()
        try:
            perform(session, step.action)
        except Violation as raised:
            violation = raised
            before = raised.transition.before if raised.transition is not None else before
        calls.append(call_words(step.action, session.answers, session.snapshot))
        if violation is not None:
            break
    compares = adapter.profile.strictness == Strictness.IDENTITY
    checks = session.tally.checks.total()
    return Replayed(
        vector, target, adapter.profile.version, compares, calls, before, session.snapshot, violation, checks
    )


def text_of(replayed: Replayed) -> str:
    """The calls, then what is wrong or that nothing is."""
    vector = replayed.vector
    lines = [f"{vector.name}, on {replayed.target} {replayed.version}", f"  {config_words(vector.config)}"]
    lines += [f"  {number}. {call}" for number, call in enumerate(replayed.calls, start=1)]
    if replayed.violation is not None:
        lines += violation_lines(replayed, replayed.violation)
    return "\n".join([*lines, "", conclusion(replayed)])


def violation_lines(replayed: Replayed, violation: Violation) -> list[str]:
    """The state around the last call, the law in words, expected and got."""
    lines = [
        f"  before  {pool_strip(replayed.before)}",
        f"  after   {pool_strip(replayed.after)}",
        f"  law     {BY_ID[violation.law_id].sentence}",
        f"  found   {violation.objection}",
    ]
    if violation.got not in (violation.objection, violation.expected):
        lines += [f"  expected {violation.expected}", f"  got      {violation.got}"]
    return lines


def conclusion(replayed: Replayed) -> str:
    """The last line."""
    target, due = replayed.target, replayed.due
    if replayed.still_shows:
        return f"The violation still shows: {target} breaks {due}."
    if replayed.violation is not None:
        broken = ", ".join(replayed.violation.law_ids)
        return f"{target} breaks {broken}." + (f" The file says {due} is broken, which is not so." if due else "")
    if replayed.mismatch is not None:
        return f"The laws hold, but a value is not the expected one: {replayed.mismatch}."
    holds = f"the laws hold at each of the {count_of(len(replayed.calls), 'call')} ({replayed.checks:,} checks)"
    if due is not None:
        return f"The violation no longer shows: {target} does not break {due}; {holds}."
    return f"On {target} {holds}{expectation_words(replayed)}."


def expectation_words(replayed: Replayed) -> str:
    """What is to be said about the expected values."""
    number = sum(len(step.expect) for step in replayed.vector.steps)
    if number == 0:
        return ""
    if not replayed.compares:
        return f"; its {count_of(number, 'expected value')} are for targets held to identity and were not compared"
    return (
        f", and all {count_of(number, 'expected value')} are met" if number > 1 else ", and the expected value is met"
    )


def as_document(replayed: Replayed) -> dict[str, Any]:
    """The fields of `--json`."""
    violation = replayed.violation
    return {
        "vector": replayed.vector.name,
        "target": replayed.target,
        "target_version": replayed.version,
        "verdict": "conforms" if replayed.holds else "violates",
        "calls": replayed.calls,
        "checks": replayed.checks,
        "expectations_compared": replayed.compares,
        "mismatch": replayed.mismatch,
        "violation": None
        if violation is None
        else {
            "law": violation.law_id,
            "also": [law_id for law_id, _ in violation.others],
            "objection": violation.objection,
            "expected": violation.expected,
            "got": violation.got,
        },
        "still_shows": replayed.still_shows,
    }

"""`slotproof verify`: the laws against a target."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from slotproof.conformance.cli.gate import Gate, read_gate
from slotproof.conformance.cli.laws import known_laws
from slotproof.conformance.cli.options import AsJson
from slotproof.conformance.cli.output import new_console, others_on_stderr, print_json, print_text, progress_bar
from slotproof.conformance.cli.saving import Saved, save_found, usable_folder
from slotproof.conformance.cli.verdict import print_report, verdict_line
from slotproof.conformance.deviations import Deviation, load_deviations, shipped_deviations
from slotproof.conformance.errors import SetupError
from slotproof.conformance.plan import DEFAULT_STEPS, Plan
from slotproof.conformance.report import Report, law_rows, report_json
from slotproof.conformance.settings import default_groups
from slotproof.conformance.verify import settings_for
from slotproof.conformance.verify import verify as run_plan
from slotproof.spec.config import FreeOrder

NAME = "verify"
EXAMPLE = "Example: slotproof verify vllm --groups full --groups full,window:32 --steps 50000"


class Switch(StrEnum):
    """On or off."""

    ON = "on"
    OFF = "off"


Target = Annotated[
    str | None,
    typer.Argument(
        help="impl, reference, vllm, nano-vllm, module:factory, exec:command or NAME@/path/to/python.",
        show_default="impl, or the target in pyproject.toml",
    ),
]
Laws = Annotated[list[str] | None, typer.Option("--law", metavar="ID", help="Judge this law only; may be repeated.")]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Stop at the first violation of any group setting.")]
Seed = Annotated[int | None, typer.Option(help="The same seed and steps give the same result.", show_default="0")]
Steps = Annotated[int | None, typer.Option(min=1, help="How many calls to make.", show_default=f"{DEFAULT_STEPS}")]
Seconds = Annotated[float | None, typer.Option(min=0.1, help="Stop after about so many seconds, if that is sooner.")]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KINDS",
        help="KV cache groups, as in full,window:32, or partial: full attention with hits that end inside a block; "
        "repeat it to verify several settings.",
        show_default="full, window, full,window and partial",
    ),
]
Caching = Annotated[Switch, typer.Option(help="Prefix caching.")]
BlockSize = Annotated[int | None, typer.Option(min=1, help="Tokens a block.", show_default="a few small ones")]
Blocks = Annotated[
    int | None, typer.Option(help="Blocks of the pool, the null block included.", show_default="small pools")
]
Order = Annotated[
    FreeOrder | None, typer.Option(help="How freed blocks are queued.", show_default="all of the target's")
]
Deviations = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Known deviations to tolerate, besides those shipped for the target."),
]
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write counterexample.json and test_counterexample.py there if a law is broken.",
        show_default="counterexample.json in the current directory; nothing with --json",
    ),
]


def command(
    target: Target = None,
    law: Laws = None,
    fail_fast: FailFast = False,
    as_json: AsJson = False,
    seed: Seed = None,
    steps: Steps = None,
    seconds: Seconds = None,
    groups: Groups = None,
    caching: Caching = Switch.ON,
    block_size: BlockSize = None,
    blocks: Blocks = None,
    free_order: Order = None,
    deviations: Deviations = None,
    save: Save = None,
) -> None:
    """Hold a target against the laws: a seeded walk over small worlds, and one verdict.

    Defaults come from \\[tool.slotproof] in ./pyproject.toml: target, groups, seed, steps, deviations.

    Exit code 0: it conforms. 1: it breaks a law, or a known deviation no longer shows. 2: nothing was verified.
    """
    gate = read_gate(Path("pyproject.toml"))
    name = target or gate.target or "impl"
    settings = settings_for(
        groups or gate.groups or default_groups(block_size),
        caching=caching == Switch.ON,
        block_size=block_size,
        num_blocks=blocks,
        free_order=free_order.value if free_order is not None else None,
    )
    plan = Plan(
        name,
        settings,
        seed=_first(seed, gate.seed, 0),
        steps=_first(steps, gate.steps, DEFAULT_STEPS),
        seconds=seconds,
        law_ids=known_laws(law or []),
        deviations=known_deviations(name, deviations, gate),
        fail_fast=fail_fast,
    )
    folder = usable_folder(save) if save is not None else None
    report = run(plan)
    saved = save_found(report, folder or Path(), with_tests=save is not None) if not as_json or save else Saved()
    if as_json:
        print_json(report_json(report))
    else:
        console = new_console()
        print_report(console, report, saved)
        print_text(console, verdict_line(report), style="bold green" if report.conforms else "bold red")
    raise typer.Exit(0 if report.conforms else 1)


def _first(given: int | None, settled: int | None, default: int) -> int:
    """The command line wins over the project, the project over the default."""
    if given is not None:
        return given
    return settled if settled is not None else default


def known_deviations(target: str, given: Path | None, gate: Gate) -> tuple[Deviation, ...]:
    """Those shipped for the target, and those of the user."""
    path = given or gate.deviations
    return shipped_deviations(target) + (load_deviations(path, target) if path is not None else ())


def run(plan: Plan) -> Report:
    """Run the plan under a progress bar.

    Raises:
        SetupError: also when nothing was verified, so that nothing is taken for a yes.
    """
    with others_on_stderr(), progress_bar(f"verifying {plan.target}", plan.steps, plan.seconds) as tell:
        report = run_plan(plan, tell)
    if report.steps == 0:
        raise SetupError("nothing was verified: the time was up before the first calls were made; give more --seconds")
    unchecked = [row for row in law_rows(report) if row["id"] in plan.law_ids and row["status"] == "skipped"]
    if plan.law_ids and len(unchecked) == len(set(plan.law_ids)):
        reasons = "; ".join(f"{row['id']}: {row['reason']}" for row in unchecked)
        raise SetupError(f"nothing was verified: no law that was asked for was checked ({reasons})")
    return report

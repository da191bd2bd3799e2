"""`slotproof prove`: the theorems about the specification."""

from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer

from slotproof.conformance.cli.laws import known_laws
from slotproof.conformance.cli.needs import needs_the_proofs
from slotproof.conformance.cli.options import AsJson
from slotproof.conformance.cli.output import new_console, new_table, print_json, print_text, progress_bar
from slotproof.conformance.cli.words import count_of
from slotproof.conformance.errors import SetupError

NAME = "prove"
EXAMPLE = "Example: slotproof prove HASH-1 SKIP-1"

Smtlib = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Also write all that the proofs rest on to this new folder, an SMT-LIB file an obligation."
    ),
]

Vectors = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Also write inputs that take every path through short stories to this new folder, a vector a file.",
    ),
]

Laws = Annotated[list[str] | None, typer.Argument(metavar="[LAW]...", help="Only theorems of these laws.")]


def command(laws: Laws = None, smtlib: Smtlib = None, vectors: Vectors = None, as_json: AsJson = False) -> None:
    """Prove theorems about the specification, by running its own functions on symbolic values.

    Exit code 0: all proved. 1: one failed, or Z3 does not know. 2: nothing was proved.
    """
    prover, started, wanted = load_prover(), monotonic(), known_laws(laws or [])
    stated = prover.theorems_of(wanted)
    if not stated:
        raise SetupError(f"there is no theorem about {', '.join(laws or [])} yet; `slotproof prove` alone shows all")
    folders = [new_folder(folder) if folder is not None else None for folder in (smtlib, vectors)]
    with progress_bar("proving", len(prover.tasks_for(stated)), None) as tell:
        evidence = prover.run(stated, tell)
    seconds = monotonic() - started
    if as_json:
        print_json(prover.evidence_json(evidence, seconds))
    else:
        print_evidence(evidence, seconds)
    for folder, export in zip(folders, (export_obligations, export_vectors), strict=True):
        if folder is not None:
            written = export(wanted, folder)
            if not as_json:
                print_text(new_console(), f"{written} written to {folder}.")
    raise typer.Exit(0 if all(one.status == "proved" for one in evidence) else 1)


def load_prover() -> Any:
    """The theorems and what proves them."""
    with needs_the_proofs():
        from slotproof.proofs import prove
    return prove


def new_folder(folder: Path) -> Path:
    """The folder, made if need be.

    Raises:
        SetupError: when it cannot be one, or is not empty: old files would be taken for new ones.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(
            f"{folder} cannot be a folder for what is written: {error.strerror}; name another one"
        ) from error
    if any(folder.iterdir()):
        raise SetupError(f"{folder} is not empty; name a new folder, so that no old file is taken for a new one")
    return folder


def export_obligations(laws: tuple[str, ...], folder: Path) -> str:
    """Write the obligations; how many there are, in words."""
    from slotproof.proofs.smtlib import write_all

    return count_of(write_all(laws, folder), "obligation")


def export_vectors(_: tuple[str, ...], folder: Path) -> str:
    """Write the vectors; how many there are, in words."""
    from slotproof.proofs.stories import write_vectors

    return count_of(write_vectors(folder), "vector")


def print_evidence(evidence: list[Any], seconds: float) -> None:
    """One row a theorem, what is wrong with those that are not proved, and the count."""
    console = new_console()
    table = new_table("law", "theorem", "scope", "status", "ms", right=("ms",))
    for one in evidence:
        stated = one.theorem
        table.add_row(stated.law, stated.name, stated.scope, one.status, f"{one.seconds * 1000:.0f}")
    console.print(table)
    for one in evidence:
        if one.status != "proved":
            print_text(console, f"\n{one.theorem.law} {one.theorem.name}: {one.theorem.statement}")
            print_text(console, f"  {one.counterexample}")
    proved = sum(one.status == "proved" for one in evidence)
    unknown = sum(one.status == "unknown" for one in evidence)
    console.print()
    style = "bold green" if proved == len(evidence) else "bold red"
    slowest = max(one.slowest for one in evidence)
    print_text(
        console,
        f"{proved} of {len(evidence)} theorems proved, {unknown} unknown, in {seconds:.1f} s; "
        f"slowest obligation {slowest:.2f} s.",
        style,
    )

"""`slotproof laws`: the laws with their evidence."""

from typing import Annotated, Any

import typer
from rich.console import Console

from slotproof.conformance.cli.options import AsJson
from slotproof.conformance.cli.output import new_console, new_table, print_json, print_text
from slotproof.conformance.errors import SetupError
from slotproof.conformance.scheduler_laws import LAW_IDS
from slotproof.conformance.strictness import level_of
from slotproof.conformance.vector import shipped_vectors
from slotproof.spec.laws import BY_ID, LAWS

NAME = "laws"
EXAMPLE = "Example: slotproof laws REFUSE-1"

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[LAW]...", help="Laws to show in full.", show_default="a table of all"),
]


def command(law: Ids = None, as_json: AsJson = False) -> None:
    """List the laws: what each says, from which strictness on it is held, its theorems and the vectors about it."""
    wanted = known_laws(law or [])
    rows = [row for row in law_rows() if not wanted or row["id"] in wanted]
    if as_json:
        print_json({"laws": rows})
    elif wanted:
        print_in_full(new_console(), rows)
    else:
        table = new_table("law", "says", "held from", "theorems", "vectors", right=("theorems", "vectors"))
        for row in rows:
            counts = (str(len(row[kind])) for kind in ("theorems", "vectors"))
            table.add_row(row["id"], row["sentence"], row["held_from"], *counts)
        new_console().print(table)


def known_laws(law_ids: list[str]) -> tuple[str, ...]:
    """The ids as the laws have them.

    Raises:
        SetupError: for one that is no law's.
    """
    for law_id in law_ids:
        if law_id.upper() not in BY_ID and law_id.upper() not in LAW_IDS:
            raise SetupError(f"there is no law {law_id!r}; `slotproof laws` lists them")
    return tuple(law_id.upper() for law_id in law_ids)


def law_rows() -> list[dict[str, Any]]:
    """One row a law."""
    vectors, theorems = shipped_vectors(), stated_theorems()
    return [
        {
            "id": law.id,
            "sentence": law.sentence,
            "held_from": level_of(law.id).name.lower(),
            "theorems": [{"name": stated.name, "scope": stated.scope} for stated in theorems if stated.law == law.id],
            "vectors": [vector.name for vector in vectors if law.id in vector.laws],
        }
        for law in LAWS
    ]


def stated_theorems() -> tuple[Any, ...]:
    """The theorems; none where Z3 is not installed."""
    try:
        from slotproof.proofs.prove import stated_theorems as all_theorems
    except ModuleNotFoundError:
        return ()
    return all_theorems()


def print_in_full(console: Console, rows: list[dict[str, Any]]) -> None:
    """A law, its theorems, which `prove` proves, and its vectors, which `explain` and `replay` take by name."""
    for row in rows:
        console.print(f"{row['id']}: {row['sentence']}")
        print_text(console, f"  held from strictness {row['held_from']} on")
        for stated in row["theorems"]:
            print_text(console, f"  theorem {stated['name']} ({stated['scope']})")
        for name in row["vectors"]:
            print_text(console, f"  vector {name}")

"""`slotproof laws`: the laws with their evidence."""

from typing import Annotated, Any

import typer
from rich.console import Console

from slotproof.conformance.cli.options import AsJson
from slotproof.conformance.cli.output import new_console, new_table, print_json, print_text
from slotproof.conformance.cli.words import count_of
from slotproof.conformance.errors import SetupError
from slotproof.conformance.scenarios import scenarios
from slotproof.conformance.strictness import level_of
from slotproof.conformance.vector import shipped_vectors
from slotproof.spec.laws import ALL_LAWS, BY_ID, Law

NAME = "laws"
EXAMPLE = "Example: slotproof laws REFUSE-1"

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[LAW]...", help="Laws to show in full.", show_default="a table of all"),
]


def command(law: Ids = None, as_json: AsJson = False) -> None:
    """List the laws: what each says, from which strictness on it is held, its theorems, vectors and scenarios, and how
    many changes of the specification nothing else notices.
    """
    wanted = known_laws(law or [])
    rows = [row for row in law_rows() if not wanted or row["id"] in wanted]
    if as_json:
        print_json({"laws": rows})
    elif wanted:
        print_in_full(new_console(), rows)
    else:
        table = new_table("law", "says", "held from", *map(heading, EVIDENCE), right=tuple(map(heading, EVIDENCE)))
        for row in rows:
            counts = (str(len(row[kind])) for kind in EVIDENCE)
            table.add_row(row["id"], row["sentence"], row["held_from"], *counts)
        new_console().print(table)


EVIDENCE = ("theorems", "vectors", "scenarios", "only_kills")


def heading(kind: str) -> str:
    """The column of a kind of evidence."""
    return kind.replace("_", " ")


def known_laws(law_ids: list[str]) -> tuple[str, ...]:
    """The ids as the laws have them.

    Raises:
        SetupError: for one that is no law's.
    """
    for law_id in law_ids:
        if law_id.upper() not in BY_ID:
            raise SetupError(f"there is no law {law_id!r}; `slotproof laws` lists them")
    return tuple(law_id.upper() for law_id in law_ids)


def law_rows() -> list[dict[str, Any]]:
    """One row a law."""
    vectors, theorems = shipped_vectors(), stated_theorems()
    return [
        {
            "id": law.id,
            "sentence": law.sentence,
            "held_from": level_of(law.id).name.lower() if isinstance(law, Law) else "schedulers",
            "theorems": [{"name": stated.name, "scope": stated.scope} for stated in theorems if stated.law == law.id],
            "vectors": [vector.name for vector in vectors if law.id in vector.laws],
            "only_kills": only_kills(law.id),
            "scenarios": [f"{one.id} {one.title}" for one in scenarios().values() if one.law_id == law.id],
        }
        for law in ALL_LAWS
    ]


def stated_theorems() -> tuple[Any, ...]:
    """The theorems; none where Z3 is not installed."""
    try:
        from slotproof.proofs.prove import stated_theorems as all_theorems
    except ModuleNotFoundError:
        return ()
    return all_theorems()


def only_kills(law_id: str) -> list[str]:
    """The recorded mutants of the specification that only this law's theorems and checks notice; none without Z3."""
    try:
        from slotproof.proofs.kills import killed_only_by
    except ModuleNotFoundError:
        return []
    return killed_only_by(law_id)


SHOWN_MUTANTS = 3
"""Ids of mutants in full; they are many."""


def print_in_full(console: Console, rows: list[dict[str, Any]]) -> None:
    """A law, its theorems (for `prove`), its vectors (for `explain` and `replay`) and its scenarios (for `diff`)."""
    for row in rows:
        console.print(f"{row['id']}: {row['sentence']}")
        about_schedulers = row["held_from"] == "schedulers"
        held = "held by scheduling policies" if about_schedulers else f"held from strictness {row['held_from']} on"
        print_text(console, f"  {held}")
        for stated in row["theorems"]:
            print_text(console, f"  theorem {stated['name']} ({stated['scope']})")
        for name in row["vectors"]:
            print_text(console, f"  vector {name}")
        if row["only_kills"]:
            number, examples = count_of(len(row["only_kills"]), "mutant"), ", ".join(row["only_kills"][:SHOWN_MUTANTS])
            print_text(console, f"  alone notices {number} of the specification, such as {examples}")
        for name in row["scenarios"]:
            print_text(console, f"  scenario {name}")

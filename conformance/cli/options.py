"""Options and arguments that several commands share."""

from dataclasses import dataclass
from typing import Annotated

import typer


@dataclass(frozen=True, slots=True)
class Invocation:
    """What is known about the command being run, for whoever reports its end."""

    as_json: bool


def _note_json(ctx: typer.Context, as_json: bool) -> bool:
    ctx.find_root().obj = Invocation(as_json)
    return as_json


AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object on standard output and nothing else there.", callback=_note_json
    ),
]

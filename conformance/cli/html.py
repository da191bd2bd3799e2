"""`--html FILE`: a trace as a page."""

from pathlib import Path
from typing import Annotated

import typer

from slotproof.conformance.cli.output import write_whole
from slotproof.conformance.errors import SetupError

Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the trace as a page to look at.")]


def write_html(path: Path, text: str) -> Path:
    """Write a page.

    Raises:
        SetupError: when the file cannot be written.
    """
    try:
        write_whole(path, text)
    except OSError as error:
        raise SetupError(f"{path} cannot be written: {error.strerror}; name another file with --html") from error
    return path

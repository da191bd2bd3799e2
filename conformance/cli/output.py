"""What every command prints with: tables and text on standard output, progress and mistakes on standard error."""

import json
import os
import sys
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

WIDTH_OF_LOGS = 100


def new_console() -> Console:
    """Standard output; what is printed is taken literally, because block lists look like markup."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH_OF_LOGS
    return Console(markup=False, highlight=False, emoji=False, width=width)


def new_table(*columns: str, right: Container[str] = ()) -> Table:
    """A plain table; the columns named in `right` hold numbers."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left")
    return table


def print_json(document: Mapping[str, Any]) -> None:
    """The one object of `--json`."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_text(console: Console, text: str = "", style: str | None = None) -> None:
    """Lines as they are, however wide the terminal."""
    console.print(text, style=style, soft_wrap=True)


def warn(message: str) -> None:
    """A line for the user that is no result."""
    typer.echo(message, err=True)


@contextmanager
def others_on_stderr() -> Iterator[None]:
    """What a target prints does not mix with the results."""
    with redirect_stdout(sys.stderr):
        yield


class Tell(Protocol):
    """Moves a bar."""

    def __call__(self, done: int, share: float | None = None) -> None: ...


@contextmanager
def progress_bar(what: str, steps: int, seconds: float | None, unit: str = "steps") -> Iterator[Tell]:
    """A bar on a terminal, nothing elsewhere and in CI; yields what is to be told the steps done.

    It is drawn when told and by no thread, so that worker processes can be forked meanwhile.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.fields[done]:,}} {unit}, {{task.fields[pace]:,.0f}}/s"),
        TimeElapsedColumn(),
    )
    shown = console.is_terminal and not os.environ.get("CI")
    started = monotonic()
    with Progress(
        *columns,
        console=console,
        disable=not shown,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        transient=True,
    ) as progress:
        task = progress.add_task(what, total=1.0, done=0, pace=0.0)
        progress.refresh()

        def tell(done: int, share: float | None = None) -> None:
            elapsed = monotonic() - started
            share = done / steps if share is None else share
            completed = max(share, min(elapsed / seconds, 1.0) if seconds else 0.0)
            progress.update(task, completed=completed, done=done, pace=done / max(elapsed, 1e-9), refresh=True)

        yield tell


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all.

    Raises:
        OSError: when it cannot be written; nothing is left behind.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

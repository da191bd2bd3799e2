"""Writing counterexamples to files, and the line that runs them again."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slotproof.conformance.cli.output import warn, write_whole
from slotproof.conformance.counterexample import REPLAY_FILE
from slotproof.conformance.errors import SetupError
from slotproof.conformance.report import Found, Report

TEST_FILE = "test_counterexample.py"


@dataclass(frozen=True, slots=True)
class Saved:
    """The files that were written: the vector of each counterexample (None if that failed), and tests."""

    vectors: tuple[Path | None, ...] = ()
    tests: tuple[Path, ...] = ()


def usable_folder(folder: Path) -> Path:
    """The folder, made if need be.

    Raises:
        SetupError: when it cannot be one.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(
            f"{folder} cannot be a folder for counterexamples: {error.strerror}; name another one"
        ) from error
    return folder


def save_found(report: Report, folder: Path, *, with_tests: bool) -> Saved:
    """Write each counterexample of a report."""
    return save_examples(report.found, folder, with_tests=with_tests)


def save_examples(examples: Sequence[Found], folder: Path, *, with_tests: bool) -> Saved:
    """Write each counterexample; a file that cannot be written is said, and the verdict stays."""
    vectors, tests = [], []
    for number, found in enumerate(examples, start=1):
        vectors.append(
            _write(folder / _numbered(REPLAY_FILE, number), json.dumps(found.fields["replay"], indent=2) + "\n")
        )
        test = _write(folder / _numbered(TEST_FILE, number), found.pytest_file) if with_tests else None
        tests += [test] if test is not None else []
    return Saved(tuple(vectors), tuple(tests))


def _numbered(name: str, number: int) -> str:
    """The first keeps its name; later ones get a number."""
    stem, _, suffix = name.rpartition(".")
    return name if number == 1 else f"{stem}_{number}.{suffix}"


def _write(path: Path, text: str) -> Path | None:
    try:
        write_whole(path, text)
    except OSError as error:
        warn(f"slotproof: {path} was not written: {error.strerror}")
        return None
    return path


def replay_line(path: Path, target: str) -> str:
    """The command that shows a counterexample again."""
    return f"slotproof replay {shlex.quote(str(path))} {shlex.quote(target)}"


def text_of(found: Found, target: str, path: Path | None) -> str:
    """A counterexample's text, its last line a command that works as printed."""
    *lines, _ = found.text.splitlines()
    again = replay_line(path, target) if path is not None else "the same command with --save DIR writes it to a file"
    return "\n".join([*lines, f"  again   {again}"])

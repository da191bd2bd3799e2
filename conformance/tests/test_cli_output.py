"""Progress, whole files and interrupts: how the command line behaves besides its results."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slotproof.conformance.cli.output import progress_bar, write_whole

PRINTS = """\
from slotproof.conformance.targets.reference import ReferenceAdapter


class Prints(ReferenceAdapter):
    def free(self, request):
        print("freeing", flush=True)
        super().free(request)
"""


class Terminal(io.StringIO):
    """Standard error on a terminal."""

    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, ci: str | None) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    if ci is None:
        monkeypatch.delenv("CI", raising=False)
    else:
        monkeypatch.setenv("CI", ci)
    with progress_bar("verifying impl", steps=10, seconds=None) as tell:
        tell(4)
    return stream.getvalue()


def test_a_bar_is_shown_on_a_terminal_only_and_never_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "4 steps" in shown(monkeypatch, Terminal(), None)
    assert shown(monkeypatch, Terminal(), "true") == ""
    assert shown(monkeypatch, io.StringIO(), None) == ""


def test_a_file_is_there_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "counterexample.json"
    write_whole(path, "first")
    assert path.read_text(encoding="utf-8") == "first"

    def fail(part: Path, target: Path) -> None:
        raise OSError("no space")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, "second")
    assert path.read_text(encoding="utf-8") == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_ends_it_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "prints.py").write_text(PRINTS, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "slotproof.conformance.cli", "verify", "prints:Prints"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "freeing\n"
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (stdout, "Traceback" in stderr) == ("", False)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".json"] == []

"""`slotproof new-adapter`: a skeleton that says what is missing, and becomes an adapter when it is filled in."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slotproof.conformance.cli.app import app


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["new-adapter", *arguments])


def test_the_skeleton_is_short_and_its_smoke_check_says_what_to_do() -> None:
    outcome = run("my_allocator")
    assert outcome.exit_code == 0
    assert "slotproof verify my_allocator:factory" in outcome.stdout
    text = Path("my_allocator.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 45
    assert max(map(len, text.splitlines())) <= 120
    done = subprocess.run([sys.executable, "my_allocator.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "the smoke check failed: reset raised NotImplementedError: make your allocator here; "
        "the simplest call must work before laws are checked\n"
    )


FILLED_IN = {
    'raise NotImplementedError("make your allocator here")': (
        "self.bs, self.pool, self.held = config.block_size, list(range(1, config.num_blocks)), {}"
    ),
    'raise NotImplementedError("call your allocator here")': (
        "held = self.held.setdefault(request.request_id, [])\n"
        "        need = -(-(request.num_computed_tokens + num_new_tokens) // self.bs) - len(held)\n"
        "        if need > len(self.pool):\n"
        "            return None\n"
        "        new = [self.pool.pop() for _ in range(need)]\n"
        "        held += new\n"
        "        return (tuple(new),)"
    ),
    'raise NotImplementedError("give the blocks of request.request_id back here")': (
        "self.pool += self.held.pop(request.request_id, [])"
    ),
    'raise NotImplementedError("look up the blocks of request.request_id here")': (
        "return (tuple(self.held.get(request.request_id, ())),)"
    ),
    'raise NotImplementedError("count the blocks that a request could take now")': "return len(self.pool)",
}


def test_a_filled_in_skeleton_passes_and_conforms() -> None:
    run("filled_in")
    path = Path("filled_in.py")
    text = path.read_text(encoding="utf-8")
    for hole, code in FILLED_IN.items():
        assert hole in text
        text = text.replace(hole, code)
    path.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "filled_in.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "The smoke check passed; next: slotproof verify filled_in:factory\n"
    verified = CliRunner().invoke(app, ["verify", "filled_in:factory", "--steps", "1500", "--json"])
    document = json.loads(verified.stdout)
    assert document["verdict"] == "conforms", document["counterexample"]
    skipped = [skipped["groups"] for skipped in document["config"]["skipped_groups"]]
    assert skipped == ["window", "full,window", "partial"]


def test_an_unfilled_skeleton_cannot_be_verified() -> None:
    run("unfilled")
    outcome = CliRunner().invoke(app, ["verify", "unfilled:factory"])
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("slotproof: the smoke check failed: reset raised NotImplementedError")


def test_nothing_is_overwritten() -> None:
    Path("mine.py").write_text("precious", encoding="utf-8")
    outcome = run("mine")
    assert outcome.exit_code == 2
    assert outcome.stderr == "slotproof: mine.py is already there; choose another name or move it away\n"
    assert Path("mine.py").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("name", ["a-b", "1st", "class", "", "a.b", "../up", "json", "slotproof"])
def test_a_name_that_is_no_module_is_refused(name: str) -> None:
    outcome = run(name)
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("slotproof: ")
    assert list(Path().iterdir()) == []

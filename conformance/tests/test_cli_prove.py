"""`slotproof prove`: one row a theorem, JSON with the stable fields, and exit codes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slotproof.conformance.cli import prove as command
from slotproof.conformance.cli.app import app
from slotproof.conformance.errors import SetupError
from slotproof.proofs import stories
from slotproof.proofs.theorem import THEOREMS, Evidence


def test_the_theorems_of_some_laws_are_proved() -> None:
    result = CliRunner().invoke(app, ["prove", "reset-1", "EVICT-1"])
    assert result.exit_code == 0
    of_these = sum(stated.law in {"RESET-1", "EVICT-1"} for stated in THEOREMS)
    last = result.stdout.strip().splitlines()[-1]
    assert last.startswith(f"{of_these} of {of_these} theorems proved, 0 unknown, in ")


def test_the_json_has_the_stable_fields() -> None:
    result = CliRunner().invoke(app, ["prove", "EVICT-1", "--json"])
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert set(document) == {"theorems", "seconds"}
    for one in document["theorems"]:
        assert {"law", "name", "status", "scope", "seconds", "witness"} <= set(one)
        assert (one["law"], one["status"]) == ("EVICT-1", "proved")


def test_what_the_proofs_rest_on_is_written_as_smtlib(tmp_path: Path) -> None:
    folder = tmp_path / "obligations"
    result = CliRunner().invoke(app, ["prove", "RESET-1", "--smtlib", str(folder)])
    assert result.exit_code == 0
    files = sorted(folder.rglob("*.smt2"))
    assert result.stdout.splitlines()[-1].startswith(f"{len(files)} obligations written to ")
    theorem, operation = (
        next(folder.glob(f"{name}*/00001.smt2")) for name in ("a-reset-empties", "reset_prefix_cache-in")
    )
    lines = theorem.read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["; theorem: a reset empties the index exactly if nothing is held", "; law: RESET-1"]
    assert lines[2].startswith("; statement: Reset succeeds exactly if ")
    assert "(set-info :status unsat)" in lines
    assert lines[-1] == "(check-sat)"
    assert operation.read_text(encoding="utf-8").startswith("; every path of reset_prefix_cache in ")


def test_with_json_the_obligations_are_written_and_nothing_is_said_of_it(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["prove", "RESET-1", "--json", "--smtlib", str(tmp_path)])
    assert set(json.loads(result.stdout)) == {"theorems", "seconds"}
    assert list(tmp_path.rglob("*.smt2"))


def test_the_paths_of_stories_are_written_as_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories, "GROUPS", ("full",))
    monkeypatch.setattr(stories, "vectors_of", lambda _: [{"name": "one"}, {"name": "two"}])
    result = CliRunner().invoke(app, ["prove", "RESET-1", "--vectors", str(tmp_path / "new")])
    assert result.stdout.splitlines()[-1].startswith("2 vectors written to ")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["one.json", "two.json"]


@pytest.mark.parametrize(("name", "words"), [("a file", "cannot be a folder"), ("", "is not empty")])
def test_obligations_go_to_a_new_folder_only(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("", encoding="utf-8")
    result = CliRunner().invoke(app, ["prove", "RESET-1", "--smtlib", str(tmp_path / name)])
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize("status", ["failed", "unknown"])
def test_what_is_not_proved_is_shown_and_exits_with_1(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prover = command.load_prover()
    stated = prover.stated_theorems()[0]
    monkeypatch.setattr(prover, "run", lambda *_: [Evidence(stated, status, 0.1, counterexample="tokens = 3")])
    result = CliRunner().invoke(app, ["prove"])
    assert result.exit_code == 1
    assert stated.statement in result.stdout
    assert "  tokens = 3" in result.stdout
    assert f"0 of 1 theorems proved, {int(status == 'unknown')} unknown" in result.stdout


@pytest.mark.parametrize(
    ("law", "words"), [("NO-1", "there is no law 'NO-1'"), ("EVENT-1", "there is no theorem about EVENT-1 yet")]
)
def test_nothing_to_prove_exits_with_2(law: str, words: str) -> None:
    result = CliRunner().invoke(app, ["prove", law])
    assert result.exit_code == 2
    assert words in result.stderr


def test_without_z3_it_says_what_to_install(without_z3: None) -> None:
    with pytest.raises(SetupError, match=r"the proofs need z3; install them with pip install 'slotproof\[proofs\]'"):
        command.load_prover()

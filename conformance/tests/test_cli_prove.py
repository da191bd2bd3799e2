"""`slotproof prove`: one row a theorem, JSON with the stable fields, and exit codes."""

import json

import pytest
from typer.testing import CliRunner

from slotproof.conformance.cli import prove as command
from slotproof.conformance.cli.app import app
from slotproof.conformance.errors import SetupError
from slotproof.proofs.theorem import THEOREMS, Evidence


def test_the_theorems_of_some_laws_are_proved() -> None:
    result = CliRunner().invoke(app, ["prove", "hash-3", "EVICT-1"])
    assert result.exit_code == 0
    of_these = sum(stated.law in {"HASH-3", "EVICT-1"} for stated in THEOREMS)
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


@pytest.mark.parametrize("status", ["failed", "unknown"])
def test_what_is_not_proved_is_shown_and_exits_with_1(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prover = command.load_prover()
    stated = prover.stated_theorems()[0]
    monkeypatch.setattr(prover, "run", lambda _: [Evidence(stated, status, 0.1, counterexample="tokens = 3")])
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


def test_without_z3_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    real = builtins.__import__

    def without_z3(name: str, *arguments: object) -> object:
        if name.startswith("slotproof.proofs"):
            raise ModuleNotFoundError("No module named 'z3'", name="z3")
        return real(name, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without_z3)
    with pytest.raises(SetupError, match=r"the proofs need z3; install them with pip install 'slotproof\[proofs\]'"):
        command.load_prover()

"""`slotproof mutate`: who survives, JSON with the stable fields, exit codes, and the walk behind the laws."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slotproof.conformance.cli import mutate as command
from slotproof.conformance.cli.app import app
from slotproof.conformance.errors import SetupError
from slotproof.conformance.violation import Violation

RUNNER = command.load_runner()


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["mutate", *arguments])


@pytest.fixture
def without_theorems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the laws judge, so that it is quick."""
    monkeypatch.setattr(RUNNER, "stated_theorems", tuple)


@pytest.fixture
def without_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody judges in their place."""

    def nothing(_: Any) -> Iterator[Any]:
        yield from ()

    monkeypatch.setattr(command, "kills_by_laws", nothing)


@pytest.mark.usefixtures("without_theorems")
class TestTheLaws:
    def test_a_mutant_they_notice_is_killed_in_a_laws_name(self) -> None:
        outcome = invoke("spec", "--only", "admission.idle_hits:2 loop", "--json")
        document = json.loads(outcome.stdout)
        assert outcome.exit_code == 0
        assert (document["mutants"], document["killed"], document["by_laws"], document["survivors"]) == (1, 1, 1, [])
        (one,) = document["mutants_detail"]
        assert (one["verdict"], one["killer"]) == ("violated", "run-time laws")
        assert one["law"].startswith(("COUNT", "REFUSE", "ADMIT"))

    def test_an_exception_is_reported_as_what_it_is(self) -> None:
        document = json.loads(invoke("spec", "--only", "admission.allocate_slots:2 conjunct", "--json").stdout)
        (one,) = document["mutants_detail"]
        assert (one["verdict"], one["law"]) == ("crash", "")
        assert one["what"].startswith("AttributeError: ")
        assert (document["by_laws"], document["by_crash"]) == (0, 1)

    def test_the_mutants_that_only_one_law_notices_are_gathered(self) -> None:
        name = "release.reset_prefix_cache:1 constant"
        assert json.loads(invoke("spec", "--only", name, "--all-killers", "--json").stdout)["only_killer"] == {
            "RESET-1": [name]
        }
        shared = invoke("spec", "--only", "admission.idle_hits:2 loop", "--all-killers", "--json")
        assert json.loads(shared.stdout)["only_killer"] == {}

    def test_a_record_is_kept_of_all_that_notices_a_mutant(self, tmp_path: Path) -> None:
        name, file = "release.reset_prefix_cache:1 constant", tmp_path / "kills.json"
        assert invoke("spec", "--only", name, "--all-killers", "--record", str(file)).exit_code == 0
        assert json.loads(file.read_text()) == {
            "mutants": 1,
            "killers": {"run-time laws": [name]},
            "met_by_all": 1,
            "only": {"RESET-1": [name]},
        }

    def test_the_specification_as_it_is_has_nothing_to_object_to(self) -> None:
        assert list(command.kills_by_laws(RUNNER)) == []


def test_every_law_that_objects_is_a_kill_and_an_exception_is_none_of_theirs() -> None:
    violation = Violation("POOL-1", "one", "", "", (("POOL-2", "two"),))
    assert [(kill.law, kill.what) for kill in command.kills_by_violation(RUNNER, violation)] == [
        ("POOL-1", "one"),
        ("POOL-2", "two"),
    ]
    violation.__cause__ = IndexError("out of range")
    (kill,) = command.kills_by_violation(RUNNER, violation)
    assert (kill.how, kill.law, kill.what) == (RUNNER.Verdict.CRASH, "", "IndexError: out of range")


@pytest.mark.usefixtures("without_theorems", "without_laws")
class TestSurvivors:
    def test_they_are_shown_and_exit_with_1(self) -> None:
        outcome = invoke("spec", "--only", "release.free:3 step")
        assert outcome.exit_code == 1
        assert "release.free:3 step" in outcome.stdout
        assert (
            outcome.stdout.strip()
            .splitlines()[-1]
            .startswith(
                "1 mutant: 0 killed by theorems (0%), 0 by run-time laws, 0 by a crash, 0 by timeout; "
                "0 proved equivalent, 0 listed equivalent; 1 survivor; "
            )
        )

    def test_one_that_changes_nothing_is_none(self) -> None:
        outcome = invoke("spec", "--only", "arithmetic.imin:1 compare")
        assert outcome.exit_code == 0
        assert "1 proved equivalent" in outcome.stdout

    def test_a_stale_list_is_shown_and_exits_with_1(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = RUNNER.Equivalent("arithmetic.imin:9 compare", "a  ->  b", "It is.")
        monkeypatch.setattr(RUNNER, "listed_equivalents", lambda: [entry])
        outcome = invoke("spec", "--only", "arithmetic.imin")
        assert outcome.exit_code == 1
        assert "arithmetic.imin:9 compare is listed as equivalent, but there is no such mutant" in outcome.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("impl",), "slotproof: 'impl' cannot be mutated; use spec, the specification\n"),
        (("spec", "--only", "nonsense"), "slotproof: there is no mutant whose id contains 'nonsense'; "),
        (("spec", "--record", "kills.json"), "slotproof: --record keeps all that notices a mutant; "),
    ],
)
def test_nothing_to_try_exits_with_2(arguments: tuple[str, ...], words: str) -> None:
    outcome = invoke(*arguments)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(words)


def test_a_specification_that_is_not_proved_exits_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    def unproved() -> None:
        raise RUNNER.NotProved("the theorem 't' about FREE-1 is not proved without any mutant: failed")

    monkeypatch.setattr(RUNNER, "baseline", unproved)
    outcome = invoke("spec", "--only", "arithmetic.imin")
    assert outcome.exit_code == 2
    assert "the theorem 't' about FREE-1 is not proved without any mutant" in outcome.stderr


def test_without_z3_it_says_what_to_install(without_z3: None) -> None:
    with pytest.raises(SetupError, match=r"the proofs need z3; install them with pip install 'slotproof\[proofs\]'"):
        command.load_runner()

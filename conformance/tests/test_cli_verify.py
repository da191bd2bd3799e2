"""`slotproof verify`: verdicts, exit codes, the JSON contract, settings of a gate, and files written on a violation."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slotproof.conformance.adapter import NO_HIT, BlockIds, Hit, RequestView
from slotproof.conformance.cli.app import app
from slotproof.conformance.reach import CELLS
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.spec.laws import LAWS


class ForgetsToPin(ReferenceAdapter):
    """Hands idle hits out without taking them off the free queue."""

    def allocate_slots(
        self, request: RequestView, num_new_tokens: int, *, hit: Hit = NO_HIT, **options: Any
    ) -> BlockIds | None:
        idle = [block for blocks in hit.blocks for block in blocks if block and self.ref_count(block) == 0]
        answer = super().allocate_slots(request, num_new_tokens, hit=hit, **options)
        if answer is not None:
            pool = self._snapshot.pool
            for block in idle:
                pool = pool.with_ref(block, 0).enqueue_back(block)
            self._snapshot = self._snapshot.with_pool(pool)
        return answer


class NeverResets(ReferenceAdapter):
    """Refuses to empty its cache, held or not."""

    def reset_prefix_cache(self) -> bool:
        return False


class Prints(ReferenceAdapter):
    """Writes to standard output, as a library may."""

    def free(self, request: RequestView) -> None:
        print("freeing", request.request_id)
        super().free(request)


BROKEN, NEVER_RESETS = f"{__name__}:ForgetsToPin", f"{__name__}:NeverResets"
FIELDS = {
    *("target", "target_version", "seed", "strictness", "config", "verdict", "laws", "reach", "deviations", "steps"),
    *("seconds", "counterexample"),
}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["verify", *arguments])


def as_json(*arguments: str) -> dict[str, Any]:
    document = json.loads(run(*arguments, "--json").stdout)
    assert isinstance(document, dict)
    return document


def test_a_conforming_target_exits_0_and_says_what_was_checked() -> None:
    outcome = run("--steps", "3000")
    assert outcome.exit_code == 0, outcome.output
    *_, last = outcome.stdout.splitlines()
    assert last.startswith("impl conforms: 3,000 steps in ")
    assert last.endswith(" steps/s.")
    for law in LAWS:
        assert f"\n{law.id} " in outcome.stdout
    assert "a  excluded by adopt-before-holding: hit and external tokens are adopted by" in outcome.stdout
    assert "of 162 feasible situations were met at least 100 times (! marks the other " in outcome.stdout
    assert re.search(r"^ +mixed +!\d", outcome.stdout, re.MULTILINE)
    assert list(Path().iterdir()) == []


def test_json_has_the_fields_of_the_contract() -> None:
    document = as_json("reference", "--steps", "2000", "--seed", "3")
    assert set(document) >= FIELDS
    assert (document["target"], document["seed"], document["verdict"]) == ("reference", 3, "conforms")
    assert (document["steps"], document["strictness"], document["counterexample"]) == (2000, "identity", None)
    assert [row["id"] for row in document["laws"]] == [law.id for law in LAWS]
    assert {*document["laws"][0]} == {"id", "status", "checks", "reason"}
    assert len(document["reach"]) == len(CELLS)


def test_the_same_seed_and_steps_give_the_same_result() -> None:
    first, second = (as_json("reference", "--steps", "2500", "--seed", "7") for _ in range(2))
    other = as_json("reference", "--steps", "2500", "--seed", "8")
    for document in (first, second, other):
        del document["seconds"]
    assert first == second
    assert first["reach"] != other["reach"]


def test_a_broken_target_exits_1_and_the_printed_command_shows_it_again() -> None:
    outcome = run(BROKEN, "--steps", "1000", "--groups", "full")
    assert outcome.exit_code == 1
    assert f"\n  again   slotproof replay counterexample.json {BROKEN}\n" in outcome.stdout
    assert "\nWritten: counterexample.json\n" in outcome.stdout
    assert outcome.stdout.splitlines()[-1].startswith(f"{BROKEN} violates POOL-2: ")
    assert [path.name for path in Path().iterdir()] == ["counterexample.json"]
    again = CliRunner().invoke(app, ["replay", "counterexample.json", BROKEN])
    assert again.exit_code == 1
    assert again.stdout.splitlines()[-1] == f"The violation still shows: {BROKEN} breaks POOL-2."
    cured = CliRunner().invoke(app, ["replay", "counterexample.json", "reference"])
    assert cured.exit_code == 0


def test_save_writes_vector_and_test_to_a_folder_and_json_alone_writes_nothing(tmp_path: Path) -> None:
    arguments = (BROKEN, "--steps", "1000", "--groups", "full", "--law", "POOL-2")
    document = as_json(*arguments)
    assert list(Path().iterdir()) == []
    outcome = run(*arguments, "--save", "found/here")
    saved = Path("found/here")
    assert sorted(path.name for path in saved.iterdir()) == ["counterexample.json", "test_counterexample.py"]
    assert json.loads((saved / "counterexample.json").read_text()) == document["counterexample"]["replay"]
    assert f"again   slotproof replay found/here/counterexample.json {BROKEN}" in outcome.stdout
    compile((saved / "test_counterexample.py").read_text(), "test_counterexample.py", "exec")


def test_every_group_setting_has_a_counterexample_of_its_own() -> None:
    outcome = run(BROKEN, "--steps", "2000", "--groups", "full", "--groups", "full,window:6", "--law", "POOL-2")
    assert sorted(path.name for path in Path().iterdir()) == ["counterexample.json", "counterexample_2.json"]
    assert "again   slotproof replay counterexample_2.json" in outcome.stdout


def test_fail_fast_stops_at_the_first() -> None:
    document = as_json(BROKEN, "--steps", "2000", "--groups", "full", "--groups", "window", "--fail-fast")
    assert len(document["counterexamples"]) == 1
    assert document["steps"] < 1000


def test_a_counterexample_that_cannot_be_written_keeps_the_verdict() -> None:
    Path("counterexample.json").mkdir()
    outcome = run(BROKEN, "--steps", "1000", "--groups", "full", "--law", "POOL-2")
    assert outcome.exit_code == 1
    assert "counterexample.json was not written: Is a directory" in outcome.stderr
    assert "again   the same command with --save DIR writes it to a file" in outcome.stdout
    assert [path.name for path in Path().iterdir()] == ["counterexample.json"]


def known_deviation(target: str) -> dict[str, str]:
    config = {"num_blocks": 3, "block_size": 2, "groups": ["full"]}
    vector = {"format": "slotproof-vector-1", "name": "reset", "laws": ["RESET-1"], "config": config}
    Path("reset.json").write_text(json.dumps({**vector, "actions": [{"verb": "reset"}]}), encoding="utf-8")
    fields = {"id": "no-reset", "target": target, "law": "RESET-1", "objection": "reset", "vector": "reset.json"}
    return {**fields, "reason": "it has no reset", "link": "https://example.org/1"}


def test_a_known_deviation_is_tolerated_and_a_stale_one_is_not() -> None:
    arguments = ("--steps", "1500", "--groups", "full", "--law", "RESET-1", "--deviations", "known.json")
    Path("known.json").write_text(json.dumps([known_deviation(NEVER_RESETS)]), encoding="utf-8")
    outcome = run(NEVER_RESETS, *arguments)
    assert outcome.exit_code == 0, outcome.output
    assert re.search(r"^no-reset +RESET-1 +[1-9]\d* +shown +it has no reset", outcome.stdout, re.MULTILINE)
    Path("known.json").write_text(json.dumps([known_deviation("reference")]), encoding="utf-8")
    stale = run("reference", *arguments)
    assert stale.exit_code == 1
    assert "The known deviation no-reset no longer shows: its vector breaks no law" in stale.stdout
    assert stale.stdout.splitlines()[-1].startswith(
        "reference violates no law, but 1 known deviation went stale: 1,500 steps in "
    )


def test_settings_of_a_gate_are_the_defaults_and_the_command_line_wins() -> None:
    Path("pyproject.toml").write_text(
        '[tool.slotproof]\ntarget = "reference"\ngroups = ["full", "window:5"]\nseed = 4\nsteps = 300\n',
        encoding="utf-8",
    )
    document = as_json()
    settled = (document["target"], document["config"]["groups"], document["seed"], document["steps"])
    assert settled == ("reference", ["full", "window:5"], 4, 300)
    document = as_json("impl", "--groups", "window", "--seed", "0", "--steps", "200")
    given = (document["target"], document["config"]["groups"], document["seed"], document["steps"])
    assert given == ("impl", ["window"], 0, 200)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("target = 3", "target is 3; make it a string"),
        ('seed = "one"', "seed is 'one'; make it an integer"),
        ("steps = true", "steps is True; make it an integer"),
        ("steps = 0", "steps is 0; use 1 or more"),
        ("step = 5", "there is no setting 'step'; the settings are target, groups, seed, steps, deviations"),
        ('groups = "full"', "groups is 'full'; make it a list of strings"),
        ("groups = []", 'groups is []; make it a list of strings, for example ["full", "full,window:32"]'),
        ('groups = ["mamba"]', "groups: group kind 'mamba' is not modelled; use a comma-separated list of"),
    ],
)
def test_settings_that_cannot_be_meant_are_named(settings: str, message: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.slotproof]\n{settings}\n", encoding="utf-8")
    outcome = run("--steps", "100")
    assert outcome.exit_code == 2
    assert f"slotproof: pyproject.toml, [tool.slotproof]: {message}" in outcome.stderr
    assert outcome.stdout == ""


def test_a_broken_pyproject_is_named() -> None:
    Path("pyproject.toml").write_text("[tool.slotproof\n", encoding="utf-8")
    outcome = run("--steps", "100")
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("slotproof: pyproject.toml cannot be read as TOML: ")
    Path("pyproject.toml").write_text("[tool]\nslotproof = 3\n", encoding="utf-8")
    assert "tool.slotproof is 3; make it a table, [tool.slotproof]" in run().stderr


def test_a_law_asked_for_is_the_only_one_judged() -> None:
    document = as_json("reference", "--steps", "500", "--law", "pool-1")
    assert {row["id"] for row in document["laws"] if row["status"] == "held"} == {"POOL-1"}
    shown = run("reference", "--steps", "500", "--law", "POOL-1").stdout
    assert "\nPOOL-1 " in shown
    assert "\nPOOL-2 " not in shown


def test_what_cannot_be_checked_is_no_yes() -> None:
    outcome = run("reference", "--steps", "500", "--law", "CAN-1")
    assert outcome.exit_code == 2
    assert "no law that was asked for was checked (CAN-1: the adapter has no can_allocate)" in outcome.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--law", "NOPE"], "there is no law 'NOPE'; `slotproof laws` lists them"),
        (["nosuch"], "There is no target 'nosuch'"),
        (["no_such_module:factory"], "There is no module 'no_such_module'"),
        (["json:dumps"], "could not be made, its factory raised TypeError"),
        (["nano-vllm=/nonexistent"], "/nonexistent"),
        (["exec:false"], "ended with exit code 1"),
        (["--groups", "mamba"], "group kind 'mamba' is not modelled"),
        (["--groups", "window:1"], "window is 1: a sliding window of 1 is not modelled"),
        (["--groups", "window:-1"], "'-1' is no window in tokens"),
        (["--blocks", "1"], "num_blocks is 1"),
        (["--blocks", "-4"], "num_blocks is -4"),
        (["--block-size", "0"], "Invalid value for '--block-size'"),
        (["--steps", "0"], "Invalid value for '--steps'"),
        (["--seconds", "0"], "Invalid value for '--seconds'"),
        (["--seed", "x"], "Invalid value for '--seed'"),
        (["--caching", "maybe"], "Invalid value for '--caching'"),
        (["--free-order", "random"], "Invalid value for '--free-order'"),
        (["--deviations", "none.json"], "none.json is not a file of known deviations"),
        (["--save", __file__], "cannot be a folder for counterexamples: File exists"),
        (["--nonsense"], "No such option: --nonsense"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(arguments: list[str], message: str) -> None:
    outcome = run(*arguments)
    assert outcome.exit_code == 2
    assert message in " ".join(outcome.stderr.replace("│", " ").split())
    assert "Traceback" not in outcome.stderr
    assert outcome.stdout == ""


def test_a_mistake_with_json_is_one_object_too() -> None:
    outcome = run("--law", "NOPE", "--json")
    assert outcome.exit_code == 2
    assert json.loads(outcome.stdout) == {
        "verdict": "error",
        "error": "there is no law 'NOPE'; `slotproof laws` lists them",
    }


def test_what_a_target_prints_is_kept_off_standard_output() -> None:
    assert as_json(f"{__name__}:Prints", "--steps", "500")["verdict"] == "conforms"


def test_no_progress_is_shown_where_there_is_no_terminal() -> None:
    command = [sys.executable, "-m", "slotproof.conformance.cli", "verify", "reference", "--steps", "400", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert json.loads(done.stdout)["steps"] == 400


def test_the_command_line_works_as_a_program() -> None:
    program = [sys.executable, "-m", "slotproof.conformance.cli"]
    helped = subprocess.run([*program, "--help"], capture_output=True, text=True, check=True)
    for name in ("verify", "replay", "explain", "laws", "new-adapter", "demo"):
        assert f" {name} " in helped.stdout
    unknown = subprocess.run([*program, "verify", "nosuch"], capture_output=True, text=True, check=False)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert unknown.stderr.startswith("slotproof: There is no target 'nosuch'")

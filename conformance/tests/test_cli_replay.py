"""`slotproof replay`: each call with its answer, what is broken, and files that cannot be used."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slotproof.conformance.adapter import Profile
from slotproof.conformance.cli.app import app
from slotproof.conformance.targets.reference import PROFILE, ReferenceAdapter
from slotproof.spec import Snapshot

GOLDEN = Path(__file__).parent / "golden"


class KeepsKeys(ReferenceAdapter):
    """Does not take the key of a block that it hands out."""

    profile = Profile(name="keeps-keys", version="1.0", strictness=PROFILE.strictness, group_kinds=("full",))

    def _move_to(self, snapshot: Snapshot) -> None:
        pool = snapshot.pool
        for block, key in enumerate(self._snapshot.pool.keys):
            if key != -1 and pool.key_of(block) == -1:
                pool = pool.with_key(block, key)
        super()._move_to(snapshot.with_pool(pool))


class Safe(ReferenceAdapter):
    """Claims the laws of safety only, and full attention only."""

    profile = Profile(name="safe", group_kinds=("full",))


BROKEN, SAFE = f"{__name__}:KeepsKeys", f"{__name__}:Safe"
TRACE: dict[str, Any] = {
    "format": "slotproof-vector-1",
    "name": "a block loses its key",
    "laws": ["INDEX-1"],
    "config": {"num_blocks": 3, "block_size": 2, "groups": ["full"]},
    "actions": [
        {"verb": "admit", "request": "A", "prompt": [1, 2], "expect": {"num_new": 1, "free": 1}},
        {"verb": "free", "request": "A"},
        {"verb": "admit", "request": "B", "prompt": [5, 6, 7], "expect": {"keyed": [2]}},
    ],
}
VIOLATES = {"law": "INDEX-1", "target": BROKEN, "objection": "block 1 was handed out with key 0"}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(document: object, *arguments: str) -> Any:
    Path("trace.json").write_text(json.dumps(document), encoding="utf-8")
    return CliRunner().invoke(app, ["replay", "trace.json", *arguments])


def test_a_vector_that_holds_exits_0() -> None:
    outcome = run(TRACE)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.splitlines()[2:5] == [
        "  1. admit A prompt=[1 2]  ->  new 1 block, 1 free",
        "  2. free A  ->  2 free",
        "  3. admit B prompt=[5 6 7]  ->  new 2 blocks, 0 free",
    ]
    assert outcome.stdout.splitlines()[-1].startswith("On impl the laws hold at each of the 3 calls (")
    assert outcome.stdout.endswith(" checks), and all 3 expected values are met.\n")


def test_the_text_of_a_violation() -> None:
    outcome = run({**TRACE, "violates": VIOLATES})
    assert outcome.exit_code == 1
    assert outcome.stdout.replace(__name__, "MODULE") == (GOLDEN / "replay_violation.txt").read_text(encoding="utf-8")


def test_a_file_whose_violation_is_gone_says_so() -> None:
    outcome = run({**TRACE, "violates": VIOLATES}, "reference")
    assert outcome.exit_code == 0
    assert outcome.stdout.splitlines()[-1].startswith(
        "The violation no longer shows: reference does not break INDEX-1; the laws hold at each of the 3 calls ("
    )


def test_another_law_than_the_file_names_is_said() -> None:
    outcome = run({**TRACE, "violates": {**VIOLATES, "law": "RESET-1"}})
    assert outcome.exit_code == 1
    assert outcome.stdout.splitlines()[-1].endswith(" The file says RESET-1 is broken, which is not so.")


def test_an_expected_value_that_is_not_met_exits_1() -> None:
    wrong = {**TRACE, "actions": [{**TRACE["actions"][0], "expect": {"free": 2}}]}
    outcome = run(wrong)
    assert outcome.exit_code == 1
    assert "free is 1, expected 2" in outcome.stdout.splitlines()[-1]
    tolerant = run(wrong, SAFE)
    assert tolerant.exit_code == 0
    assert "1 expected value are for targets held to identity" in tolerant.stdout


def test_json_has_the_calls_and_the_violation() -> None:
    document = json.loads(run({**TRACE, "violates": VIOLATES}, "--json").stdout)
    assert (document["verdict"], document["still_shows"], document["violation"]["law"]) == ("violates", True, "INDEX-1")
    assert len(document["calls"]) == 3
    document = json.loads(run(TRACE, "--json").stdout)
    assert (document["verdict"], document["violation"], document["still_shows"]) == ("conforms", None, None)


def test_a_shipped_vector_goes_by_its_name() -> None:
    outcome = CliRunner().invoke(app, ["replay", "seed-trace", "reference"])
    assert outcome.exit_code == 0, outcome.output
    assert "prompt=[5 5 5 5 … 600 in all]" in outcome.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps(TRACE)[:80], "trace.json is not JSON, perhaps cut off"),
        ("", "trace.json is not JSON, perhaps cut off"),
        ("[1, 2]", "trace.json is JSON but no slotproof vector: at its top level"),
        ('{"name": "package"}', "trace.json is JSON but no slotproof vector: at its top level"),
        (json.dumps({**TRACE, "actions": [{"verb": "fly"}]}), "has an action with the unknown verb 'fly'"),
        (json.dumps({**TRACE, "laws": ["ABC-1"]}), "is tagged with the unknown law ABC-1; `slotproof laws` lists them"),
        (json.dumps({**TRACE, "config": {**TRACE["config"], "block_size": 0}}), "block size is 0"),
        (json.dumps({**TRACE, "config": {**TRACE["config"], "num_blocks": 1}}), "num_blocks is 1"),
        (json.dumps({**TRACE, "config": {**TRACE["config"], "groups": ["mamba"]}}), "'mamba' is not modelled"),
        (json.dumps({**TRACE, "config": {**TRACE["config"], "watermark_blocks": 2}}), "watermark_blocks is 2"),
        (json.dumps({**TRACE, "config": {**TRACE["config"], "groups": ["window:1"]}}), "window is 1"),
    ],
)
def test_a_file_that_is_no_vector_is_one_sentence(text: str, message: str) -> None:
    Path("trace.json").write_text(text, encoding="utf-8")
    outcome = CliRunner().invoke(app, ["replay", "trace.json"])
    assert outcome.exit_code == 2
    assert message in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1
    assert outcome.stdout == ""


def test_a_file_that_is_not_there_is_one_sentence() -> None:
    for name in ("none.json", "no-such-vector"):
        outcome = CliRunner().invoke(app, ["replay", name])
        assert outcome.exit_code == 2
        assert outcome.stderr.startswith(f"slotproof: {name} ")


def test_a_target_that_cannot_be_asked_says_why() -> None:
    windowed = {**TRACE, "config": {**TRACE["config"], "groups": ["window:4"]}}
    outcome = run(windowed, SAFE)
    assert outcome.exit_code == 2
    assert outcome.stderr.endswith(
        f"a block loses its key cannot be carried out on {SAFE}: safe has no window groups\n"
    )

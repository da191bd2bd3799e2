"""`slotproof explain`: every number of one call, the same that the specification compares."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slotproof.conformance.cli.app import app
from slotproof.conformance.cli.explanation import calls_of, explained
from slotproof.conformance.vector import shipped_vectors
from slotproof.spec import Refusal

GOLDEN = Path(__file__).parent / "golden"


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["explain", *arguments])


def test_the_refusal_of_the_traced_lesson_with_every_number() -> None:
    outcome = run("seed-trace")
    assert outcome.exit_code == 0, outcome.output
    lines = [line.rstrip() for line in outcome.stdout.splitlines()]
    assert lines == (GOLDEN / "explain_seed_trace.txt").read_text(encoding="utf-8").splitlines()


def test_json_has_every_number() -> None:
    document = json.loads(run("seed-trace", "--json").stdout)
    whole = document["whole_prompt"]
    assert (whole["tokens"], whole["needed"], whole["watermark"], whole["free"], whole["short"]) == (
        600,
        38,
        5,
        21,
        True,
    )
    assert whole["groups"] == [
        {"group": "full", "required": 38, "cap": None, "skipped": 0, "held": 0, "hit": 0, "missing": 38}
    ]
    assert (document["answer"], document["reason"], document["waiting_can_help"]) == (None, "whole-prompt", True)
    assert (document["step"], document["popped"], document["free_after"]) == (None, None, 21)


def test_a_window_is_explained_by_what_it_skips_releases_and_caps() -> None:
    document = json.loads(run("window-hit-is-charged-less-than-its-steps-need", "--json").stdout)
    assert document["released"] == [9]
    (group,) = document["step"]["groups"]
    assert (group["group"], group["required"], group["skipped"], group["held"]) == ("window:32", 25, 19, 21)
    assert document["reason"] == "step"


def test_any_call_can_be_chosen_and_a_yes_is_explained_too() -> None:
    document = json.loads(run("seed-trace", "--call", "4", "--json").stdout)
    assert document["answer"] is not None
    accepted = run("seed-trace", "--call", "1")
    assert "stage 3    hits pinned: idle none, held by others none; popped 1 2 3 4 5 6 7 8\n" in accepted.stdout
    assert "stage 4    128 finalized tokens fill 8 blocks; new keys for 1 2 3 4 5 6 7 8\n" in accepted.stdout
    assert accepted.stdout.splitlines()[-1] == "answer     8 new blocks, 91 free"


def test_parts_add_up_to_what_is_compared_in_every_shipped_vector() -> None:
    refused = 0
    for vector in random.Random(1).sample(shipped_vectors(), 25):
        for asked in calls_of(vector):
            explanation = explained(vector, asked)
            for count in (explanation.whole_prompt, explanation.step):
                if count is not None:
                    assert sum(group.missing for group in count.groups) + count.idle == count.needed
            assert (explanation.refused is not None) == isinstance(explanation.answer, Refusal)
            if isinstance(explanation.answer, Refusal):
                refused += 1
                never = explanation.alone.needed > explanation.alone.free
                assert explanation.answer.never == never
            else:
                taken = len(explanation.popped) + len(explanation.pinned_idle)
                assert explanation.step is not None
                assert explanation.step.needed == taken
    assert refused > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["seed-trace", "--call", "999"], "call 999 of seed-trace does not ask for slots; the calls that do are 1, 2,"),
        (["nosuch"], "nosuch is neither a file nor a shipped vector; shipped are, for example: "),
        (["nosuch.json"], "nosuch.json cannot be read"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], message: str) -> None:
    outcome = run(*arguments)
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith(f"slotproof: {message}")
    assert outcome.stdout == ""


def test_a_vector_without_a_call_has_nothing_to_explain(tmp_path: Path) -> None:
    path = tmp_path / "reset.json"
    config = {"num_blocks": 3, "block_size": 2, "groups": ["full"]}
    path.write_text(
        json.dumps(
            {
                "format": "slotproof-vector-1",
                "name": "r",
                "laws": ["RESET-1"],
                "config": config,
                "actions": [{"verb": "reset"}],
            }
        ),
        encoding="utf-8",
    )
    outcome = run(str(path))
    assert outcome.exit_code == 2
    assert "r never calls allocate_slots, so there is nothing to explain" in outcome.stderr

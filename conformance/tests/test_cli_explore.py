"""`slotproof explore`: verdicts, exit codes, the JSON contract, and files written on a violation."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slotproof.conformance.adapter import RequestView
from slotproof.conformance.cli.app import app
from slotproof.conformance.cli.explore import command
from slotproof.conformance.scope import small_worlds
from slotproof.conformance.targets.reference import ReferenceAdapter

TINY = ("--blocks", "4", "--requests", "1")


class ForgetsToPreempt(ReferenceAdapter):
    """Keeps what a preempted request held."""

    def preempt(self, request: RequestView) -> None:
        """Nothing."""


BROKEN = f"{__name__}:ForgetsToPreempt"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["explore", "--workers", "1", *arguments], env={"COLUMNS": "120"})


def as_json(*arguments: str) -> dict[str, Any]:
    document = json.loads(run(*arguments, "--json").stdout)
    assert isinstance(document, dict)
    return document


def test_an_exhausted_world_exits_0_and_says_what_was_visited() -> None:
    outcome = run(*TINY)
    assert outcome.exit_code == 0, outcome.output
    *_, last = outcome.stdout.splitlines()
    assert last.startswith("Exhausted: the specification keeps every law: 23 states, 80 transitions in ")
    assert "states/s, at most " in last
    words = " ".join(outcome.stdout.split())
    assert "groups full, block size 2, 3 usable blocks, max_model_len 5, unhashed-first" in words
    assert "1 request, at most 4 tokens, 2 new a call, lookahead 1, drafts 1 23 80 6" in words
    assert list(Path().iterdir()) == []


def test_json_has_the_fields_of_the_contract() -> None:
    document = as_json(*TINY, "--window", "2", "--watermark", "1", "--free-order", "lru", "--whole")
    assert set(document) >= {"states", "transitions", "depth", "exhausted", "seconds", "violations"}
    assert document["exhausted"] is True
    assert document["violations"] == []
    assert document["target"] is None
    (world,) = document["worlds"]
    assert world["config"]["groups"] == ["window:2"]
    assert (world["config"]["watermark_blocks"], world["config"]["free_order"]) == (1, "lru")
    assert (world["states"], world["transitions"]) == (document["states"], document["transitions"])
    assert "whole prompts" in world["world"]


def test_a_target_is_driven_through_the_same_world() -> None:
    plain, driven = as_json(*TINY), as_json(*TINY, "--replay", "impl")
    assert driven["target"] == "impl"
    assert [driven[count] for count in ("states", "transitions", "depth")] == [
        plain[count] for count in ("states", "transitions", "depth")
    ]
    outcome = run(*TINY, "--replay", "impl")
    assert "Exhausted: impl keeps every law and answers as the specification does: " in outcome.stdout


def test_a_broken_target_exits_1_and_the_printed_command_shows_it_again() -> None:
    outcome = run(*TINY, "--replay", BROKEN)
    assert outcome.exit_code == 1
    assert f"{BROKEN} breaks FREE-1: " in outcome.stdout
    assert f"\n  again   slotproof replay counterexample.json {BROKEN}\n" in outcome.stdout
    assert "\nWritten: counterexample.json\n" in outcome.stdout
    again = CliRunner().invoke(app, ["replay", "counterexample.json", BROKEN])
    assert again.exit_code == 1
    assert f"The violation still shows: {BROKEN} breaks FREE-1." in again.stdout
    assert CliRunner().invoke(app, ["replay", "counterexample.json", "impl"]).exit_code == 0


def test_save_writes_a_test_too_and_json_alone_writes_nothing() -> None:
    assert as_json(*TINY, "--replay", BROKEN)["violations"][0]["law"] == "FREE-1"
    assert list(Path().iterdir()) == []
    assert run(*TINY, "--replay", BROKEN, "--save", "found").exit_code == 1
    assert sorted(path.name for path in Path("found").iterdir()) == ["counterexample.json", "test_counterexample.py"]


@pytest.mark.parametrize("limit", [(*TINY, "--states", "10"), ("--seconds", "0.1", "--requests", "3", "--blocks", "6")])
def test_a_limit_exits_3(limit: tuple[str, ...]) -> None:
    outcome = run(*limit)
    assert outcome.exit_code == 3
    assert "Not exhausted, no law broken so far by the specification: " in outcome.stdout
    assert " and more" in outcome.stdout


def test_a_limit_stops_a_prefix() -> None:
    document = as_json(*TINY, "--states", "10")
    assert (document["states"], document["exhausted"]) == (10, False)


def test_without_renaming_more_worlds_count() -> None:
    assert as_json(*TINY, "--no-renaming")["states"] > as_json(*TINY)["states"]


def test_without_a_world_the_small_worlds_are_explored() -> None:
    document = as_json("--states", "3")
    assert len(document["worlds"]) == len(small_worlds())
    assert document["states"] == 3 * len(small_worlds())


def test_every_option_about_the_world_changes_it() -> None:
    given = (
        *("--tokens", "3", "--prompt", "2", "--block-size", "1", "--step", "1", "--lookahead", "0", "--drafts", "0"),
        *("--reserved", "1", "--caching", "off", "--in-flight", "--with", "evict", "--with", "defer"),
    )
    (world,) = as_json(*TINY, *given, "--states", "5")["worlds"]
    assert world["world"] == (
        "1 request, at most 3 tokens, 1 new a call, lookahead 0, drafts 0, reserved 1, steps in flight, evict, defer, "
        "return"
    )
    assert (world["config"]["block_size"], world["config"]["caching"]) == (1, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--window", "1"), "this world is not possible: window is 1: a sliding window of 1 is not modelled"),
        (("--groups", "mamba"), "group kind 'mamba' is not modelled"),
        (("--groups", "full", "--window", "3"), "--window and --groups both say what the groups are; give one of them"),
        (("--prompt", "5"), "a prompt of 5 tokens is not possible with at most 4 tokens; use 1 to 4"),
        (("--watermark", "9"), "this world is not possible: watermark_blocks is 9"),
        (("--replay", "no_such_module:X"), "There is no module 'no_such_module'"),
    ],
)
def test_a_mistake_is_one_sentence_and_exits_2(arguments: tuple[str, ...], words: str) -> None:
    outcome = run(*arguments)
    assert outcome.exit_code == 2
    assert words in outcome.stderr
    assert len(outcome.stderr.strip().splitlines()) == 1


def test_the_help_says_what_the_exit_codes_mean() -> None:
    assert command.__doc__ is not None
    for code in ("0: exhausted", "1: a law", "3: stopped", "2: nothing"):
        assert code in command.__doc__

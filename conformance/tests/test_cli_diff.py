"""`slotproof diff`: what is compared, what is printed, how it ends."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from slotproof.conformance.cli.app import app
from slotproof.conformance.scenarios import scenarios

MODULE = """
from dataclasses import replace

from slotproof.conformance.scheduler_model import World
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention
from slotproof.spec.scheduler import FCFS, Job, Scope

OLD = replace(FCFS, name="mine")
CAREFUL = replace(OLD, name="careful", reserved=lambda state, call: 1 if state.running else 0)
TINY = World("tiny", Scope(Config(3, (FullAttention(2),), 8, 8), (Job("A", (1, 1), (2,)), Job("B", (1, 2), (2,))), 4))
NUMBER = 3
BROKEN = replace(OLD, name="broken", reserved=lambda state, call: 1 // 0)
STRANGER = replace(OLD, name="stranger", victim=lambda move, name: "nobody")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_policies.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["diff", *arguments])


def test_a_scenario_shows_its_trace_its_law_and_the_state() -> None:
    outcome = run("--scenario", "s2")
    assert outcome.exit_code == 1
    lines = outcome.stdout.splitlines()
    assert lines[0] == "S2. Reservation gate strands the request it protects"
    assert "SCHED-5 broken by reserved for parked loads, kept by nothing is reserved" in lines
    assert "     then, for ever:" in lines
    assert "  found   requests B, H can wait for ever: nothing is scheduled any more" in lines
    (refusal,) = [line for line in lines if line.startswith("  5. ")]
    assert "H is refused (needs 4, 5 free - 2 reserved)" in refusal
    assert lines[-1] == "NEW breaks SCHED-5, which OLD keeps: 5 turns, with 2 calls of schedule, then 1 turn for ever."


def test_an_allocator_that_raises_is_told_in_the_turn() -> None:
    outcome = run("--scenario", "S5")
    assert (
        "  1. schedule  ->  allocate_slots for request R raised IndexError: tuple index out of range"
        in outcome.stdout.splitlines()
    )


@pytest.mark.parametrize("name", ["S1", "S7", "S8"])
def test_of_several_broken_laws_the_one_the_scenario_is_about_is_named(name: str) -> None:
    document = json.loads(run("--scenario", name, "--json").stdout)
    assert document["law"] == scenarios()[name].law_id
    assert document["relation"] == "breaks"
    assert document["trace"]["steps"] <= scenarios()[name].by_hand


def test_policies_of_ones_own_are_compared_in_a_world_of_ones_own(here: Path) -> None:
    outcome = run("my_policies:OLD", "my_policies:CAREFUL", "--world", "my_policies:TINY")
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.splitlines()[-1].startswith("NEW refines OLD: it admits less at times, in all ")


def test_a_policy_is_equal_to_itself(here: Path) -> None:
    outcome = run("fcfs", "my_policies:OLD", "--world", "plain", "--json")
    document = json.loads(outcome.stdout)
    assert (outcome.exit_code, document["relation"], document["trace"]) == (0, "equal", None)
    (world,) = document["worlds"]
    assert (world["name"], world["states"], world["exhausted"], world["old_breaks"]) == ("plain", 250, True, [])


def test_a_difference_shows_what_old_does_instead() -> None:
    outcome = run("fcfs", "priority", "--world", "priority")
    assert outcome.exit_code == 1
    lines = outcome.stdout.splitlines()
    assert "OLD and NEW part in world priority, after 3 turns" in lines
    assert any(line.startswith("  OLD     schedule  ->  ") for line in lines)
    assert lines[-1].startswith("NEW is different from OLD and breaks no law that OLD keeps: 3 turns")


def test_without_time_nothing_is_claimed() -> None:
    outcome = run("fcfs", "fcfs", "--world", "abort", "--seconds", "0.1")
    assert outcome.exit_code in (0, 3)
    if outcome.exit_code == 3:
        assert outcome.stdout.splitlines()[-1].startswith("Not exhausted: no difference in the ")


def test_policies_are_compared_on_random_turns_too(here: Path) -> None:
    outcome = run("fcfs", "my_policies:CAREFUL", "--steps", "1500", "--groups", "full")
    assert outcome.exit_code == 0, outcome.output
    assert re.fullmatch(
        r"NEW refines OLD: it admits less at times, on [\d,]+ random turns.", outcome.stdout.splitlines()[-1]
    )


def test_random_turns_shrink_to_a_trace_and_a_page(tmp_path: Path) -> None:
    file = tmp_path / "trace.html"
    outcome = run("fcfs", "priority", "--seed", "2", "--steps", "2000", "--groups", "full", "--html", str(file))
    assert outcome.exit_code == 1, outcome.output
    lines = outcome.stdout.splitlines()
    assert any(line.startswith("OLD and NEW part in world random, after ") for line in lines)
    assert any(line.startswith("  OLD     schedule  ->  ") for line in lines)
    assert lines[-1].startswith("NEW is different from OLD and breaks no law that OLD keeps, found after ")
    assert file.read_text().startswith("<!doctype html>")


def test_the_page_is_written(tmp_path: Path) -> None:
    file = tmp_path / "trace.html"
    outcome = run("--scenario", "S7", "--html", str(file))
    assert f"Written: {file}" in outcome.stdout
    assert file.read_text().startswith("<!doctype html>")


def test_without_a_trace_there_is_no_page(tmp_path: Path) -> None:
    file = tmp_path / "trace.html"
    outcome = run("fcfs", "fcfs", "--world", "never", "--html", str(file))
    assert outcome.exit_code == 0
    assert outcome.stderr == f"slotproof: there is no trace to show, so {file} was not written\n"
    assert not file.exists()


def test_the_list_of_scenarios() -> None:
    assert [line.split()[0] for line in run("--scenario", "list").stdout.splitlines()[2:]] == list(scenarios())
    document = json.loads(run("--scenario", "list", "--json").stdout)
    assert document["scenarios"][0] == {
        "id": "S1",
        "title": "Full-length admission meets parked loads",
        "law": "SCHED-5",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name two policies, OLD and NEW, or a shipped change with --scenario S1 to S9"),
        (("fcfs",), "name two policies, OLD and NEW, or a shipped change with --scenario S1 to S9"),
        (("fcfs", "lifo"), "there is no policy 'lifo'; use fcfs, priority, vllm-fcfs, vllm-priority, or module:policy"),
        (("fcfs", "fcfs", "--world", "mars"), "there is no world 'mars'; use plain, "),
        (("fcfs", "fcfs", "--steps", "9", "--world", "plain"), "--world means nothing for random turns; leave it out"),
        (
            ("fcfs", "fcfs", "--seed", "1"),
            "--seed means nothing for a search of every state; random turns are asked for",
        ),
        (
            ("fcfs", "my_policies:BROKEN", "--steps", "50"),
            "a function of policy 'fcfs' or 'broken' raised ZeroDivisionError (my_policies.py, line ",
        ),
        (("--scenario", "S10"), "there is no scenario 'S10'; the scenarios are S1, S2"),
        (("fcfs", "fcfs", "--scenario", "S1"), "--scenario S1 brings its two policies; leave OLD and NEW out"),
        (("fcfs", "nowhere:P"), "the module of policy 'nowhere:P' cannot be imported: ModuleNotFoundError"),
        (("fcfs", "my_policies:NUMBER"), "policy 'my_policies:NUMBER' is a int, not a Policy of slotproof; use"),
        (("fcfs", "my_policies:MISSING"), "policy 'my_policies:MISSING' is a NoneType, not a Policy of slotproof"),
        (
            ("fcfs", "my_policies:BROKEN", "--world", "plain"),
            "a function of policy 'fcfs' or 'broken' raised ZeroDivisionError in world plain (my_policies.py, line ",
        ),
        (
            ("fcfs", "my_policies:STRANGER", "--world", "plain"),
            "a function of policy 'fcfs' or 'stranger' raised ValueError in world plain (schedule.py, line ",
        ),
        (("--scenario", "S7", "--html", "/nowhere/x.html"), "/nowhere/x.html cannot be written: "),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(here: Path, arguments: tuple[str, ...], message: str) -> None:
    outcome = run(*arguments)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"slotproof: {message}")
    assert len(outcome.stderr.splitlines()) == 1

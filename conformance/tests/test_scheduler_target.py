"""A scheduler as a target: in this process, behind a child, through `verify` and the command line."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slotproof.conformance.cli.app import app
from slotproof.conformance.cli.replay_trace import replay_trace
from slotproof.conformance.errors import AdapterError, SetupError
from slotproof.conformance.plan import Plan
from slotproof.conformance.report import law_rows, report_json
from slotproof.conformance.scheduler_laws import LAW_IDS
from slotproof.conformance.targets.registry import load_allocator, load_target
from slotproof.conformance.verify import settings_for, verify

TINY = (Path(__file__).parent / "tiny_scheduler.py").read_text()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the small scheduler, right and faulty, as a third party would have it."""
    faulty = "\n\ndef twice() -> TinyScheduler:\n    return TinyScheduler('a token is told twice')\n"
    (tmp_path / "my_scheduler.py").write_text(TINY + faulty)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def plan(target: str, steps: int = 2000) -> Plan:
    return Plan(target, settings_for(["full"]), steps=steps, workers=1)


def test_a_right_scheduler_conforms_law_by_law(here: Path) -> None:
    report = verify(plan("my_scheduler:TinyScheduler"))
    assert report.conforms
    assert [row["id"] for row in law_rows(report)] == list(LAW_IDS)
    assert {row["status"] for row in law_rows(report)} == {"held"}
    situations = {row["situation"]: row for row in report_json(report)["reach"] if row["count"]}
    assert {"step", "preemption", "session goes on"} <= set(situations)


def test_behind_a_child_it_takes_the_same_walk(here: Path) -> None:
    near = verify(plan("my_scheduler:TinyScheduler", 600))
    far = verify(plan(f"my_scheduler:TinyScheduler@{sys.executable}", 600))
    assert far.tally == near.tally


def test_an_exception_in_a_child_is_told_with_its_place(here: Path) -> None:
    dying = "\n\nclass Dying(TinyScheduler):\n    def schedule(self) -> Plan:\n        assert not self.waiting\n"
    (here / "my_scheduler.py").write_text(TINY + dying)
    report = verify(plan(f"my_scheduler:Dying@{sys.executable}", 300))
    (found,) = report.found
    assert found.law_id == "SCHED-5"
    assert "AssertionError: in schedule: assert not self.waiting" in found.text


def test_the_command_line_shows_laws_reach_and_a_trace_that_replays(here: Path) -> None:
    run = CliRunner().invoke(
        app, ["verify", f"my_scheduler:twice@{sys.executable}", "--groups", "full", "--steps", "1000"]
    )
    assert run.exit_code == 1
    assert "MEM-1" in run.output
    assert "How often each situation was met" in run.output
    assert "is told" in run.output
    trace = json.loads((here / "counterexample.json").read_text())
    assert trace["violates"]["law"] == "MEM-1"
    again = CliRunner().invoke(app, ["replay", "counterexample.json"])
    assert again.exit_code == 1
    assert "The violation still shows" in again.output
    right = CliRunner().invoke(app, ["replay", "counterexample.json", "my_scheduler:TinyScheduler"])
    assert right.exit_code == 0
    assert "The violation no longer shows" in right.output
    as_json = CliRunner().invoke(app, ["replay", "counterexample.json", "my_scheduler:twice", "--json"])
    assert json.loads(as_json.output)["violation"]["law"] == "MEM-1"


def test_a_scheduler_is_no_allocator_and_the_other_way_round(here: Path) -> None:
    with pytest.raises(SetupError, match="is a scheduler; this needs an allocator"):
        load_allocator("my_scheduler:TinyScheduler")
    verify(plan("my_scheduler:twice", 500))
    CliRunner().invoke(app, ["verify", "my_scheduler:twice", "--groups", "full", "--steps", "1000"])
    with pytest.raises(SetupError, match="is the trace of a scheduler and impl is none"):
        replay_trace("counterexample.json", "impl")


def test_a_scheduler_without_a_call_is_named(here: Path) -> None:
    (here / "half.py").write_text("class Half:\n    def schedule(self):\n        pass\n")
    with pytest.raises(AdapterError, match="is a Half without reset, add_request"):
        load_target("half:Half")


def test_a_law_of_schedulers_can_be_asked_for_alone(here: Path) -> None:
    run = CliRunner().invoke(
        app, ["verify", "my_scheduler:twice", "--groups", "full", "--steps", "600", "--law", "pool-1", "--json"]
    )
    assert run.exit_code == 0
    rows = {row["id"]: row["status"] for row in json.loads(run.output)["laws"]}
    assert rows["POOL-1"] == "held"
    assert rows["MEM-1"] == "skipped"

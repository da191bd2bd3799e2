"""The page of a target's trace, through `explore --html` and `replay --html`."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slotproof.conformance.adapter import RequestView
from slotproof.conformance.cli.app import app
from slotproof.conformance.target_page import target_page
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.conformance.vector import shipped_vectors
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention, SlidingWindow

from .pages import Reader, draw

TINY = (Path(__file__).parent / "tiny_scheduler.py").read_text()
PAGE = Path("trace.html")


class ForgetsToPreempt(ReferenceAdapter):
    """Keeps what a preempted request held."""

    def preempt(self, request: RequestView) -> None:
        """Nothing."""


BROKEN = f"{__name__}:ForgetsToPreempt"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty = "\n\ndef twice() -> TinyScheduler:\n    return TinyScheduler('a token is told twice')\n"
    (tmp_path / "my_scheduler.py").write_text(TINY + faulty)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def written() -> Reader:
    """The page that a command wrote."""
    text = PAGE.read_text(encoding="utf-8")
    reader = Reader(text)
    assert text.startswith("<!doctype html>")
    assert reader.open == reader.links == []
    assert "script" not in reader.tags
    return reader


def test_explore_draws_its_counterexample() -> None:
    arguments = "--workers", "1", "--blocks", "4", "--requests", "1", "--replay", BROKEN, "--html", str(PAGE)
    outcome = CliRunner().invoke(app, ["explore", *arguments])
    assert outcome.exit_code == 1, outcome.output
    assert any(line.startswith("Written: ") and line.endswith(str(PAGE)) for line in outcome.stdout.splitlines())
    reader = written()
    assert "broken by" in reader.text
    assert "Found:" in reader.text
    assert {"A[0]", "running"} <= set(reader.marked)


def test_explore_without_a_counterexample_says_that_there_is_no_page() -> None:
    arguments = "--workers", "1", "--blocks", "3", "--requests", "1", "--tokens", "2", "--html", str(PAGE)
    outcome = CliRunner().invoke(app, ["explore", *arguments])
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stderr.splitlines()[-1] == f"slotproof: there is no trace to show, so {PAGE} was not written"
    assert not PAGE.exists()


def test_replay_draws_every_state_of_a_vector() -> None:
    outcome = CliRunner().invoke(app, ["replay", "seed-trace", "reference", "--html", str(PAGE)])
    assert outcome.exit_code == 0, outcome.output
    assert f"Written: {PAGE}" in outcome.stdout.splitlines()
    (vector,) = [vector for vector in shipped_vectors() if vector.name == "seed-trace"]
    reader = written()
    assert reader.tags.count("section") == len(vector.steps) + 1
    assert "1. admit " in reader.text
    assert "offered for" in reader.text


def test_replay_draws_the_trace_of_a_scheduler() -> None:
    verified = CliRunner().invoke(app, ["verify", "my_scheduler:twice", "--groups", "full", "--steps", "300"])
    assert verified.exit_code == 1, verified.output
    outcome = CliRunner().invoke(app, ["replay", "counterexample.json", "--html", str(PAGE), "--json"])
    assert outcome.exit_code == 1, outcome.output
    reader = written()
    assert "MEM-1 broken by my_scheduler:twice" in reader.text
    assert "waiting: A" in reader.text


def test_the_prefix_of_a_key_is_told_in_every_group() -> None:
    (vector,) = [vector for vector in shipped_vectors() if vector.name == "hybrid-prefix-of-three-blocks"]
    actions = [step.action for step in vector.steps]
    assert len(vector.config.groups) > 1
    reader = Reader(target_page(ReferenceAdapter(), "reference", vector.config, actions))
    assert "offered for" in reader.text
    assert "?" not in reader.text


def test_names_cannot_break_the_page() -> None:
    config = Config(9, (FullAttention(2), SlidingWindow(2, 3)), 8, 8)
    (vector,) = [vector for vector in shipped_vectors() if vector.name == "seed-trace"]
    first = vector.steps[0].action
    action = replace(first, arguments={**first.arguments, "request": "<script>", "prompt": (1, 2, 1)})
    text = target_page(ReferenceAdapter(), "<b>", config, [action])
    assert "<script>" not in text
    assert "<b> " not in text
    assert "&lt;script&gt;" in text


def test_a_request_trace_is_drawn_by_another_option(tmp_path: Path) -> None:
    Path("requests.jsonl").write_text('{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}\n')
    outcome = CliRunner().invoke(app, ["replay", "requests.jsonl", "--html", str(PAGE)])
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr == (
        "slotproof: --html draws counterexamples and vectors; a recorded request trace is drawn by --plot\n"
    )


@pytest.mark.thirdparty
def test_a_browser_draws_the_page(tmp_path: Path) -> None:
    (vector,) = [vector for vector in shipped_vectors() if vector.name == "seed-trace"]
    actions = [step.action for step in vector.steps]
    draw(target_page(ReferenceAdapter(), "reference", vector.config, actions), tmp_path)

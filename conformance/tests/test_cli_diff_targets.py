"""`slotproof diff` for two targets: equal, or the shortest trace that tells them apart; and what mistakes say."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from slotproof.conformance.cli.app import app

from .pages import Reader

TINY = (Path(__file__).parent / "tiny_scheduler.py").read_text()

MODULE = """
from dataclasses import replace

from slotproof.conformance.targets.impl import ImplAdapter
from slotproof.spec.config import FreeOrder
from slotproof.spec.scheduler import FCFS

POLICY = replace(FCFS, name="mine")


class NewestFirst(ImplAdapter):
    # Keyless blocks go to the front, so the cache is kept: here every block goes to the back.
    def reset(self, config):
        super().reset(replace(config, free_order=FreeOrder.LRU))


class Careful(ImplAdapter):
    # Keeps a block back from everybody.
    def allocate_slots(self, request, num_new_tokens, *, reserved_blocks=0, **options):
        return super().allocate_slots(request, num_new_tokens, reserved_blocks=reserved_blocks + 1, **options)


class Windowless(ImplAdapter):
    profile = replace(ImplAdapter.profile, name="windowless", group_kinds=("full",))


class Dying(ImplAdapter):
    def preempt(self, request):
        raise RuntimeError("cannot preempt")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_targets.py").write_text(MODULE)
    faulty = "\n\ndef twice() -> TinyScheduler:\n    return TinyScheduler('a token is told twice')\n"
    (tmp_path / "my_scheduler.py").write_text(TINY + faulty)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["diff", *arguments])


def test_our_allocator_and_the_specification_do_the_same() -> None:
    outcome = run("impl", "reference", "--steps", "2000")
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.splitlines()[-1] == (
        "NEW is equal to OLD in all that was compared (identity), on 2,000 actions."
    )


def test_another_free_order_is_told_by_the_shortest_trace(here: Path) -> None:
    outcome = run("impl", "my_targets:NewestFirst", "--groups", "full", "--steps", "3000", "--save", "found")
    lines = outcome.stdout.splitlines()
    assert outcome.exit_code == 1, outcome.output
    assert "OLD and NEW part in their free queue" in lines
    calls = [line.split(".")[0].strip() for line in lines if line[:4].strip(" .").isdigit()]
    assert calls == ["1", "2"]
    assert lines[-1].startswith("NEW is different from OLD in its free queue (identity), found after ")
    assert "  again   slotproof replay found/difference.json my_targets:NewestFirst" in lines
    again = CliRunner().invoke(app, ["replay", "found/difference.json", "impl"])
    assert again.exit_code == 0, again.output


def test_the_page_shows_where_both_end(here: Path) -> None:
    outcome = run("impl", "my_targets:Careful", "--groups", "full", "--steps", "2000", "--html", "trace.html")
    assert outcome.exit_code == 1, outcome.output
    assert "Written: trace.html" in outcome.stdout.splitlines()
    reader = Reader(Path("trace.html").read_text(encoding="utf-8"))
    assert reader.open == reader.links == []
    assert "impl and my_targets:Careful part in their " in reader.text
    assert ", by OLD (impl " in reader.text
    assert ", by NEW (my_targets:Careful " in reader.text


def test_without_a_difference_there_is_no_page(here: Path) -> None:
    outcome = run("impl", "impl", "--groups", "full", "--steps", "100", "--html", "trace.html")
    assert outcome.stderr == "slotproof: there is no trace to show, so trace.html was not written\n"
    assert not Path("trace.html").exists()


def test_what_is_not_compared_is_no_difference(here: Path) -> None:
    arguments = "my_targets:NewestFirst", "--groups", "full", "--steps", "600", "--json", "--strictness"
    decisions = json.loads(run("impl", *arguments, "counts").stdout)
    assert decisions["trace"] is None or decisions["trace"]["part"] != "free queue"
    assert decisions["strictness"] == "counts"


def test_a_refusal_too_many_is_a_difference_of_decisions(here: Path) -> None:
    outcome = run("impl", "my_targets:Careful", "--strictness", "decisions", "--steps", "3000", "--json")
    document = json.loads(outcome.stdout)
    assert (outcome.exit_code, document["relation"], document["trace"]["part"]) == (1, "different", "answer")
    assert (document["trace"]["old"], document["trace"]["new"]) == ("admitted", "refused")
    assert [action["verb"] for action in document["trace"]["replay"]["actions"]] == ["admit"]


def test_an_exception_on_one_side_is_a_difference(here: Path) -> None:
    outcome = run("impl", "my_targets:Dying", "--steps", "3000", "--json")
    document = json.loads(outcome.stdout)
    assert (outcome.exit_code, document["trace"]["part"]) == (1, "exception")
    assert "RuntimeError: cannot preempt" in document["trace"]["new"]


def test_an_exception_on_both_sides_is_none(here: Path) -> None:
    assert run("my_targets:Dying", "my_targets:Dying", "--steps", "1000").exit_code == 0


def test_settings_that_one_of_them_lacks_are_left_out(here: Path) -> None:
    assert run("impl", "my_targets:Windowless", "--steps", "500").exit_code == 0
    outcome = run("impl", "my_targets:Windowless", "--groups", "window")
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("slotproof: nothing to compare: impl and windowless has no window groups")


def test_two_schedulers_in_processes_of_their_own_are_compared(here: Path) -> None:
    right, wrong = (f"my_scheduler:{name}@{sys.executable}" for name in ("TinyScheduler", "twice"))
    assert run(right, "my_scheduler:TinyScheduler", "--steps", "400", "--groups", "full").exit_code == 0
    outcome = run(right, wrong, "--steps", "400", "--groups", "full", "--save", "found")
    assert outcome.exit_code == 1, outcome.output
    lines = outcome.stdout.splitlines()
    assert "OLD and NEW part in their output" in lines
    assert lines[-1].endswith(": 2 actions.")
    assert CliRunner().invoke(app, ["replay", "found/difference.json", "my_scheduler:TinyScheduler"]).exit_code == 0


def test_the_same_seed_gives_the_same_trace(here: Path) -> None:
    arguments = "impl", "my_targets:Careful", "--steps", "2000", "--seed", "3", "--json"
    first, second = (json.loads(run(*arguments).stdout) for _ in range(2))
    del first["seconds"], second["seconds"]
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("impl", "fcfs"), "fcfs is a policy and impl a target; compare two of a kind"),
        (("my_targets:POLICY", "impl"), "my_targets:POLICY is a policy and impl a target; compare two of a kind"),
        (("impl", "imlp"), "There is no target 'imlp'; use impl, "),
        (("impl", "my_scheduler:TinyScheduler"), "one of the two is a scheduler and the other an allocator; compare "),
        (("impl", "reference", "--world", "plain"), "--world means nothing for two targets; leave it out"),
        (("fcfs", "fcfs", "--strictness", "counts"), "--strictness means nothing for two policies; leave it out"),
        (("impl", "reference", "--groups", "mamba"), "group kind 'mamba' is not modelled"),
        (("impl", "my_targets:Careful", "--save", "/proc/x"), "/proc/x/difference.json cannot be written: "),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(here: Path, arguments: tuple[str, ...], message: str) -> None:
    outcome = run(*arguments)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"slotproof: {message}")
    assert len(outcome.stderr.splitlines()) == 1

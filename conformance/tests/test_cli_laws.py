"""`slotproof laws`: the only list, with its evidence."""

import json

from typer.testing import CliRunner

from slotproof.conformance.cli.app import app
from slotproof.spec.laws import ALL_LAWS


def test_every_law_is_listed_with_its_sentence_and_level() -> None:
    rows = json.loads(CliRunner().invoke(app, ["laws", "--json"]).stdout)["laws"]
    assert [(row["id"], row["sentence"]) for row in rows] == [(law.id, law.sentence) for law in ALL_LAWS]
    assert {row["held_from"] for row in rows} == {"safety", "decisions", "counts", "identity", "schedulers"}
    assert "seed-trace" in next(row for row in rows if row["id"] == "ADMIT-1")["vectors"]
    shown = CliRunner().invoke(app, ["laws"]).stdout
    assert [line.split()[0] for line in shown.splitlines() if line.startswith(tuple(law.id for law in ALL_LAWS))] == [
        law.id for law in ALL_LAWS
    ]


def test_a_law_is_shown_in_full_by_its_id() -> None:
    outcome = CliRunner().invoke(app, ["laws", "refuse-1"])
    assert (
        "theorem a refusal leaves no trace (any pool, table and number of hits; full attention or window)"
        in outcome.stdout
    )
    assert outcome.exit_code == 0
    assert outcome.stdout.startswith("REFUSE-1: A stage 0 refusal changes nothing")
    assert "\n  vector seed-trace\n" in outcome.stdout


def test_a_law_about_schedulers_names_the_changes_that_break_it() -> None:
    outcome = CliRunner().invoke(app, ["laws", "SCHED-2"])
    assert outcome.stdout.startswith("SCHED-2: A refusal in the running pass preempts and retries")
    assert "\n  held by scheduling policies\n" in outcome.stdout
    assert "\n  scenario S3 Deferred free and preempt-and-retry\n" in outcome.stdout


def test_an_allocator_is_not_held_to_a_law_about_schedulers() -> None:
    outcome = CliRunner().invoke(app, ["verify", "--law", "SCHED-2", "--law", "POOL-1"])
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr == (
        "slotproof: SCHED-2 is a law about schedulers, and impl is an allocator; verify a scheduler, or hold policies "
        "to it with `slotproof diff`\n"
    )


def test_an_unknown_law_is_named() -> None:
    outcome = CliRunner().invoke(app, ["laws", "XYZ-1"])
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr == "slotproof: there is no law 'XYZ-1'; `slotproof laws` lists them\n"


def test_without_z3_the_laws_are_listed_without_theorems(without_z3: None) -> None:
    outcome = CliRunner().invoke(app, ["laws", "refuse-1"])
    assert outcome.exit_code == 0
    assert "REFUSE-1: " in outcome.stdout
    assert "theorem" not in outcome.stdout

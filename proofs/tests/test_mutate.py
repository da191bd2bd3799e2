"""The runner: who kills a mutant and how, what survives, and what the list of equivalents may say."""

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from slotproof.proofs import mutate
from slotproof.proofs.mutants import Mutant, specification_mutants
from slotproof.proofs.mutate import Kill, NotProved, Plan, Proved, Report, Result, Verdict
from slotproof.proofs.operations import Operation, Step, World
from slotproof.proofs.prove import stated_theorems
from slotproof.proofs.scope import Scope
from slotproof.proofs.theorem import Theorem
from slotproof.spec import arithmetic
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention
from slotproof.spec.snapshot import Snapshot, empty

MUTANTS = {mutant.id: mutant for mutant in specification_mutants()}
THEOREMS = {stated.name: stated for stated in stated_theorems()}

EQUALITY = MUTANTS["arithmetic.is_short:1 compare"]
"""`>` becomes `>=`: a need that just fits is refused."""

TIE = MUTANTS["arithmetic.imin:1 compare"]
"""`<=` becomes `<`: which of two equal integers is taken is no matter."""

UNSEEN = MUTANTS["release.free:3 step"]
"""No theorem here executes it."""


def proved(name: str, *executed: str) -> Proved:
    return Proved(THEOREMS[name], 0.0, frozenset(executed))


ADMITS = proved("equality admits", "arithmetic.is_short")
LEAVES = proved("what is admitted leaves the reserve", "arithmetic.is_short")


def nothing() -> Iterator[Kill]:
    yield from ()


def violated(law: str = "FREE-1") -> Kill:
    return Kill(Verdict.VIOLATED, "walk", law, "an objection")


def for_ever() -> Iterator[Kill]:
    while True:
        yield from ()


CRASHED = Kill(Verdict.CRASH, "walk", "", "IndexError: tuple index out of range")


def try_one(mutant: Mutant, *theorems: Proved, second: mutate.Oracle = nothing, exhaustive: bool = False) -> Result:
    (result,) = mutate.tried([mutant], Plan(theorems, second, exhaustive))
    return result


class TestTheBaseline:
    def test_a_theorem_is_kept_for_the_worlds_that_it_speaks_about(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Given a theorem about two free blocks, when it meets worlds of one and of two, then it is kept for one."""
        worlds = tuple(World(f"{size} blocks", partial(a_pool, size)) for size in (1, 2))
        operation = Operation("count", lambda snapshot: snapshot.pool.num_free(), worlds, "s")

        def two_are_free(s: Scope, step: Step) -> None:
            if step.result == 2:
                s.prove(step.result > 1)

        stated = Theorem("POOL-4", "two are free", "Two are free.", "s", two_are_free, operation)
        monkeypatch.setattr(mutate, "stated_theorems", lambda: (stated,))
        (kept,) = mutate.baseline()
        assert kept.theorem.operation is not None
        assert [world.words for world in kept.theorem.operation.worlds] == ["2 blocks"]
        assert "pool.Pool.num_free" in kept.executed

    def test_a_theorem_that_is_not_proved_ends_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def wrong(s: Scope) -> None:
            s.prove(s.integer("x") > 0)

        monkeypatch.setattr(mutate, "stated_theorems", lambda: (Theorem("FREE-1", "wrong", "Wrong.", "s", wrong),))
        with pytest.raises(NotProved, match="the theorem 'wrong' about FREE-1 is not proved without any mutant"):
            mutate.baseline()

    def test_a_theorem_that_raises_ends_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mutate, "stated_theorems", lambda: (RAISES,))
        with pytest.raises(NotProved, match="the theorem 'raises' raises without any mutant"):
            mutate.baseline()


def a_pool(free: int) -> tuple[Snapshot, tuple[()]]:
    return empty(Config(free + 1, (FullAttention(2),), max_model_len=8, max_in_flight_tokens=8)), ()


RAISES = Theorem("FREE-1", "raises", "Raises.", "s", lambda s: s.prove(s.integer("x").nonsense))


class TestWhoKills:
    def test_a_theorem_that_is_no_longer_proved(self) -> None:
        result = try_one(EQUALITY, LEAVES, ADMITS)
        assert result.verdict == Verdict.FAILED
        assert result.kill is not None
        assert (result.kill.killer, result.kill.law) == ("equality admits", "REFUSE-2")
        assert "needed = " in result.kill.what

    def test_only_theorems_that_execute_the_function_are_asked(self) -> None:
        result = try_one(EQUALITY, proved("equality admits", "arithmetic.ceil_div"))
        assert result.verdict == Verdict.SURVIVED

    def test_the_second_oracle_if_no_theorem_does(self) -> None:
        result = try_one(UNSEEN, ADMITS, second=lambda: iter([violated()]))
        assert (result.verdict, result.kill) == (Verdict.VIOLATED, violated())

    def test_a_crash_counts_only_if_nobody_judges_the_mutant(self) -> None:
        assert try_one(UNSEEN, second=lambda: iter([CRASHED])).verdict == Verdict.CRASH
        assert try_one(UNSEEN, second=lambda: iter([CRASHED, violated()])).verdict == Verdict.VIOLATED

    def test_a_theorem_that_raises_is_a_crash(self) -> None:
        result = try_one(EQUALITY, Proved(RAISES, 0.0, frozenset({"arithmetic.is_short"})))
        assert result.verdict == Verdict.CRASH
        assert result.kill is not None
        assert result.kill.what.startswith("AttributeError: ")

    def test_one_that_does_not_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mutate, "TIME_LIMIT", 1)
        result = try_one(UNSEEN, second=for_ever)
        assert result.verdict == Verdict.TIMEOUT
        assert result.kills == (Kill(Verdict.TIMEOUT, "run-time laws", "", "took more than 1 s"),)

    def test_one_that_takes_the_process_down(self) -> None:
        result = try_one(UNSEEN, second=lambda: os._exit(3))
        assert result.kills == (Kill(Verdict.CRASH, "run-time laws", "", "the process ended with 3"),)

    def test_who_is_known_to_notice_a_mutant_is_asked_first(self) -> None:
        """Given two theorems and the second oracle, which all object, then the one on record is the killer."""
        dropped = MUTANTS["arithmetic.is_short:1 arithmetic"]

        def killer(*known: str) -> str:
            recorded = {dropped.id: frozenset(known)}
            (result,) = mutate.tried([dropped], Plan((LEAVES, ADMITS), lambda: iter([violated()]), recorded=recorded))
            assert result.kill is not None
            return result.kill.killer

        assert killer() == LEAVES.theorem.name
        assert killer(ADMITS.theorem.name, "run-time laws") == ADMITS.theorem.name
        assert killer("run-time laws") == "walk"

    def test_the_first_crash_is_enough_where_nobody_is_known_to_judge(self) -> None:
        def verdict(*known: str) -> Verdict:
            plan = Plan((), lambda: iter([CRASHED, violated()]), recorded={UNSEEN.id: frozenset(known)})
            return mutate.tried([UNSEEN], plan)[0].verdict

        assert verdict("crash") == Verdict.CRASH
        assert verdict() == Verdict.VIOLATED

    def test_a_theorem_in_a_larger_world_if_nobody_else_does(self) -> None:
        """Given a theorem in a larger world, then it meets what the second oracle passes, unless that is listed."""
        larger = (ADMITS.theorem,)
        passed, seen = Plan((), nothing, larger=larger), Plan((), lambda: iter([violated()]), larger=larger)
        excused = Plan((), nothing, listed=frozenset({EQUALITY.id}), larger=larger)
        verdicts = [mutate.tried([EQUALITY], plan)[0].verdict for plan in (passed, seen, excused)]
        assert verdicts == [Verdict.FAILED, Verdict.VIOLATED, Verdict.SURVIVED]

    def test_all_of_them_if_they_are_wanted(self) -> None:
        result = try_one(EQUALITY, LEAVES, ADMITS, second=lambda: iter([violated("REFUSE-2")]), exhaustive=True)
        assert [kill.law for kill in result.kills] == ["REFUSE-2", "REFUSE-2"]
        dropped = MUTANTS["arithmetic.is_short:1 arithmetic"]
        both = try_one(dropped, ADMITS, LEAVES, exhaustive=True)
        assert [kill.law for kill in both.kills] == ["REFUSE-2", "ADMIT-3"]
        report = Report([result, both], [], exhaustive=True)
        assert report.only_killer() == {"REFUSE-2": [EQUALITY.id]}
        assert mutate.report_json(report)["only_killer"] == report.only_killer()


def test_results_come_in_the_order_of_the_mutants_and_nothing_is_left_installed() -> None:
    mutants = [UNSEEN, EQUALITY, TIE]
    told: list[int] = []
    results = mutate.tried(mutants, Plan((ADMITS,), nothing), on_done=told.append)
    assert [result.mutant for result in results] == mutants
    assert told == [1, 2, 3]
    assert not arithmetic.is_short(1, 0, 1, 0)


class TestEquivalence:
    def test_a_mutant_of_integers_that_changes_nothing_is_proved_so(self) -> None:
        assert try_one(TIE).verdict == Verdict.PROVED_EQUIVALENT

    @pytest.mark.parametrize("name", ["arithmetic.is_short:1 compare", "arithmetic.ceil_div:1 constant"])
    def test_one_that_changes_something_is_not(self, name: str) -> None:
        assert try_one(MUTANTS[name]).verdict == Verdict.SURVIVED

    def test_what_the_specification_never_asks_decides_nothing(self) -> None:
        """Given a window of two tokens or more, when the settled tokens are 0 or 1, then none is behind the window."""
        clamped = MUTANTS["arithmetic.tokens_behind_window:1 extreme"]
        assert try_one(clamped).verdict == Verdict.SURVIVED


@pytest.fixture
def with_a_few_theorems(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Only the theorems about `is_short`, and an empty list of equivalents."""
    monkeypatch.setattr(mutate, "stated_theorems", lambda: (ADMITS.theorem, LEAVES.theorem))
    monkeypatch.setattr(mutate, "LIST", tmp_path / "equivalents.json")
    return list_equivalents(tmp_path)


def list_equivalents(folder: Path, *entries: tuple[str, str]) -> Path:
    listed = [{"id": name, "change": change, "reason": "It is."} for name, change in entries]
    (folder / "equivalents.json").write_text(json.dumps(listed), encoding="utf-8")
    return folder


class TestRun:
    def test_all_killed_or_excused_is_success(self, with_a_few_theorems: Path) -> None:
        report = mutate.run(nothing, only="arithmetic.is_short")
        assert report.succeeded
        assert report.number(Verdict.FAILED) == len(report.results) == 3

    def test_a_survivor_is_a_failure_until_it_is_listed(self, with_a_few_theorems: Path) -> None:
        report = mutate.run(nothing, only=UNSEEN.id)
        assert [result.mutant.id for result in report.survivors] == [UNSEEN.id]
        assert not report.succeeded
        list_equivalents(with_a_few_theorems, (UNSEEN.id, UNSEEN.change))
        report = mutate.run(nothing, only=UNSEEN.id)
        assert report.succeeded
        assert report.number(Verdict.LISTED_EQUIVALENT) == 1

    @pytest.mark.parametrize(
        ("entry", "words"),
        [
            ((EQUALITY.id, EQUALITY.change), "but equality admits notices it"),
            (("arithmetic.is_short:9 compare", "a  ->  b"), "but there is no such mutant"),
            ((EQUALITY.id, "a  ->  b"), f"but its change is now {EQUALITY.change}"),
        ],
    )
    def test_a_stale_list_is_a_failure(self, entry: tuple[str, str], words: str, with_a_few_theorems: Path) -> None:
        list_equivalents(with_a_few_theorems, entry)
        report = mutate.run(nothing, only="arithmetic.is_short")
        assert report.stale == [f"{entry[0]} is listed as equivalent, {words}"]
        assert not report.survivors
        assert not report.succeeded

    def test_the_json_has_the_stable_fields(self, with_a_few_theorems: Path) -> None:
        document = mutate.report_json(mutate.run(nothing, only="arithmetic.i"))
        assert {
            "mutants",
            "killed",
            "equivalent",
            "survivors",
            "by_proofs",
            "by_laws",
            "by_crash",
            "by_timeout",
        } <= set(document)
        assert document["mutants"] == document["killed"] + document["equivalent"] + len(document["survivors"])
        (first, *_) = document["mutants_detail"]
        assert {"id", "change", "kind", "verdict", "killer", "law"} <= set(first)
        assert "only_killer" not in document


def test_every_listed_equivalent_has_a_reason_and_is_a_mutant() -> None:
    for entry in mutate.listed_equivalents():
        assert MUTANTS[entry.id].change == entry.change
        assert entry.reason.endswith(".")

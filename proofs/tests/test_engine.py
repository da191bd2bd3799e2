"""The engine covers every branch, joins them truthfully, and is not fooled."""

import inspect
import random
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import z3

from slotproof.proofs import engine
from slotproof.proofs.engine import Ask, Bool, Branches, EngineError, Int, explore, merged
from slotproof.proofs.prepared import MERGED

X, Y = z3.Int("x"), z3.Int("y")
OF_INTEGERS = [
    function for function in MERGED if set(inspect.get_annotations(function).values()) <= {"int", "bool", int, bool}
]


def clamp(value: Any, low: Any, high: Any) -> Any:
    if value < low:
        return low
    return high if value > high else value


def any_bound(source: random.Random) -> Any:
    """Some comparison of x or y with a small number."""
    unknown, number = source.choice((X, Y)), source.randrange(-3, 4)
    return source.choice((unknown <= number, unknown >= number, unknown == number, number != X + Y))


def value_of(term: Any, **inputs: int) -> Any:
    """A term's value for concrete inputs."""
    found = z3.simplify(z3.substitute(term, *[(z3.Int(name), z3.IntVal(value)) for name, value in inputs.items()]))
    return found.as_long() if z3.is_int(found) else z3.is_true(found)


class TestBranches:
    def test_an_answer_does_not_depend_on_what_was_asked_before(self) -> None:
        """Given questions whose premises come and go in turn, then each is answered as by a solver of its own."""
        source, branches, known, answers = random.Random(7), Branches(), list[Any](), []
        for _ in range(600):
            del known[source.randrange(len(known) + 1) :]
            known.extend(any_bound(source) for _ in range(source.randrange(4)))
            term, alone = any_bound(source), z3.Solver()
            alone.add(*known, term)
            answers.append(alone.check())
            assert branches.answer(known, term, Ask.BRANCH) == answers[-1]
        assert min(answers.count(z3.sat), answers.count(z3.unsat)) > 100


class TestExplore:
    def test_takes_every_side_once(self) -> None:
        paths = explore(lambda: clamp(Int(X), 0, 10), ())
        assert len(paths) == 3
        for x in (-1, 0, 5, 10, 11):
            taken = [path for path in paths if value_of(z3.And(*path.conditions), x=x)]
            assert len(taken) == 1
            assert value_of(engine.term_of(taken[0].result), x=x) == clamp(x, 0, 10)

    def test_leaves_out_what_the_premises_exclude(self) -> None:
        assert len(explore(lambda: clamp(Int(X), 0, 10), (X > 3,))) == 2
        assert explore(lambda: bool(Int(X) > 0), (X > 0, X < 0)) == []

    def test_does_not_take_not_knowing_for_impossible(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine.BRANCHES, "answer", lambda *_, **__: z3.unknown)
        assert len(explore(lambda: bool(Int(X) > 0), (X > 0,))) == 2

    def test_notices_an_execution_that_does_not_repeat_itself(self) -> None:
        runs = count()

        def moody() -> None:
            if next(runs) == 0 and Int(X) > 0:
                bool(Int(Y) > 0)

        with pytest.raises(EngineError, match="an execution did not repeat itself"):
            explore(moody, ())


class TestMerged:
    def test_joins_all_paths_into_one(self) -> None:
        paths = explore(lambda: merged(clamp)(Int(X), 0, 10), ())
        assert len(paths) == 1
        for x in range(-3, 14):
            assert value_of(paths[0].result.term, x=x) == clamp(x, 0, 10)

    def test_leaves_plain_numbers_alone(self) -> None:
        assert merged(clamp)(12, 0, 10) == 10

    @pytest.mark.parametrize(
        "function", sorted(OF_INTEGERS, key=lambda one: one.__name__), ids=lambda one: one.__name__
    )
    def test_every_merged_function_evaluates_to_what_it_returns(self, function: Callable[..., Any]) -> None:
        names = list(inspect.signature(function).parameters)
        positive = tuple(z3.Int(name) >= 1 for name in names)
        (path,) = explore(lambda: merged(function)(*[Int(z3.Int(name)) for name in names]), positive)
        draw = random.Random("merged")
        for _ in range(200):
            inputs = {name: draw.randint(1, 40) for name in names}
            assert value_of(path.result.term, **inputs) == function(**inputs), inputs


class TestObligations:
    @pytest.mark.parametrize(
        "divide",
        [lambda: Int(X) // Int(Y), lambda: Int(X) % Int(Y), lambda: 7 // Int(Y), lambda: 7 % Int(Y)],
        ids=["//", "%", "plain //", "plain %"],
    )
    def test_a_divisor_must_be_shown_to_be_positive(self, divide: Callable[[], Int]) -> None:
        with pytest.raises(EngineError, match="not shown: a divisor is positive"):
            explore(divide, (Y >= 0,))
        assert len(explore(divide, (Y > 0,))) == 1

    def test_division_rounds_as_pythons_does(self) -> None:
        (path,) = explore(lambda: Int(X) // 3, ())
        assert [value_of(path.result.term, x=x) for x in range(-7, 8)] == [x // 3 for x in range(-7, 8)]
        (path,) = explore(lambda: (-7 // Int(X)) * 10 + (-7 % Int(X)), (X > 0,))
        assert [value_of(path.result.term, x=x) for x in range(1, 9)] == [
            (-7 // x) * 10 + (-7 % x) for x in range(1, 9)
        ]


class TestMisuse:
    def test_outside_of_a_proof_is_refused(self) -> None:
        with pytest.raises(EngineError, match="outside of a proof"):
            bool(Bool(X > 0))

    @pytest.mark.parametrize(
        "misuse",
        [
            lambda: bool(Int(X)),
            lambda: range(Int(X)),
            lambda: [1, 2][Int(X)],
            lambda: {Int(X): 1},
            lambda: Int(X) + "1",
        ],
        ids=["truth", "range", "index", "key", "text"],
    )
    def test_of_a_symbolic_integer_is_loud(self, misuse: Callable[[], Any]) -> None:
        with pytest.raises((EngineError, TypeError)):
            explore(misuse, ())

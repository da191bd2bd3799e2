"""Runs the specification's own functions on symbolic values.

How: an `Int` or `Bool` carries a Z3 term, and Python's operators build terms. Where Python needs a truth value, `Bool`
asks the run that is under way; the run takes a side that is possible and notes the other one, and `explore` executes
the function again for every side that was noted, until none is left. A function wrapped by `merged` is explored by
itself, and its results are joined into one if-then-else term, so that its branches do not multiply with those of its
caller.

Why this is sound: every execution is a real execution of the source, under conditions that are collected as it goes. A
side is left out only if Z3 says that it is impossible (`unsat`); not knowing counts as possible. So the conditions of
the paths cover every input that meets the premises. Z3's integer division is Python's only for a positive divisor, so
each division obliges the caller to have one, and an obligation that is not proved is a failure. Execution is
deterministic, so replaying the noted sides leads to the same branches; that is checked. What is trusted besides:
Python, Z3, and the files that stand in for parts of the specification: this one, `pool`, `table` and `loops`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from typing import Any, Generic, TypeVar

import z3

Result = TypeVar("Result")


class Ask(StrEnum):
    """What Z3 is asked for."""

    BRANCH = "branch"
    """Whether a side of a branch is possible."""
    GOAL = "goal"
    """Whether a goal or an obligation can fail; `unsat` means that it is proved."""
    MODEL = "model"
    """An example."""


TIMEOUT_MS = {Ask.BRANCH: 200, Ask.GOAL: 5_000, Ask.MODEL: 5_000}


@dataclass(slots=True)
class Settings:
    """How Z3 is asked: its seed, and who is told of every question and its answer."""

    seed: int = 0
    observers: list[Callable[[Ask, tuple[Any, ...], Any], None]] = field(default_factory=list)


SETTINGS = Settings()


class EngineError(Exception):
    """The engine cannot vouch for what it was asked to run."""


class Bool:
    """A truth value that may depend on the inputs."""

    __slots__ = ("term",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, term: Any) -> None:
        self.term = term

    def __bool__(self) -> bool:
        return current_run().decide(self.term)

    def __and__(self, other: "Bool | bool") -> "Bool":
        return Bool(z3.And(self.term, term_of(other)))

    def __or__(self, other: "Bool | bool") -> "Bool":
        return Bool(z3.Or(self.term, term_of(other)))

    def __invert__(self) -> "Bool":
        return Bool(z3.Not(self.term))

    __rand__, __ror__ = __and__, __or__

    def __eq__(self, other: object) -> "Bool":  # type: ignore[override]
        return Bool(self.term == term_of(other))


class Int:
    """An integer that may depend on the inputs."""

    __slots__ = ("term",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, term: Any) -> None:
        self.term = term

    def __add__(self, other: "Int | int") -> "Int":
        return Int(self.term + term_of(other))

    def __sub__(self, other: "Int | int") -> "Int":
        return Int(self.term - term_of(other))

    def __rsub__(self, other: int) -> "Int":
        return Int(term_of(other) - self.term)

    def __mul__(self, other: "Int | int") -> "Int":
        return Int(self.term * term_of(other))

    def __floordiv__(self, other: "Int | int") -> "Int":
        divisor = term_of(other)
        current_run().oblige(divisor > 0, "a divisor is positive")
        return Int(self.term / divisor)

    def __mod__(self, other: "Int | int") -> "Int":
        divisor = term_of(other)
        current_run().oblige(divisor > 0, "a divisor is positive")
        return Int(self.term % divisor)

    def __rfloordiv__(self, other: int) -> "Int":
        return Int(term_of(other)) // self

    def __rmod__(self, other: int) -> "Int":
        return Int(term_of(other)) % self

    def __neg__(self) -> "Int":
        return Int(-self.term)

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other: "Int | int") -> Bool:
        return Bool(self.term < term_of(other))

    def __le__(self, other: "Int | int") -> Bool:
        return Bool(self.term <= term_of(other))

    def __gt__(self, other: "Int | int") -> Bool:
        return Bool(self.term > term_of(other))

    def __ge__(self, other: "Int | int") -> Bool:
        return Bool(self.term >= term_of(other))

    def __eq__(self, other: object) -> Bool:  # type: ignore[override]
        return Bool(self.term == term_of(other))

    def __ne__(self, other: object) -> Bool:  # type: ignore[override]
        return Bool(self.term != term_of(other))

    def __bool__(self) -> bool:
        raise EngineError("an integer was used as a truth value; the specification compares instead")

    def __index__(self) -> int:
        raise EngineError("a symbolic integer was used as an index or a count")


def term_of(value: object) -> Any:
    """The Z3 term of a symbolic or plain value."""
    if isinstance(value, Int | Bool):
        return value.term
    if isinstance(value, bool):
        return z3.BoolVal(value)
    if isinstance(value, int):
        return z3.IntVal(value)
    raise EngineError(f"a {type(value).__name__} stands where an integer or truth value is due")


class ImpossiblePath(Exception):
    """The conditions collected so far contradict each other."""


@dataclass(slots=True)
class Run:
    """One execution: what it assumes, the sides it replays, and the sides it notes for later."""

    given: tuple[Any, ...]
    replay: tuple[bool, ...] = ()
    conditions: list[Any] = field(default_factory=list)
    sides: list[bool] = field(default_factory=list)
    noted: list[tuple[bool, ...]] = field(default_factory=list)
    obligations: int = 0

    def decide(self, term: Any) -> bool:
        """Take a side of a branch."""
        if len(self.sides) < len(self.replay):
            side = self.replay[len(self.sides)]
        else:
            yes, no = self.may_be(term), self.may_be(z3.Not(term))
            if not yes and not no:
                raise ImpossiblePath
            side = yes
            if yes and no:
                self.noted.append((*self.sides, False))
        self.sides.append(side)
        self.conditions.append(term if side else z3.Not(term))
        return side

    def may_be(self, term: Any) -> bool:
        """Whether Z3 cannot exclude the term here."""
        answer, _ = check((*self.given, *self.conditions, term), Ask.BRANCH)
        return bool(answer != z3.unsat)

    def oblige(self, term: Any, what: str) -> None:
        """Require that something holds on this path, whatever the inputs."""
        self.obligations += 1
        answer, _ = check((*self.given, *self.conditions, z3.Not(term)), Ask.GOAL)
        if answer != z3.unsat:
            raise EngineError(f"not shown: {what}")


@dataclass(frozen=True, slots=True)
class Path(Generic[Result]):
    """One way through a function: the conditions under which it is taken, and what comes out."""

    conditions: tuple[Any, ...]
    result: Result


_runs: list[Run] = []


def current_run() -> Run:
    """The run under way.

    Raises:
        EngineError: outside of `explore`.
    """
    if not _runs:
        raise EngineError("a symbolic value was used outside of a proof")
    return _runs[-1]


def explore(body: Callable[[], Result], given: tuple[Any, ...]) -> list[Path[Result]]:
    """Every path through `body` that its premises allow."""
    paths: list[Path[Result]] = []
    waiting: list[tuple[bool, ...]] = [()]
    while waiting:
        run = Run(given, waiting.pop())
        with under_way(run), suppress(ImpossiblePath):
            result = body()
            paths.append(Path(tuple(run.conditions), result))
        if tuple(run.sides[: len(run.replay)]) != run.replay:
            raise EngineError("an execution did not repeat itself")
        waiting += run.noted
    return paths


@contextmanager
def under_way(run: Run) -> Iterator[None]:
    """Make this the run that branches ask."""
    _runs.append(run)
    try:
        yield
    finally:
        _runs.pop()


def merged(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its paths joined into one result when it is called on symbolic values."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        if not any(isinstance(argument, Int | Bool) for argument in arguments):
            return function(*arguments)
        run = current_run()
        paths = explore(lambda: function(*arguments), (*run.given, *run.conditions))
        if not paths:
            raise ImpossiblePath
        *others, last = paths
        joined = term_of(last.result)
        for path in others:
            joined = z3.If(z3.And(*path.conditions), term_of(path.result), joined)
        return Bool(joined) if z3.is_bool(joined) else Int(joined)

    return call


def check(terms: tuple[Any, ...], ask: Ask) -> tuple[Any, Any]:
    """Z3's answer about the conjunction, and a model where it is satisfiable."""
    solver = z3.Solver()
    solver.set("timeout", TIMEOUT_MS[ask])
    solver.set("random_seed", SETTINGS.seed)
    solver.add(*terms)
    answer = solver.check()
    for observer in SETTINGS.observers:
        observer(ask, terms, answer)
    return answer, solver.model() if answer == z3.sat else None

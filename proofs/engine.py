"""Runs the specification's own functions on symbolic values.

How: an `Int` or `Bool` carries a Z3 term, and Python's operators build terms. Where Python needs a truth value, `Bool`
asks the run that is under way; the run takes a side that is possible and notes the other one, and `explore` executes
the function again for every side that was noted, until none is left. A function wrapped by `merged` is explored by
itself, and its results are joined into one, part by part, with if-then-else terms, so that its branches do not
multiply with those of its caller; where they have no common shape, the caller branches. A symbolic index or count is
run value by value.

Why this is sound: every execution is a real execution of the source, under conditions that are collected as it goes. A
side is left out only if Z3 says that it is impossible (`unsat`); not knowing counts as possible. So the conditions of
the paths cover every input that meets the premises. Z3's integer division is Python's only for a positive divisor, so
each division obliges the caller to have one, and an obligation that is not proved is a failure. Execution is
deterministic, so replaying the noted sides leads to the same branches; that is checked. So is a replay's use of what a
joined call gave before: it comes by the same sides, to the same call, with unknowns of the same names.

A fact about an unknown that a run brings in is no condition: after a join it stays known, under the conditions of its
path. A goal is also asked with an unknown in the place of each product or quotient of unknowns: what holds whatever
they are holds for what they are, and of quotients by one positive divisor the larger dividend has the larger.

What is trusted besides: Python, Z3, and the files that stand in for parts of the specification; `prepared` lists them.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

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
    """How Z3 is asked: its seed, and who is told of every question and its answer; and its longest answer to a goal."""

    seed: int = 0
    observers: list[Callable[[Ask, tuple[Any, ...], Any], None]] = field(default_factory=list)
    slowest_goal: float = 0.0
    """In seconds."""


SETTINGS = Settings()

MOST_CHOICES = 12
"""So many values of an index or a count are run one by one; for more there is the loop rule."""


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
        if isinstance(other, tuple):
            return NotImplemented
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
        return current_run().choose(self.term)


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
    everywhere: list[Callable[[Any], Iterable[Any]]] = field(default_factory=list)
    merges: dict[tuple[Any, ...], list[Any]] = field(default_factory=dict)
    prefix: str = ""
    facts: list[Any] = field(default_factory=list)
    conditions: list[Any] = field(default_factory=list)
    known: list[Any] = field(default_factory=list)
    num_names: int = 0
    num_merges: int = 0
    sides: list[bool] = field(default_factory=list)
    noted: list[tuple[bool, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known.extend(self.given)

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
        self.assume(term if side else z3.Not(term))
        return side

    def assume(self, *conditions: Any) -> None:
        """Go on under these conditions only."""
        self.conditions.extend(conditions)
        self.known.extend(conditions)

    def choose(self, term: Any) -> int:
        """Take one of the values that a symbolic index or count can have; the others are run as well."""
        self.oblige(term >= 0, "an index or a count is not negative")
        for value in range(MOST_CHOICES):
            if self.decide(term == value):
                return value
        raise EngineError(f"an index or a count has more than {MOST_CHOICES} values")

    def know(self, *facts: Any) -> None:
        """Note what is known of symbols that this run brought in; not a branch, so it stays known after a merge."""
        self.facts.extend(facts)
        self.known.extend(facts)

    def fresh_name(self) -> str:
        """A name that no other unknown of this run has, and that a replay gives again."""
        self.num_names += 1
        return f"{self.prefix}{self.num_names}"

    def know_everywhere(self, fact: Callable[[Any], Iterable[Any]]) -> None:
        """Note what is known of every block; it is stated for each block that is mentioned from now on."""
        self.everywhere.append(fact)

    def mention(self, block: Any) -> None:
        """State for a block what is known of every one."""
        for fact in self.everywhere:
            self.know(*fact(block))

    def may_be(self, term: Any) -> bool:
        """Whether Z3 cannot exclude the term here."""
        return bool(BRANCHES.answer(self.known, term, Ask.BRANCH) != z3.unsat)

    def paths_through(self, body: Callable[[], Any]) -> list[Any]:
        """The paths of a nested exploration; a replay, which comes by the same sides, need not find them again."""
        place = (*self.sides, self.num_merges)
        self.num_merges += 1
        if place in self.merges:
            self.fresh_name()
        else:
            self.merges[place] = explore(body, tuple(self.known))
        return self.merges[place]

    def is_possible(self) -> bool:
        """Whether Z3 cannot exclude this path."""
        return self.may_be(z3.BoolVal(True))

    def has_example(self, *hints: Any) -> bool:
        """Whether Z3 finds values that meet everything known here; hints are values that make it easy."""
        if BRANCHES.answer(self.known, z3.BoolVal(True), Ask.BRANCH) == z3.sat:
            return True
        return any(check((*self.known, *hint), Ask.MODEL)[0] == z3.sat for hint in (hints, ()))

    def oblige(self, term: Any, what: str) -> None:
        """Require that something holds on this path, whatever the inputs."""
        if BRANCHES.answer(self.known, z3.Not(term), Ask.GOAL) == z3.unsat:
            return
        if answer_to_goal(self.known, z3.Not(term)) != z3.unsat:
            raise EngineError(f"not shown: {what}")


class Branches:
    """Asks about branches; keeps what it has told Z3 from one question to the next, because they share most of it.

    What is told at once is one frame of Z3's stack, because frames are dear. For the same reason the term in question
    gets none: it is told as what an assumption of its own implies.
    """

    def __init__(self) -> None:
        self._answers: dict[tuple[int, ...], tuple[Any, tuple[Any, ...]]] = {}
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self._answers.clear()
        self._told: list[int] = []
        self._frames: list[int] = []
        self._num_asked = 0
        self._solver = z3.Solver()
        self._solver.set("timeout", TIMEOUT_MS[Ask.BRANCH])
        self._solver.set("random_seed", SETTINGS.seed)

    def answer(self, known: list[Any], term: Any, ask: Ask, keep: bool = True) -> Any:
        """Z3's answer to whether the term is possible; an id is one term's only as long as the term is kept."""
        ids = [part.get_id() for part in known]
        question = (*ids, term.get_id())
        if question in self._answers:
            return self._answers[question][0]
        self._tell(known, ids)
        self._num_asked += 1
        asked = z3.Bool(f"asked {self._num_asked}")
        self._solver.add(z3.Implies(asked, term))
        answer = answer_of(self._solver, ask, (*known, term), asked)
        if keep:
            self._answers[question] = answer, (*known, term)
        return answer

    def _tell(self, known: list[Any], ids: list[int]) -> None:
        pairs = zip(self._told, ids, strict=False)
        same = next((place for place, (told, new) in enumerate(pairs) if told != new), min(len(self._told), len(ids)))
        while self._frames and same < len(self._told):
            del self._told[self._frames.pop() :]
            self._solver.pop()
        if len(self._told) < len(ids):
            self._solver.push()
            self._solver.add(*known[len(self._told) :])
            self._frames.append(len(self._told))
        self._told = ids


BRANCHES = Branches()


@dataclass(frozen=True, slots=True)
class Path(Generic[Result]):
    """One way through a function: the conditions under which it is taken, what is known there, and what comes out."""

    conditions: tuple[Any, ...]
    facts: tuple[Any, ...]
    result: Result

    @property
    def known(self) -> tuple[Any, ...]:
        """Everything that holds on it."""
        return (*self.conditions, *self.facts)


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
    merges: dict[tuple[Any, ...], list[Any]] = {}
    everywhere = _runs[-1].everywhere if _runs else []
    prefix = f"{_runs[-1].fresh_name()}." if _runs else ""
    while waiting:
        run = Run(given, waiting.pop(), list(everywhere), merges, prefix)
        with under_way(run), suppress(ImpossiblePath):
            result = body()
            paths.append(Path(tuple(run.conditions), tuple(run.facts), result))
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
    """The function, explored by itself when a run is under way, so that its paths become one wherever they can."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        if not _runs:
            return function(*arguments)
        run = current_run()
        paths = run.paths_through(lambda: function(*arguments))
        if not paths:
            raise ImpossiblePath
        if len(paths) == 1:
            run.know(*paths[0].known)
            return paths[0].result
        for path in paths:
            run.know(*[z3.Implies(z3.And(*path.conditions), fact) for fact in path.facts])
        try:
            return joined(paths)
        except CannotJoin:
            return next(path.result for path in paths if path is paths[-1] or run.decide(z3.And(*path.conditions)))

    return call


class CannotJoin(Exception):
    """Two paths lead to results of different shape."""


def joined(paths: list[Path[Any]]) -> Any:
    """One result that is each path's where its conditions hold.

    Raises:
        CannotJoin: when they have no common shape.
    """
    *others, last = paths
    result = last.result
    for path in others:
        result = either(z3.And(*path.conditions), path.result, result)
    return result


def either(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the condition holds, else `no`, part by part."""
    if yes is no:
        return yes
    if isinstance(yes, bool | Bool) and isinstance(no, bool | Bool):
        return Bool(z3.If(condition, term_of(yes), term_of(no)))
    if isinstance(yes, int | Int) and isinstance(no, int | Int):
        return yes if type(yes) is type(no) is int and yes == no else Int(z3.If(condition, term_of(yes), term_of(no)))
    if isinstance(yes, tuple) and isinstance(no, tuple) and len(yes) == len(no):
        parts = [either(condition, one, other) for one, other in zip(yes, no, strict=True)]
        return type(yes)(*parts) if hasattr(yes, "_fields") else tuple(parts)
    if type(yes) is not type(no):
        raise CannotJoin
    if isinstance(yes, Mapping) and yes.keys() == no.keys():
        return MappingProxyType({name: either(condition, yes[name], no[name]) for name in yes})
    if hasattr(yes, "joined_with"):
        return yes.joined_with(condition, no)
    if is_dataclass(yes):
        kind: Any = type(yes)
        return kind(*[either(condition, getattr(yes, part.name), getattr(no, part.name)) for part in fields(yes)])
    if yes == no:
        return yes
    raise CannotJoin


def answer_to_goal(known: list[Any], negated_goal: Any) -> Any:
    """Z3's answer to whether a goal can fail, asked without arithmetic between unknowns first.

    Products and quotients of unknowns can keep Z3 from seeing what the other premises say. What holds whatever they
    are holds for what they are.
    """
    terms = (*known, negated_goal)
    plain = [abstracted(term) for term in terms]
    answer, _ = check((*plain, *quotients_in_order(plain)), Ask.GOAL)
    return answer if answer == z3.unsat else check(terms, Ask.GOAL)[0]


def quotients_in_order(plain: list[Any]) -> list[Any]:
    """Of quotients by one positive divisor the larger dividend has the larger."""
    used = set(names_in(plain))
    quotients = [one for one in _quotients if str(one.quotient) in used]
    return [
        z3.Implies(z3.And(one.divisor > 0, one.dividend <= other.dividend), one.quotient <= other.quotient)
        for one in quotients
        for other in quotients
        if one is not other and one.divisor.eq(other.divisor)
    ]


def names_in(terms: list[Any]) -> Iterator[str]:
    """The names of the unknowns that stand for products and quotients."""
    seen: set[int] = set()
    waiting = list(terms)
    while waiting:
        term = waiting.pop()
        if term.get_id() not in seen:
            seen.add(term.get_id())
            waiting += term.children()
            if z3.is_const(term):
                yield str(term)


class Quotient(NamedTuple):
    """An unknown in the place of a quotient of unknowns."""

    quotient: Any
    dividend: Any
    divisor: Any


_quotients: list[Quotient] = []


def abstracted(term: Any) -> Any:
    """The term with an unknown in the place of each product or quotient of unknowns, the same for the same."""
    kept = _abstracted.get(term.get_id())
    if kept is None:
        children = [abstracted(child) for child in term.children()]
        unknowns = [child for child in children if not z3.is_int_value(child)]
        if term.decl().kind() in (z3.Z3_OP_MUL, z3.Z3_OP_IDIV, z3.Z3_OP_MOD) and len(unknowns) > 1:
            kept = term, z3.Int(f"unknown {term.get_id()}")
            if term.decl().kind() == z3.Z3_OP_IDIV:
                _quotients.append(Quotient(kept[1], *children))
        else:
            kept = term, term.decl()(*children) if children else term
        _abstracted[term.get_id()] = kept
    return kept[1]


_abstracted: dict[int, tuple[Any, Any]] = {}
"""What became of a term, which is kept so that its id stays its own."""


def check(terms: tuple[Any, ...], ask: Ask) -> tuple[Any, Any]:
    """Z3's answer about the conjunction, and a model where it is satisfiable."""
    solver = z3.Solver()
    solver.set("timeout", TIMEOUT_MS[ask])
    solver.set("random_seed", SETTINGS.seed)
    solver.add(*terms)
    answer = answer_of(solver, ask, terms)
    return answer, solver.model() if answer == z3.sat else None


def answer_of(solver: Any, ask: Ask, terms: tuple[Any, ...], *assumptions: Any) -> Any:
    """A solver's answer, told to the observers, with its time if it is about a goal."""
    started = time.monotonic()
    answer = solver.check(*assumptions)
    if ask == Ask.GOAL:
        SETTINGS.slowest_goal = max(SETTINGS.slowest_goal, time.monotonic() - started)
    for observer in SETTINGS.observers:
        observer(ask, terms, answer)
    return answer

"""The engine checks itself: a model of every path, run on the plain specification, comes out as the path says."""

import operator
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import z3

from slotproof.proofs import operations
from slotproof.proofs.engine import EngineError, Path
from slotproof.proofs.operations import (
    Broken,
    Operation,
    Step,
    World,
    carried_out,
    comparable,
    concrete_step,
    paths_in,
    replay,
)
from slotproof.proofs.prove import stated_theorems
from slotproof.proofs.values import under
from slotproof.proofs.worlds import ADMIT

OPERATIONS = {stated.operation.name: stated.operation for stated in stated_theorems() if stated.operation}


@pytest.mark.parametrize("name", [name for name, one in OPERATIONS.items() if one.worlds[0].small])
def test_every_path_of_the_smallest_worlds_can_be_taken_and_comes_out_as_it_says(name: str) -> None:
    for world in OPERATIONS[name].worlds[:2]:
        paths = paths_in(OPERATIONS[name], world).paths
        assert paths
        for path in paths:
            found = concrete_step(path.result, path.known)
            assert found is not None
            assert comparable(found[0].result) == comparable(under(found[1], path.result.result))


def test_a_path_that_says_something_else_is_noticed() -> None:
    path = paths_in(ADMIT, ADMIT.worlds[0]).paths[0]
    wrong = Path(path.conditions, path.facts, Step(ADMIT, path.result.before, path.result.arguments, "something else"))
    with pytest.raises(EngineError, match="the engine says something else, the specification"):
        replay(wrong)


@pytest.mark.slow
def test_at_least_300_paths_are_replayed_without_a_mismatch() -> None:
    """Each path in several models, which differ in what the path leaves open."""
    num_paths = num_models = 0
    for operation in OPERATIONS.values():
        for world in [world for world in operation.worlds if world.small]:
            for path in paths_in(operation, world).paths:
                num_paths += 1
                num_models += replayed_in_many_models(path, 5)
    print(f"{num_paths} paths, {num_models} models, 0 mismatches")
    assert num_paths >= 300


def replayed_in_many_models(path: Path[Step], times: int) -> int:
    """How many different models of a path were run; each must come out as the path says."""
    solver = z3.Solver()
    solver.add(*path.known)
    num_models = 0
    while num_models < times and solver.check() == z3.sat:
        model = solver.model()
        before, arguments = under(model, (path.result.before, path.result.arguments))
        step = carried_out(path.result.operation, before, arguments)
        assert comparable(step.result) == comparable(under(model, path.result.result))
        solver.add(z3.Or(*[symbol() != model[symbol] for symbol in model.decls() if symbol.arity() == 0]))
        num_models += 1
    return num_models


def test_a_path_without_an_example_is_noticed() -> None:
    path = paths_in(ADMIT, ADMIT.worlds[0]).paths[0]
    with pytest.raises(EngineError, match="no example of a path"):
        replay(Path((*path.conditions, z3.BoolVal(False)), path.facts, path.result))


def test_an_accident_on_one_side_only_is_noticed() -> None:
    """Given a path that ends well symbolically and breaks concretely, or the other way round, then it is no path."""
    (first, *_) = paths_in(ADMIT, ADMIT.worlds[0]).paths
    for run, said in ((lambda *_: [][0], first.result.result), (ADMIT.run, Broken("broke"))):
        operation = replace(ADMIT, run=run)
        step = Step(operation, first.result.before, first.result.arguments, said)
        with pytest.raises(EngineError, match="the engine says"):
            replay(Path(first.conditions, first.facts, step))


@pytest.mark.slow
@pytest.mark.parametrize("world", [*ADMIT.worlds[:3], ADMIT.worlds[4]], ids=lambda world: world.words)
def test_25_000_random_inputs_come_out_as_the_paths_say(world: World) -> None:
    """Of inputs drawn at random at most one path's conditions hold, and its result is the specification's."""
    draw = random.Random(world.words)
    paths = paths_in(ADMIT, world).paths
    terms = Terms([condition for path in paths for condition in path.known])
    inside = tried = 0
    while inside < 25_000:
        tried += 1
        model = RandomModel(terms, draw)
        taken = [path for path in paths if all(model.value(condition) for condition in path.known)]
        assert len(taken) <= 1
        for path in taken:
            inside += 1
            before, arguments = under(model, (path.result.before, path.result.arguments))
            found = carried_out(ADMIT, before, arguments).result
            assert comparable(found) == comparable(under(model, path.result.result))
    print(f"seed {world.words}: {tried} inputs, {inside} of them in the specification's domain")


OPERATORS: dict[int, Callable[..., Any]] = {
    z3.Z3_OP_AND: lambda *parts: all(parts),
    z3.Z3_OP_OR: lambda *parts: any(parts),
    z3.Z3_OP_NOT: operator.not_,
    z3.Z3_OP_IMPLIES: lambda one, other: not one or other,
    z3.Z3_OP_ITE: lambda condition, yes, no: yes if condition else no,
    z3.Z3_OP_EQ: operator.eq,
    z3.Z3_OP_DISTINCT: operator.ne,
    z3.Z3_OP_LE: operator.le,
    z3.Z3_OP_LT: operator.lt,
    z3.Z3_OP_GE: operator.ge,
    z3.Z3_OP_GT: operator.gt,
    z3.Z3_OP_ADD: lambda *parts: sum(parts),
    z3.Z3_OP_SUB: operator.sub,
    z3.Z3_OP_MUL: operator.mul,
    z3.Z3_OP_UMINUS: operator.neg,
    z3.Z3_OP_IDIV: operator.floordiv,
    z3.Z3_OP_MOD: operator.mod,
    z3.Z3_OP_TRUE: lambda: True,
    z3.Z3_OP_FALSE: lambda: False,
}
"""Z3's operators as Python's; the specification divides by positive numbers only."""


class Terms:
    """Evaluates terms on plain numbers without Z3, which would take a hundred times as long."""

    def __init__(self, terms: list[Any]) -> None:
        self._kept: dict[int, Any] = {}
        self._parts: dict[int, tuple[Any, tuple[int, ...]]] = {}
        self._truths: set[int] = set()
        for term in terms:
            self.learn(term)

    def learn(self, term: Any) -> int:
        """The term's number; its operator and parts are noted the first time."""
        number = term.get_id()
        if number not in self._parts:
            self._kept[number] = term
            children = tuple(self.learn(child) for child in term.children())
            kind = term.decl().kind()
            if z3.is_int_value(term):
                self._parts[number] = (lambda value: lambda: value)(term.as_long()), ()
            elif kind == z3.Z3_OP_UNINTERPRETED:
                self._truths.update([number] if z3.is_bool(term) else [])
                self._parts[number] = str(term.decl()), children
            else:
                self._parts[number] = OPERATORS[kind], children
        return number

    def is_truth(self, number: int) -> bool:
        """Whether an unknown is a truth value."""
        return number in self._truths

    def part(self, number: int) -> tuple[Any, tuple[int, ...]]:
        """A term's operator, or an unknown's name, and its parts."""
        return self._parts[number]


class RandomModel:
    """Gives every unknown a small number or a truth value, the same each time; what `under` takes for a model."""

    def __init__(self, terms: Terms, draw: random.Random) -> None:
        self._terms, self._draw = terms, draw
        self._drawn: dict[tuple[Any, ...], int] = {}
        self._values: dict[int, Any] = {}

    def value(self, term: Any) -> Any:
        """The term's value."""
        return self._value(self._terms.learn(term))

    def _value(self, number: int) -> Any:
        if number not in self._values:
            kind, children = self._terms.part(number)
            values = [self._value(child) for child in children]
            if isinstance(kind, str):
                among = (False, True) if self._terms.is_truth(number) else OFTEN_IN_DOMAIN.get(kind, SMALL_NUMBERS)
                drawn = self._draw.choice(among)
                self._values[number] = self._drawn.setdefault((kind, *values), drawn)
            else:
                self._values[number] = kind(*values)
        return self._values[number]

    def eval(self, term: Any, model_completion: bool = True) -> Any:
        """The value as a term."""
        value = self.value(term)
        return z3.BoolVal(bool(value)) if z3.is_bool(term) else z3.IntVal(value)


SMALL_NUMBERS = (0, 1, 2, 3)
OFTEN_IN_DOMAIN = {
    "num_computed_tokens": (0, 0, 1, 2),
    "num_in_flight_tokens": (0, 0, 0, 1),
    "max_model_len": (3, 5, 6, 7, 8, 9),
    "max_in_flight_tokens": (1, 2, 4),
    "status": (0, 1, 2),
    "num_tokens": (1, 2, 3, 4, 5, 7),
    **dict.fromkeys(("free_order", "watermark_blocks", "cached 0", "nulls 0", "hit 0 0"), (0, 1)),
}
"""What an unknown is drawn from, so that the preconditions are met now and then."""


def test_a_misused_pool_is_an_outcome_not_an_accident() -> None:
    def pops_from_nothing(before: Any) -> Any:
        return [][0]

    step = carried_out(Operation("pop", pops_from_nothing, (), ""), operations.Any, ())  # type: ignore[arg-type]
    assert step.result == Broken("list index out of range")

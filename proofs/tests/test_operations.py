"""The engine checks itself: a model of every path, run on the plain specification, comes out as the path says."""

import random
from typing import Any

import pytest
import z3

from slotproof.proofs import operations
from slotproof.proofs.engine import EngineError, Path
from slotproof.proofs.operations import Broken, Operation, Step, carried_out, concrete_step, paths_in, replay
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
            assert found[0].result == under(found[1], path.result.result)


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
        assert step.result == under(model, path.result.result)
        solver.add(z3.Or(*[symbol() != model[symbol] for symbol in model.decls() if symbol.arity() == 0]))
        num_models += 1
    return num_models


@pytest.mark.slow
def test_100_000_random_inputs_come_out_as_the_merged_paths_say() -> None:
    """For inputs drawn at random exactly one path's conditions hold, and its result is the specification's."""
    draw = random.Random("merged")
    paths = paths_in(ADMIT, ADMIT.worlds[0]).paths
    symbols = symbols_of(paths)
    done = outside = 0
    while done < 100_000:
        values = [(symbol, draw_value(draw, symbol)) for symbol in symbols]
        taken = [path for path in paths if holds(path, values)]
        assert len(taken) <= 1
        outside += not taken
        done += 1
        if taken:
            (path,) = taken
            model = model_of(values)
            before, arguments = under(model, (path.result.before, path.result.arguments))
            assert carried_out(ADMIT, before, arguments).result == under(model, path.result.result)
    print(f"seed merged: {done} inputs, {outside} outside of the specification's domain")
    assert outside < done


def symbols_of(paths: list[Path[Step]]) -> list[Any]:
    """The constants that the paths' conditions speak about."""
    found: dict[str, Any] = {}
    waiting = [condition for path in paths for condition in path.known]
    while waiting:
        term = waiting.pop()
        if z3.is_const(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            found[str(term)] = term
        waiting += term.children()
    return [found[name] for name in sorted(found)]


def draw_value(draw: random.Random, symbol: Any) -> Any:
    return z3.BoolVal(draw.random() < 0.5) if z3.is_bool(symbol) else z3.IntVal(draw.choice((0, 0, 1, 1, 2, 3, 4, 6)))


def holds(path: Path[Step], values: list[Any]) -> bool:
    return all(z3.is_true(z3.simplify(z3.substitute(condition, *values))) for condition in path.known)


def model_of(values: list[Any]) -> Any:
    solver = z3.Solver()
    solver.add(*[symbol == value for symbol, value in values])
    assert solver.check() == z3.sat
    return solver.model()


def test_a_misused_pool_is_an_outcome_not_an_accident() -> None:
    def pops_from_nothing(before: Any) -> Any:
        return [][0]

    step = carried_out(Operation("pop", pops_from_nothing, (), ""), operations.Any, ())  # type: ignore[arg-type]
    assert step.result == Broken("list index out of range")

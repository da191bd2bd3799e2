"""What a theorem's body uses: inputs, premises and goals, symbolic or concrete."""

from collections.abc import Callable
from typing import Any

import z3

from slotproof.proofs.engine import (
    BRANCHES,
    Ask,
    Bool,
    EngineError,
    ImpossiblePath,
    Int,
    answer_to_goal,
    check,
    current_run,
    term_of,
)
from slotproof.proofs.pool import AnyPool, SymbolicPool, concrete_pool, is_usable, is_well_formed, small_pool
from slotproof.proofs.values import SMALL, number

Inputs = dict[str, Any]
"""What a concrete run starts from: an integer a name, and perhaps a pool."""

POOL = "pool"


class Refuted(Exception):
    """A goal does not hold for some inputs; `failing` is what holds then, unless they are concrete."""

    def __init__(self, inputs: Inputs, failing: tuple[Any, ...] = ()) -> None:
        super().__init__(f"a goal fails for {words(inputs)}")
        self.inputs = inputs
        self.failing = failing


class Undecided(Exception):
    """Z3 does not know."""


class Scope:
    """Inputs, premises and goals; symbolic, or concrete for given inputs."""

    def __init__(self, inputs: Inputs | None = None) -> None:
        self.inputs = inputs
        self.symbols: dict[str, Any] = {}
        self.predicates: dict[str, Any] = {}
        self.the_pool: SymbolicPool | None = None
        self.num_goals = 0

    def integer(self, name: str, least: int = 0) -> Any:
        """An arbitrary integer from `least` on."""
        if self.inputs is not None:
            return self.inputs[name]
        symbol = self.symbols.setdefault(name, z3.Int(name))
        self.assume(Int(symbol) >= least)
        return Int(symbol)

    def predicate(self, name: str) -> Callable[[Any], Any]:
        """An arbitrary property of the integers from 0 on; one that is shown holds for some of the first few."""
        if self.inputs is not None:
            holds = self.inputs[name]
            return lambda number: bool(0 <= number < len(holds) and holds[number])
        property_of = self.predicates.setdefault(name, z3.Function(name, z3.IntSort(), z3.BoolSort()))
        return lambda number: Bool(property_of(term_of(number)))

    def pool(self) -> Any:
        """An arbitrary pool; what is known of a block of it is a premise."""
        if self.inputs is not None:
            return self.inputs[POOL]
        self.the_pool = SymbolicPool.arbitrary()
        self.assume(Int(self.the_pool.front) < Int(self.the_pool.back))
        return self.the_pool

    def block(self, name: str, pool: AnyPool) -> Any:
        """An arbitrary usable block of a pool, well formed."""
        block = self.integer(name, 1)
        self.assume(is_usable(pool, block))
        self.assume(is_well_formed(pool, block))
        return block

    def assume(self, premise: Bool | bool) -> None:
        """State a premise."""
        if self.inputs is not None:
            if not premise:
                raise EngineError(f"a premise does not hold for {words(self.inputs)}")
            return
        if premise is False:
            raise ImpossiblePath
        current_run().assume(term_of(premise))

    def prove(self, goal: Bool | bool) -> None:
        """State a goal: it must hold on this path for all inputs that meet the premises so far."""
        self.num_goals += 1
        if self.inputs is not None:
            if not goal:
                raise Refuted(self.inputs)
            return
        if goal is not True:
            self.check(term_of(goal))

    def check(self, goal: Any) -> None:
        """Prove a goal now."""
        known = current_run().known
        failing = (*known, z3.Not(goal))
        if BRANCHES.answer(known, failing[-1], Ask.GOAL, keep=False) == z3.unsat:
            return
        answer = answer_to_goal(known, failing[-1])
        if answer == z3.unsat:
            return
        inputs = self.inputs_that_meet(failing) if answer == z3.sat else None
        if inputs is None:
            raise Undecided
        raise Refuted(inputs, failing)

    def inputs_that_meet(self, conditions: tuple[Any, ...]) -> Inputs | None:
        """Inputs for a concrete run, small ones if there are any; a pool only of a size that can be shown."""
        shown = small_pool(self.the_pool) if self.the_pool is not None else ()
        small = tuple(symbol <= SMALL for symbol in self.symbols.values())
        for bounds in ((*shown, *small), shown):
            answer, model = check((*conditions, *bounds), Ask.MODEL)
            if answer == z3.sat:
                return self.inputs_of(model)
        return None

    def inputs_of(self, model: Any) -> Inputs:
        """The inputs that a model describes."""
        inputs: Inputs = {name: number(model, symbol) for name, symbol in self.symbols.items()}
        for name, property_of in self.predicates.items():
            values = (model.eval(property_of(place), model_completion=True) for place in range(SMALL))
            inputs[name] = tuple(map(z3.is_true, values))
        return inputs | ({POOL: concrete_pool(model, self.the_pool)} if self.the_pool is not None else {})


def negated(value: Any) -> Any:
    """`not value`, for a symbolic truth value too."""
    return ~value if isinstance(value, Bool) else not value


def implies(premise: Any, conclusion: Any) -> Any:
    """`conclusion` wherever `premise` holds."""
    return negated(premise) | conclusion if isinstance(premise, Bool) else (not premise or conclusion)


def words(inputs: Inputs) -> str:
    """Inputs in words."""
    return ", ".join(f"{name} = {value}" for name, value in inputs.items())

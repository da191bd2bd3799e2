"""What a theorem is, and what it takes to call it proved.

A theorem's body states its premises and goals about the specification's functions. It is executed three times over:
symbolically along every path; on a concrete witness of its premises, so that it does not speak about nothing; and, if a
goal fails, on the counterexample, which is shown only if it fails there as well.
"""

import hashlib
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType, ModuleType
from typing import Any

import z3

from slotproof.proofs.engine import (
    Ask,
    Bool,
    EngineError,
    Int,
    check,
    current_run,
    explore,
    merged,
    term_of,
)
from slotproof.proofs.loops import inductive
from slotproof.proofs.pool import AnyPool, SymbolicPool, concrete_pool, is_usable, is_well_formed, small_pool
from slotproof.proofs.table import SymbolicTable
from slotproof.spec.pool import NULL_BLOCK
from slotproof.spec.snapshot import Table

SPECIFICATION = "slotproof.spec."

SMALL = 12
"""A witness is looked for among numbers up to this one first."""


Inputs = dict[str, Any]
"""What a concrete run starts from: an integer a name, and perhaps a pool."""

POOL = "pool"


class Refuted(Exception):
    """A goal does not hold for these inputs."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__(f"a goal fails for {words(inputs)}")
        self.inputs = inputs


class Undecided(Exception):
    """Z3 does not know."""


class Scope:
    """What a theorem's body uses: inputs, premises, goals. Symbolic, or concrete for given inputs."""

    def __init__(self, inputs: Inputs | None = None) -> None:
        self._inputs = inputs
        self.symbols: dict[str, Any] = {}
        self.the_pool: SymbolicPool | None = None
        self.num_goals = 0

    def integer(self, name: str, least: int = 0) -> Any:
        """An arbitrary integer from `least` on."""
        if self._inputs is not None:
            return self._inputs[name]
        symbol = self.symbols.setdefault(name, z3.Int(name))
        self.assume(Int(symbol) >= least)
        return Int(symbol)

    def pool(self) -> Any:
        """An arbitrary pool; what is known of a block of it is a premise."""
        if self._inputs is not None:
            return self._inputs[POOL]
        self.the_pool = SymbolicPool.arbitrary()
        self.assume(Int(self.the_pool.front) < Int(self.the_pool.back))
        return self.the_pool

    def table(self, length: str, block: Any, place: Any) -> Any:
        """An arbitrary table in which the block stands at this place; concretely all its other entries are null."""
        if self._inputs is not None:
            return Table(tuple(block if index == place else NULL_BLOCK for index in range(self._inputs[length])))
        return SymbolicTable.arbitrary("entries", self.integer(length), block, place)

    def block(self, name: str, pool: AnyPool) -> Any:
        """An arbitrary usable block of a pool, well formed."""
        block = self.integer(name, 1)
        self.assume(is_usable(pool, block))
        self.assume(is_well_formed(pool, block))
        return block

    def assume(self, premise: Bool | bool) -> None:
        """State a premise."""
        if self._inputs is not None:
            if not premise:
                raise EngineError(f"a premise does not hold for {words(self._inputs)}")
            return
        current_run().conditions.append(term_of(premise))

    def prove(self, goal: Bool | bool) -> None:
        """State a goal: it must hold on this path for all inputs that meet the premises so far."""
        self.num_goals += 1
        if self._inputs is not None:
            if not goal:
                raise Refuted(self._inputs)
            return
        run = current_run()
        failing = (*run.given, *run.conditions, z3.Not(term_of(goal)))
        answer, _ = check(failing, Ask.GOAL)
        if answer == z3.unsat:
            return
        inputs = self.inputs_that_meet(failing) if answer == z3.sat else None
        if inputs is None:
            raise Undecided
        raise Refuted(inputs)

    def inputs_that_meet(self, conditions: tuple[Any, ...]) -> Inputs | None:
        """Inputs for a concrete run, small ones if there are any; a pool only of a size that can be shown."""
        shown = small_pool(self.the_pool) if self.the_pool is not None else ()
        small = tuple(symbol <= SMALL for symbol in self.symbols.values())
        for bounds in ((*shown, *small), shown):
            answer, model = check((*conditions, *bounds), Ask.MODEL)
            if answer == z3.sat:
                inputs: Inputs = {name: value_in(model, symbol) for name, symbol in self.symbols.items()}
                return inputs | ({POOL: concrete_pool(model, self.the_pool)} if self.the_pool is not None else {})
        return None


def negated(value: Any) -> Any:
    """`not value`, for a symbolic truth value too."""
    return ~value if isinstance(value, Bool) else not value


@dataclass(frozen=True, slots=True)
class Theorem:
    """A named statement about the specification; `law` is the law it is evidence for."""

    law: str
    name: str
    statement: str
    scope: str
    body: Callable[[Scope], None]


@dataclass(slots=True)
class Evidence:
    """What came of one theorem."""

    theorem: Theorem
    status: str
    seconds: float
    num_obligations: int = 0
    witness: Inputs | None = None
    counterexample: str = ""
    digests: dict[str, str] = field(default_factory=dict)


THEOREMS: list[Theorem] = []


def theorem(law: str, statement: str, scope: str = "all integers") -> Callable[[Callable[[Scope], None]], Theorem]:
    """Make the function below a theorem; its name is the theorem's name in words."""

    def register(body: Callable[[Scope], None]) -> Theorem:
        made = Theorem(law, body.__name__.replace("_", " "), statement, scope, body)
        THEOREMS.append(made)
        return made

    return register


def prove(stated: Theorem, modules: tuple[ModuleType, ...], mergeable: frozenset[Callable[..., Any]]) -> Evidence:
    """Execute a theorem symbolically, on a witness, and on its counterexample if it has one."""
    started = time.monotonic()
    evidence = Evidence(stated, "proved", 0.0)
    try:
        with with_merged(modules, mergeable), inductive(modules), sources_noted(evidence.digests):
            scope, paths = run_symbolically(stated)
        evidence.num_obligations = scope.num_goals
        evidence.witness = witness_of(stated, scope, paths)
    except Refuted as refuted:
        evidence.status, evidence.counterexample = "failed", reproduced(stated, refuted.inputs)
    except Undecided:
        evidence.status, evidence.counterexample = "unknown", "Z3 does not know"
    except EngineError as error:
        evidence.status, evidence.counterexample = "failed", str(error)
    evidence.seconds = time.monotonic() - started
    return evidence


def run_symbolically(stated: Theorem) -> tuple[Scope, list[tuple[Any, ...]]]:
    """Every path through the body; its last scope, and the conditions of each path."""
    last = Scope()
    goals = 0

    def body() -> None:
        nonlocal last, goals
        last = Scope()
        stated.body(last)
        goals += last.num_goals

    paths = explore(body, ())
    last.num_goals = goals
    return last, [path.conditions for path in paths]


def witness_of(stated: Theorem, scope: Scope, paths: list[tuple[Any, ...]]) -> Inputs:
    """Small inputs that meet the premises, on every path; the goals hold for them concretely as well.

    Raises:
        EngineError: for a theorem that speaks about nothing.
    """
    found: Inputs | None = None
    for conditions in reversed(paths):
        found = scope.inputs_that_meet(conditions)
        if found is None:
            break
        stated.body(Scope(found))
    if found is None:
        raise EngineError("no input meets the premises, so the theorem says nothing")
    return found


def reproduced(stated: Theorem, inputs: Inputs) -> str:
    """The counterexample, if the concrete specification fails on it as well."""
    try:
        stated.body(Scope(inputs))
    except Refuted:
        return words(inputs)
    except EngineError as error:
        return f"not reproduced: {error}"
    return f"not reproduced: {words(inputs)}"


@contextmanager
def with_merged(modules: tuple[ModuleType, ...], mergeable: frozenset[Callable[..., Any]]) -> Iterator[None]:
    """Merge these functions wherever the modules name them."""
    replaced = [
        (module, name, value)
        for module in modules
        for name, value in vars(module).items()
        if callable(value) and any(value is function for function in mergeable)
    ]
    for module, name, value in replaced:
        setattr(module, name, merged(value))
    try:
        yield
    finally:
        for module, name, value in replaced:
            setattr(module, name, value)


@contextmanager
def sources_noted(digests: dict[str, str]) -> Iterator[None]:
    """Note a digest of the source of every function of the specification that is executed meanwhile."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        written = not frame.f_code.co_filename.startswith("<")
        if event == "call" and written and module.startswith(SPECIFICATION):
            name = f"{module.removeprefix(SPECIFICATION)}.{frame.f_code.co_qualname}"
            if name not in digests:
                digests[name] = hashlib.sha256(inspect.getsource(frame.f_code).encode()).hexdigest()[:16]

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def value_in(model: Any, symbol: Any) -> int:
    """The number a model gives to an input; any will do where it gives none."""
    return int(model.eval(symbol, model_completion=True).as_long())


def words(inputs: Inputs) -> str:
    """Inputs in words."""
    return ", ".join(f"{name} = {value}" for name, value in inputs.items())

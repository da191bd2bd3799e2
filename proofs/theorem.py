"""What a theorem is, and what it takes to call it proved.

A theorem's body states its premises and goals about the specification's functions. It is executed three times over:
symbolically along every path; on a concrete witness of its premises, so that it does not speak about nothing; and, if a
goal fails, on the counterexample, which is shown only if it fails there as well.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import z3

from slotproof.proofs.engine import SETTINGS, EngineError, Path, explore
from slotproof.proofs.loops import ANY_BLOCK
from slotproof.proofs.operations import Operation, Step, World, concrete_step, paths_in
from slotproof.proofs.prepared import sources_noted, the_specification_prepared
from slotproof.proofs.scope import Inputs, Refuted, Scope, Undecided, words
from slotproof.proofs.shown import step_in_words
from slotproof.proofs.values import number
from slotproof.spec.preconditions import PreconditionError


@dataclass(frozen=True, slots=True)
class Theorem:
    """A named statement about the specification; `law` is the law it is evidence for.

    Its body is about integers and single blocks, or, given an operation, about every step of that.
    """

    law: str
    name: str
    statement: str
    scope: str
    body: Callable[..., None]
    operation: Operation | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return theorem_named, (self.name,)


@dataclass(slots=True)
class Evidence:
    """What came of one theorem."""

    theorem: Theorem
    status: str
    seconds: float
    num_obligations: int = 0
    slowest: float = 0.0
    """Seconds of the slowest obligation."""
    witness: str = ""
    counterexample: str = ""
    digests: dict[str, str] = field(default_factory=dict)


THEOREMS: list[Theorem] = []

VACUOUS = "no input meets the premises, so the theorem says nothing"


def theorem_named(name: str) -> Theorem:
    """The theorem of this name: how one crosses processes, since its body cannot."""
    return next(stated for stated in THEOREMS if stated.name == name)


def theorem(law: str, statement: str, scope: str = "all integers") -> Callable[[Callable[[Scope], None]], Theorem]:
    """Make the function below a theorem; its name is the theorem's name in words."""
    return _registrar(law, statement, scope, None)


def about(operation: Operation, law: str, statement: str) -> Callable[[Callable[[Scope, Step], None]], Theorem]:
    """Make the function below a theorem about every step of an operation, in every world it is run in."""
    return _registrar(law, statement, operation.scope, operation)


def _registrar(law: str, statement: str, scope: str, operation: Operation | None) -> Callable[..., Theorem]:
    def register(body: Callable[..., None]) -> Theorem:
        made = Theorem(law, body.__name__.replace("_", " "), statement, scope, body, operation)
        THEOREMS.append(made)
        return made

    return register


def prove(stated: Theorem) -> Evidence:
    """The evidence for a theorem; a theorem about an operation is given up in the first world that refutes it."""
    if stated.operation is None:
        return attempt(stated, show_body)
    parts = []
    for world in stated.operation.worlds:
        parts.append(prove_in(stated, world))
        if parts[-1].status != "proved":
            break
    return combined(parts)


def prove_in(stated: Theorem, world: World) -> Evidence:
    """The evidence for a theorem in one world; without a witness if it says nothing there."""
    return attempt(stated, lambda stated, evidence: show_steps(stated, world, evidence))


def combined(parts: list[Evidence]) -> Evidence:
    """The evidence in all worlds: what is wrong in the first that is not proved, and the first witness."""
    first = next((part for part in parts if part.status != "proved"), parts[0])
    whole = Evidence(first.theorem, first.status, sum(part.seconds for part in parts))
    whole.counterexample = first.counterexample
    whole.num_obligations = sum(part.num_obligations for part in parts)
    whole.slowest = max(part.slowest for part in parts)
    whole.witness = next((part.witness for part in parts if part.witness), "")
    for part in parts:
        whole.digests.update(part.digests)
    if whole.status == "proved" and not whole.witness:
        whole.status, whole.counterexample = "failed", VACUOUS
    return whole


def attempt(stated: Theorem, show: Callable[[Theorem, Evidence], str]) -> Evidence:
    """Show a theorem; it is proved only if every goal is."""
    started, SETTINGS.slowest_goal = time.monotonic(), 0.0
    evidence = Evidence(stated, "proved", 0.0)
    try:
        evidence.witness = show(stated, evidence)
    except Refuted as refuted:
        inputs = refuted.inputs
        evidence.status = "failed"
        evidence.counterexample = reproduced(lambda: stated.body(Scope(inputs)), words(inputs))
    except RefutedStep as refuted:
        evidence.status, evidence.counterexample = "failed", str(refuted)
    except Undecided:
        evidence.status, evidence.counterexample = "unknown", "Z3 does not know"
    except EngineError as error:
        evidence.status, evidence.counterexample = "failed", str(error)
    evidence.seconds, evidence.slowest = time.monotonic() - started, SETTINGS.slowest_goal
    return evidence


# Theorems about integers and single blocks.


def show_body(stated: Theorem, evidence: Evidence) -> str:
    """Prove every path of the body; its witness in words."""
    last = Scope()

    def body() -> None:
        nonlocal last
        last = Scope()
        stated.body(last)
        evidence.num_obligations += last.num_goals

    with the_specification_prepared(evidence.digests), sources_noted(evidence.digests):
        paths = explore(body, ())
    return words(witness_of(stated, last, [path.known for path in paths]))


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
        raise EngineError(VACUOUS)
    return found


def reproduced(body: Callable[[], None], shown: str) -> str:
    """The counterexample, if the concrete specification fails on it as well."""
    try:
        body()
    except Refuted:
        return shown
    except (EngineError, PreconditionError) as error:
        return f"not reproduced: {error}"
    return f"not reproduced: {shown}"


# Theorems about the steps of an operation.


class RefutedStep(Exception):
    """A goal does not hold for a step, which is described as far as it could be re-executed."""


def show_steps(stated: Theorem, world: World, evidence: Evidence) -> str:
    """Prove the body for every path of its operation in a world; a step that it speaks about, in words."""
    assert stated.operation is not None
    witness = ""
    explored = paths_in(stated.operation, world)
    evidence.digests.update(explored.digests)
    for path in explored.paths:
        for speaking in show_step(stated, path, evidence):
            witness = witness or step_witness(stated, path.result, speaking, world)
    return witness


def show_step(stated: Theorem, path: Path[Step], evidence: Evidence) -> list[tuple[Any, ...]]:
    """Prove the body for one path of its operation; what is known on each path of the body that states a goal."""

    def body() -> int:
        scope = Scope()
        stated.body(scope, path.result)
        return scope.num_goals

    try:
        paths = explore(body, path.known)
    except Refuted as refuted:
        raise RefutedStep(reproduced_step(stated, path.result, refuted)) from None
    evidence.num_obligations += sum(one.result for one in paths)
    return [(*path.known, *one.known) for one in paths if one.result]


def step_witness(stated: Theorem, step: Step, conditions: tuple[Any, ...], world: World) -> str:
    """A concrete step under these conditions for which the goals hold, in words.

    Of a world that is not small a model leaves open which blocks are popped, so its step may miss the premises.
    """
    found = concrete_step(step, conditions)
    if found is None:
        return ""
    try:
        stated.body(Scope(named_inputs(found[1])), found[0])
    except EngineError:
        if world.small:
            raise
        return ""
    return step_in_words(found[0])


def named_inputs(model: Any) -> Inputs:
    """The block that a theorem about any pool names."""
    return {ANY_BLOCK: number(model, z3.Int(ANY_BLOCK))}


def reproduced_step(stated: Theorem, step: Step, refuted: Refuted) -> str:
    """The counterexample, if the concrete specification fails on it as well."""
    found = concrete_step(step, refuted.failing)
    if found is None:
        return "not reproduced: Z3 gives no example"
    inputs = named_inputs(found[1])
    return reproduced(lambda: stated.body(Scope(inputs), found[0]), step_in_words(found[0]))

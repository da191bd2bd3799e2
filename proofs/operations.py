"""The specification's operations, and the worlds of snapshots and arguments that each is run on."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from slotproof.proofs.bounded import PoolMisused
from slotproof.proofs.engine import Ask, EngineError, Path, check, explore
from slotproof.proofs.pool import SymbolicPool
from slotproof.proofs.prepared import sources_noted, the_code, the_specification_prepared
from slotproof.proofs.unbounded import shown, small_world
from slotproof.proofs.values import smallness, under
from slotproof.spec.admission import Allocation, Refusal
from slotproof.spec.pool import Pool
from slotproof.spec.preconditions import PreconditionError
from slotproof.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class World:
    """Snapshots and arguments, all at once; `words` says which. In a `small` one a path's model is a whole result."""

    words: str
    any_input: Callable[[], tuple[Snapshot, tuple[Any, ...]]]
    small: bool = True


@dataclass(frozen=True, slots=True)
class Operation:
    """A function of the specification from a snapshot and arguments, and the worlds it is run in, smallest first."""

    name: str
    run: Callable[..., Any]
    worlds: tuple[World, ...]
    scope: str
    num_quick: int = 4
    """So many of its worlds, the first, are quick enough for every mutant of the specification to meet them."""


@dataclass(frozen=True, slots=True)
class Step:
    """An operation that was carried out: the snapshot before, the arguments, and what came out."""

    operation: Operation
    before: Snapshot
    arguments: tuple[Any, ...]
    result: Any


@dataclass(frozen=True, slots=True)
class Broken:
    """What came out where the pool was asked for something that it cannot do."""

    why: str


def carried_out(operation: Operation, before: Snapshot, arguments: tuple[Any, ...]) -> Step:
    """Carry an operation out."""
    try:
        result = operation.run(before, *arguments)
    except PreconditionError:
        raise
    except (PoolMisused, IndexError, ValueError) as error:
        result = Broken(str(error))
    return Step(operation, before, arguments, result)


@dataclass(frozen=True, slots=True)
class Explored:
    """All paths of an operation in a world, and the digests of the source they executed."""

    paths: list[Path[Step]]
    digests: dict[str, str] = field(default_factory=dict)


_explored: dict[tuple[Any, ...], Explored] = {}


def paths_in(operation: Operation, world: World) -> Explored:
    """Every path of the operation in the world; found once as long as the specification's code stays the same.

    Each path is replayed: a model of it, run on the plain specification, comes out as the path says.
    """
    question = (operation.name, world.words, the_code())
    if question not in _explored:
        digests: dict[str, str] = {}
        with the_specification_prepared(digests):
            paths = explore(lambda: carried_out(operation, *world.any_input()), ())
        found = Explored(paths, digests)
        with sources_noted(found.digests):
            for path in paths if world.small else ():
                replay(path)
        _explored[question] = found
    return _explored[question]


def replay(path: Path[Step]) -> None:
    """Run a model of the path on the plain specification.

    Raises:
        EngineError: where it comes out otherwise, or no model is found. Two accidents may differ in their words.
    """
    found = concrete_step(path.result, path.known)
    if found is None:
        raise EngineError("Z3 gives no example of a path, so it cannot be replayed")
    step, model = found
    expected = under(model, path.result.result)
    both_broken = isinstance(step.result, Broken) and isinstance(expected, Broken)
    if not both_broken and comparable(step.result) != comparable(expected):
        raise EngineError(f"the engine says {expected}, the specification {step.result}")


def comparable(result: Any) -> Any:
    """A result without what no proof models: in which order blocks got their keys."""
    if isinstance(result, Pool):
        return replace(result, keyed=tuple(sorted(result.keyed)))
    if isinstance(result, Snapshot):
        return result.with_pool(comparable(result.pool))
    if isinstance(result, Allocation | Refusal):
        return replace(result, snapshot=comparable(result.snapshot))
    return tuple(map(comparable, result)) if type(result) is tuple else result


def concrete_step(step: Step, conditions: tuple[Any, ...]) -> tuple[Step, Any] | None:
    """A step with plain values that meets the conditions, carried out anew, and the model it comes from."""
    unbounded = isinstance(step.before.pool, SymbolicPool)
    shown_only = small_world(step.before, step.arguments, conditions) if unbounded else ()
    for bounds in (smallness((step.before, step.arguments)), ()):
        _, model = check((*conditions, *shown_only, *bounds), Ask.MODEL)
        if model is not None:
            if unbounded:
                before, arguments = shown(model, step.before, step.arguments)
            else:
                before, arguments = under(model, (step.before, step.arguments))
            return carried_out(step.operation, before, tuple(arguments)), model
    return None

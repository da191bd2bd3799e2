"""Runs the theorems, and says which source of the specification they executed."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from slotproof.proofs.theorem import THEOREMS, Evidence, Theorem, combined, prove, prove_in, theorem_named


def run(
    laws: Iterable[str] = (), on_done: Callable[[int, int], None] = lambda _, __: None, workers: int | None = None
) -> list[Evidence]:
    """The evidence for every theorem, or for those of some laws, in the order in which they are stated.

    An operation's worlds are shared out among the processes; `on_done` hears how many parts are done, of how many.
    """
    wanted = set(laws)
    stated = [one for one in stated_theorems() if not wanted or one.law in wanted]
    tasks = tasks_for(stated)
    parts: dict[str, list[Evidence]] = {one.name: [] for one in stated}
    with ProcessPoolExecutor(workers or os.cpu_count() or 1) as pool:
        for number, found in enumerate(pool.map(carry_out, tasks), start=1):
            for evidence in found:
                parts[evidence.theorem.name].append(evidence)
            on_done(number, len(tasks))
    return [combined(found) for found in parts.values()]


Task = tuple[tuple[str, ...], int | None]
"""Theorems by name, and the number of the world to prove them in, if they are about an operation."""


def tasks_for(stated: list[Theorem]) -> list[Task]:
    """What can be done apart: a theorem about no operation, or all theorems about one in one of its worlds."""
    tasks: list[Task] = [((one.name,), None) for one in stated if one.operation is None]
    operations = {one.operation.name: one.operation for one in stated if one.operation is not None}
    for operation in operations.values():
        names = tuple(one.name for one in stated if one.operation is operation)
        tasks += [(names, number) for number in range(len(operation.worlds))]
    return tasks


def carry_out(task: Task) -> list[Evidence]:
    """Do one task."""
    names, number = task
    stated = [theorem_named(name) for name in names]
    return [
        prove(one) if number is None or one.operation is None else prove_in(one, one.operation.worlds[number])
        for one in stated
    ]


def stated_theorems() -> tuple[Theorem, ...]:
    """All theorems."""
    import slotproof.proofs.theorems  # noqa: F401  (registers them)

    return tuple(THEOREMS)


def evidence_json(evidence: list[Evidence], seconds: float) -> dict[str, Any]:
    """The fields of `slotproof prove --json`."""
    return {
        "theorems": [
            {
                "law": one.theorem.law,
                "name": one.theorem.name,
                "statement": one.theorem.statement,
                "status": one.status,
                "scope": one.theorem.scope,
                "seconds": round(one.seconds, 3),
                "obligations": one.num_obligations,
                "witness": one.witness,
                "counterexample": one.counterexample,
                "source": one.digests,
            }
            for one in evidence
        ],
        "seconds": round(seconds, 3),
    }

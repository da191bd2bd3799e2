"""Runs the theorems, and says which source of the specification they executed."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from slotproof.proofs.kills import killed_by
from slotproof.proofs.theorem import THEOREMS, Evidence, Theorem, combined, prove, prove_in, theorem_named


def theorems_of(laws: Iterable[str]) -> list[Theorem]:
    """The theorems of some laws, or all if none is named, in the order in which they are stated."""
    wanted = set(laws)
    return [one for one in stated_theorems() if not wanted or one.law in wanted]


def run(stated: list[Theorem], on_done: Callable[[int], None] = lambda _: None) -> list[Evidence]:
    """The evidence for theorems, that in small worlds first; `on_done` hears how many of their tasks are done.

    An operation's worlds are shared out among as many processes as there are cores.
    """
    tasks = tasks_for(stated)
    parts: dict[str, list[Evidence]] = {one.name: [] for one in stated}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for number, found in enumerate(pool.map(carry_out, tasks), start=1):
            for evidence in found:
                parts[evidence.theorem.name].append(evidence)
            on_done(number)
    return [combined(found[::-1]) for found in parts.values()]


Task = tuple[tuple[str, ...], int | None]
"""Theorems by name, and the number of the world to prove them in, if they are about an operation."""


def tasks_for(stated: list[Theorem]) -> list[Task]:
    """What can be done apart: a theorem about no operation, or all theorems about one in one of its worlds.

    Pools of any size come first and short tasks last, so that no core waits for another at the end.
    """
    operations = {one.operation.name: one.operation for one in stated if one.operation is not None}
    tasks: list[Task] = []
    for operation in sorted(operations.values(), key=lambda operation: operation.worlds[0].small):
        names = tuple(one.name for one in stated if one.operation is operation)
        tasks += [(names, number) for number in reversed(range(len(operation.worlds)))]
    return [*tasks, *[((one.name,), None) for one in stated if one.operation is None]]


def carry_out(task: Task) -> list[Evidence]:
    """Do one task; a process that was not forked has not yet imported the theorems."""
    stated_theorems()
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
                "slowest_obligation": round(one.slowest, 3),
                "witness": one.witness,
                "counterexample": one.counterexample,
                "kills": killed_by(one.theorem.name),
                "source": one.digests,
            }
            for one in evidence
        ],
        "seconds": round(seconds, 3),
    }

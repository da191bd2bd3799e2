"""Runs the theorems, and says which source of the specification they executed."""

from collections.abc import Callable, Iterable
from typing import Any

from slotproof.proofs.theorem import THEOREMS, Evidence, Theorem, prove


def run(laws: Iterable[str] = (), on_done: Callable[[Evidence], None] = lambda _: None) -> list[Evidence]:
    """The evidence for every theorem, or for those of some laws, in the order in which they are stated."""
    wanted = set(laws)
    done = []
    for stated in stated_theorems():
        if not wanted or stated.law in wanted:
            done.append(prove(stated))
            on_done(done[-1])
    return done


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

"""Runs the theorems, and says which source of the specification they executed."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from types import ModuleType
from typing import Any

from slotproof.proofs.theorem import THEOREMS, Evidence, Inputs, Theorem, prove
from slotproof.spec import admission, arithmetic, groups, keys

MODULES: tuple[ModuleType, ...] = (admission, arithmetic, groups, keys)
"""Where the specification, and with it its theorems, name the functions that are merged."""

MERGED: frozenset[Callable[..., Any]] = frozenset(
    {
        arithmetic.imin,
        arithmetic.imax,
        arithmetic.ceil_div,
        arithmetic.slots_needed,
        arithmetic.tokens_to_cache,
        arithmetic.tokens_behind_window,
        arithmetic.window_admission_cap,
        arithmetic.blocks_for_window_hit,
        arithmetic.blocks_missing,
        arithmetic.is_short,
        keys.block_key,
    }
)
"""Functions from integers to an integer or a truth value: each is explored by itself."""


def run(laws: Iterable[str] = (), on_done: Callable[[Evidence], None] = lambda _: None) -> list[Evidence]:
    """The evidence for every theorem, or for those of some laws, in the order in which they are stated."""
    wanted = set(laws)
    done = []
    for stated in stated_theorems():
        if not wanted or stated.law in wanted:
            done.append(prove(stated, MODULES, MERGED))
            on_done(done[-1])
    return done


def stated_theorems() -> tuple[Theorem, ...]:
    """All theorems."""
    import slotproof.proofs.theorems  # noqa: F401  (registers them)

    return tuple(THEOREMS)


def plain(inputs: Inputs | None) -> dict[str, Any] | None:
    """Inputs as JSON."""
    if inputs is None:
        return None
    return {name: value if isinstance(value, int) else asdict(value) for name, value in inputs.items()}


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
                "witness": plain(one.witness),
                "counterexample": one.counterexample,
                "source": one.digests,
            }
            for one in evidence
        ],
        "seconds": round(seconds, 3),
    }

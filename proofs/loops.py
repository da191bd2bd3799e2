"""The loop rule: what the specification's `repeat` becomes in a proof.

For a loop of n turns whose state meets an invariant: n is not negative; the invariant holds before the first turn; for
any turn k < n and *any* state that meets the invariant at k, the step leads to a state that meets it at k + 1, on every
path through the step. Then, whatever n is, the state after the loop is one that meets the invariant at n, and nothing
else is known of it. The first three are obligations, so a wrong invariant, a negative count, or a step that breaks the
invariant only on a later turn is a failure.

An invariant speaks about one arbitrary block besides counts. Since nothing is assumed of that block, what is shown for
it is shown for every block, and the turn's own facts are those of that same block before it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from types import ModuleType
from typing import Any

import z3

from slotproof.proofs.engine import Int, current_run, explore, term_of
from slotproof.spec.loops import repeat

Facts = list[tuple[str, Any]]
"""What an invariant says, each with its name."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """`unknown(start, mark)` makes a state of which nothing is known, `facts(turn, start, state)` says what holds."""

    unknown: Callable[[Any, str], Any]
    facts: Callable[[Any, Any, Any], Facts]


INVARIANTS: dict[str, Invariant] = {}
"""By the name of the step."""

_turns = count()


def by_induction(num_turns: Any, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """`repeat`, for a number of turns that is not known."""
    if isinstance(num_turns, int):
        return repeat(num_turns, step, start)
    invariant, mark = INVARIANTS[step.__name__], f" in turn {next(_turns)}"
    run = current_run()
    run.oblige(term_of(num_turns >= 0), "a loop has no negative number of turns")
    for name, fact in invariant.facts(0, start, start):
        run.oblige(term_of(fact), f"before the loop over {step.__name__}: {name}")
    turn = Int(z3.Int(f"turn{mark}"))
    before = invariant.unknown(start, mark)
    known = [fact for _, fact in invariant.facts(turn, start, before)]
    given = (*run.given, *run.conditions, *map(term_of, known), term_of(turn >= 0), term_of(turn < num_turns))

    def one_turn() -> None:
        after = step(turn, before)
        for name, fact in invariant.facts(turn + 1, start, after):
            current_run().oblige(term_of(fact), f"after a turn of the loop over {step.__name__}: {name}")

    explore(one_turn, given)
    end = invariant.unknown(start, f" after loop {next(_turns)}")
    run.conditions.extend(term_of(fact) for _, fact in invariant.facts(num_turns, start, end))
    return end


@contextmanager
def inductive(modules: tuple[ModuleType, ...]) -> Iterator[None]:
    """Use the loop rule wherever the modules name `repeat`."""
    named = [module for module in modules if vars(module).get("repeat") is repeat]
    for module in named:
        module.repeat = by_induction  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module in named:
            module.repeat = repeat  # type: ignore[attr-defined]

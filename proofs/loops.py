"""The loop rule: what the specification's `repeat` becomes in a proof.

For a loop of n turns whose state meets an invariant: n is not negative; the invariant holds before the first turn; for
any turn k < n and *any* state that meets the invariant at k, the step leads to a state that meets it at k + 1, on every
path through the step. Then, whatever n is, the state after the loop is one that meets the invariant at n, and nothing
else is known of it. The first three are obligations, so a wrong invariant, a negative count, or a step that breaks the
invariant only on a later turn is a failure.

An invariant speaks about counts and about one block and its place in the table. The block that a theorem names is an
arbitrary usable, well-formed one, so what is shown for it is shown for every such block; therefore a turn may rely on
what the invariant says about the very block it handles as well.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from types import ModuleType
from typing import Any

import z3

from slotproof.proofs.engine import Int, current_run, explore, term_of
from slotproof.proofs.table import SymbolicTable
from slotproof.spec.loops import foreach, repeat

Facts = list[tuple[str, Any]]
"""What an invariant says, each with its name."""

ANY_BLOCK, ITS_PLACE = "any block", "its place"
"""The inputs that every invariant speaks about; a place out of the table's range means that the block is not in it."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """`unknown(start, mark)` makes a state of which nothing is known.

    `facts(turn, start, state, block, place)` says what holds before a turn.
    """

    unknown: Callable[[Any, str], Any]
    facts: Callable[[Any, Any, Any, Any, Any], Facts]


INVARIANTS: dict[str, Invariant] = {}
"""By the name of the step."""

_turns = count()


def repeat_by_induction(num_turns: Any, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """`repeat`, for a number of turns that is not known."""
    if isinstance(num_turns, int):
        return repeat(num_turns, step, start)
    return by_induction(step.__name__, num_turns, step, start, lambda _: [])


def foreach_by_induction(items: Any, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """`foreach`, over a table of which nothing is known."""
    if not isinstance(items, SymbolicTable):
        return foreach(items, step, start)

    def turn(index: Any, state: Any) -> Any:
        return step(items.entry(index), state)

    return by_induction(step.__name__, items.length, turn, start, lambda index: [(items.entry(index), index)])


def by_induction(
    name: str,
    num_turns: Any,
    step: Callable[[Any, Any], Any],
    start: Any,
    handled: Callable[[Any], list[tuple[Any, Any]]],
) -> Any:
    """The loop rule; `handled` names the block that a turn handles, and its place."""
    invariant, mark = INVARIANTS[name], f" in turn {next(_turns)}"
    subject = Int(z3.Int(ANY_BLOCK)), Int(z3.Int(ITS_PLACE))
    run = current_run()
    run.oblige(term_of(num_turns >= 0), "a loop has no negative number of turns")
    for what, fact in invariant.facts(0, start, start, *subject):
        run.oblige(term_of(fact), f"before the loop over {name}: {what}")
    turn = Int(z3.Int(f"turn{mark}"))
    before = invariant.unknown(start, mark)

    def one_turn() -> None:
        for one in (subject, *handled(turn)):
            current_run().conditions.extend(term_of(fact) for _, fact in invariant.facts(turn, start, before, *one))
        after = step(turn, before)
        for what, fact in invariant.facts(turn + 1, start, after, *subject):
            current_run().oblige(term_of(fact), f"after a turn of the loop over {name}: {what}")

    explore(one_turn, (*run.given, *run.conditions, term_of(turn >= 0), term_of(turn < num_turns)))
    end = invariant.unknown(start, f" after loop {next(_turns)}")
    run.conditions.extend(term_of(fact) for _, fact in invariant.facts(num_turns, start, end, *subject))
    return end


RULES: dict[str, tuple[Any, Any]] = {
    "repeat": (repeat, repeat_by_induction),
    "foreach": (foreach, foreach_by_induction),
}


@contextmanager
def inductive(modules: tuple[ModuleType, ...]) -> Iterator[None]:
    """Use the loop rule wherever the modules name one of the two loops."""
    named = [(module, name) for module in modules for name in RULES if vars(module).get(name) is RULES[name][0]]
    for module, name in named:
        setattr(module, name, RULES[name][1])
    try:
        yield
    finally:
        for module, name in named:
            setattr(module, name, RULES[name][0])

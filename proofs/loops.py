"""The loop rule: what the specification's `repeat` becomes in a proof.

For a loop of n turns whose state meets an invariant: n is not negative; the invariant holds before the first turn; for
any turn k < n and *any* state that meets the invariant at k, the step leads to a state that meets it at k + 1, on every
path through the step. Then, whatever n is, the state after the loop is one that meets the invariant at n, and nothing
else is known of it. The first three are obligations, so a wrong invariant, a negative count, or a step that breaks the
invariant only on a later turn is a failure.

An invariant speaks about counts and about one block and its place in the table. It is shown for a fresh block, of which
only `presumed` is known, whatever the theorem supposes about its own; so it holds for every block that meets this. Two
such blocks are used: the one that the turn handles, and the one that the theorem names, which must be shown to meet it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import z3

from slotproof.proofs.bounded import BoundedPool
from slotproof.proofs.engine import Ask, EngineError, Int, check, current_run, explore, term_of
from slotproof.proofs.table import SymbolicTable
from slotproof.spec.loops import foreach, repeat
from slotproof.spec.snapshot import Table

Subject = tuple[Any, Any]
"""A block, and its place in the table."""

Facts = list[tuple[str, Any]]
"""What an invariant says, each with its name."""

ANY_BLOCK, ITS_PLACE = "any block", "its place"
"""The theorem's inputs that the state after a loop is told about.

A place out of the table's range means that the block is not in it.
"""


@dataclass(frozen=True, slots=True)
class Invariant:
    """`unknown(start, mark)` makes a state of which nothing is known.

    `facts(turn, start, state, block, place)` says what holds before a turn, for every block with
    `presumed(start, block)`.
    """

    unknown: Callable[[Any, str], Any]
    facts: Callable[[Any, Any, Any, Any, Any], Facts]
    presumed: Callable[[Any, Any], Any] = lambda _, __: True


INVARIANTS: dict[str, Invariant] = {}
"""By the name of the step."""

_loops = count()


def is_small(state: Any) -> bool:
    """Whether a loop over this state runs turn by turn, because the pool or table has few blocks."""
    return isinstance(state, BoundedPool | Table) or (isinstance(state, tuple) and any(map(is_small, state)))


def repeat_by_induction(num_turns: Any, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """`repeat`, for a number of turns that is not known."""
    if isinstance(num_turns, int) or is_small(start):
        return repeat(num_turns, step, start)
    return by_induction(step.__name__, num_turns, lambda turn, state, _: step(turn, state), start, lambda _: [])


def foreach_by_induction(items: Any, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """`foreach`, over a table of which nothing is known."""
    if not isinstance(items, SymbolicTable):
        return foreach(items, step, start)

    def one_turn(index: Any, state: Any, subject: Subject) -> Any:
        return step(items.naming(*subject).entry(index), state)

    return by_induction(step.__name__, items.length, one_turn, start, lambda index: [(items.entry(index), index)])


def by_induction(
    name: str,
    num_turns: Any,
    step: Callable[[Any, Any, Subject], Any],
    start: Any,
    handled: Callable[[Any], list[Subject]],
) -> Any:
    """The loop rule; `handled` names the block that a turn handles, and its place.

    Raises:
        EngineError: where no invariant is stated, an obligation is not shown, or no turn is possible.
    """
    if name not in INVARIANTS:
        raise EngineError(f"no invariant is stated for the loop over {name}")
    invariant, mark, run = INVARIANTS[name], f" in loop {next(_loops)}", current_run()
    fresh = Int(z3.Int(f"{ANY_BLOCK}{mark}")), Int(z3.Int(f"{ITS_PLACE}{mark}"))
    turn, before = Int(z3.Int(f"turn{mark}")), invariant.unknown(start, mark)

    def first() -> None:
        for what, fact in invariant.facts(0, start, start, *fresh):
            current_run().oblige(term_of(fact), f"before the loop over {name}: {what}")

    def later() -> None:
        for block, place in (fresh, *handled(turn)):
            facts = invariant.facts(turn, start, before, block, place)
            current_run().know(term_of(invariant.presumed(start, block)), *[term_of(fact) for _, fact in facts])
        after = step(turn, before, fresh)
        for what, fact in invariant.facts(turn + 1, start, after, *fresh):
            current_run().oblige(term_of(fact), f"after a turn of the loop over {name}: {what}")

    run.oblige(term_of(num_turns >= 0), "a loop has no negative number of turns")
    known = tuple(run.known)
    explore(first, (*known, term_of(invariant.presumed(start, fresh[0]))))
    within = (*known, term_of(turn >= 0), term_of(turn < num_turns))
    if not any(check((*within, *path.known), Ask.MODEL)[0] == z3.sat for path in explore(later, within)):
        raise EngineError(f"no turn of the loop over {name} is possible, so nothing is shown of it")
    named, end = (Int(z3.Int(ANY_BLOCK)), Int(z3.Int(ITS_PLACE))), invariant.unknown(start, f" after{mark}")
    run.oblige(term_of(invariant.presumed(start, named[0])), f"the loop over {name} speaks of the theorem's block")
    run.know(*[term_of(fact) for _, fact in invariant.facts(num_turns, start, end, *named)])
    return end

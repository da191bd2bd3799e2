"""The loop rule: what the specification's `repeat` becomes in a proof.

For a loop of n turns whose state meets an invariant: n is not negative; the invariant holds before the first turn; for
any turn k < n and *any* state that meets the invariant at k, the step leads to a state that meets it at k + 1, on every
path through the step. Then, whatever n is, the state after the loop is one that meets the invariant at n, and nothing
else is known of it. The first three are obligations, so a wrong invariant, a negative count, or a step that breaks the
invariant only on a later turn is a failure.

An invariant speaks about counts, about one block, and about one entry of the state's table. It is shown for a fresh
block and a fresh entry, of which only `presumed` is known, whatever the theorem supposes about its own. So afterwards
it is known of every block that meets this, and stated for each one that is mentioned: entries read, heads popped, and
the block that the theorem names.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import getclosurevars
from typing import Any

import z3

from slotproof.proofs.bounded import BoundedPool
from slotproof.proofs.engine import Ask, EngineError, Int, check, current_run, explore, term_of
from slotproof.proofs.table import SymbolicTable
from slotproof.spec.loops import foreach, repeat
from slotproof.spec.snapshot import Table

Facts = list[tuple[str, Any]]
"""What an invariant says, each with its name."""

Context = Mapping[str, Any]
"""The variables that the step of a loop closes over, and the `items` it runs over."""

ANY_BLOCK = "any block"
"""The block that a theorem names."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """`unknown(start, mark)` makes a state of which nothing is known.

    `facts(turn, start, state, block, context)` says what holds before a turn, for every block with
    `presumed(start, block)`; `entries(turn, start, state, place, context)` what holds of the entry at any place.
    """

    unknown: Callable[[Any, str], Any]
    facts: Callable[[Any, Any, Any, Any, Context], Facts]
    presumed: Callable[[Any, Any], Any] = lambda _, __: True
    entries: Callable[[Any, Any, Any, Any, Context], Facts] = lambda *_: []


INVARIANTS: dict[str, Invariant] = {}
"""By the name of the step."""


def is_small(state: Any) -> bool:
    """Whether a loop over this state runs turn by turn, because the pool or table has few blocks."""
    return isinstance(state, BoundedPool | Table) or (isinstance(state, tuple) and any(map(is_small, state)))


def repeat_by_induction(num_turns: Any, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """`repeat`, for a number of turns that is not known."""
    if isinstance(num_turns, int) or is_small(start):
        return repeat(num_turns, step, start)
    return by_induction(step, num_turns, step, start, getclosurevars(step).nonlocals)


def foreach_by_induction(items: Any, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """`foreach`, over a table of which nothing is known."""
    if not isinstance(items, SymbolicTable):
        return foreach(items, step, start)
    context = {**getclosurevars(step).nonlocals, "items": items}
    return by_induction(step, items.length, lambda turn, state: step(items.entry(turn), state), start, context)


def by_induction(
    step: Callable[[Any, Any], Any], num_turns: Any, one_turn: Callable[[Any, Any], Any], start: Any, context: Context
) -> Any:
    """The loop rule.

    Raises:
        EngineError: where no invariant is stated, an obligation is not shown, or no turn is possible.
    """
    name = step.__name__
    if name not in INVARIANTS:
        raise EngineError(f"no invariant is stated for the loop over {name}")
    invariant, run = INVARIANTS[name], current_run()
    mark = f" in loop {run.fresh_name()}"
    block, place = Int(z3.Int(f"{ANY_BLOCK}{mark}")), Int(z3.Int(f"any place{mark}"))
    turn = Int(z3.Int(f"turn{mark}"))

    def of_block(turn: Any, state: Any, one: Any) -> Iterator[Any]:
        presumed = term_of(invariant.presumed(start, one))
        return (z3.Implies(presumed, term_of(fact)) for _, fact in invariant.facts(turn, start, state, one, context))

    def claimed(turn: Any, state: Any) -> Any:
        if not isinstance(getattr(state, "table", None), SymbolicTable):
            return state

        def claims(place: Any) -> tuple[Any, ...]:
            return tuple(term_of(fact) for _, fact in invariant.entries(turn, start, state, place, context))

        return state._replace(table=state.table.claiming(claims))

    before = claimed(turn, invariant.unknown(start, mark))

    def show(turn: Any, state: Any, when: str) -> None:
        facts = invariant.facts(turn, start, state, block, context)
        for what, fact in (*facts, *invariant.entries(turn, start, state, place, context)):
            current_run().oblige(term_of(fact), f"{when} the loop over {name}: {what}")

    def fresh(*states: Any) -> None:
        current_run().know(term_of(invariant.presumed(start, block)))
        current_run().mention(block.term)
        for state in states:
            if isinstance(getattr(state, "table", None), SymbolicTable):
                state.table.mention(place)

    def first() -> None:
        fresh(start)
        show(0, start, "before")

    def later() -> None:
        current_run().know_everywhere(lambda one: of_block(turn, before, Int(one)))
        fresh(start, before)
        show(turn + 1, one_turn(turn, before), "after a turn of")

    run.oblige(term_of(num_turns >= 0), "a loop has no negative number of turns")
    if not run.may_be(term_of(num_turns > 0)):
        return start
    explore(first, tuple(run.known))
    within = (*run.known, term_of(turn >= 0), term_of(turn < num_turns))
    if not any(check((*within, *path.known), Ask.MODEL)[0] == z3.sat for path in explore(later, within)):
        raise EngineError(f"no turn of the loop over {name} is possible, so nothing is shown of it")
    end = claimed(num_turns, invariant.unknown(start, f" after{mark}"))
    run.know_everywhere(lambda one: of_block(num_turns, end, Int(one)))
    run.oblige(term_of(invariant.presumed(start, Int(z3.Int(ANY_BLOCK)))), f"the loop over {name} speaks of the block")
    run.mention(z3.Int(ANY_BLOCK))
    return end

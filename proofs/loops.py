"""The loop rule: what the specification's `repeat` becomes in a proof.

For a loop of n turns whose state meets an invariant: n is not negative; the invariant holds before the first turn; for
any turn k < n and *any* state that meets the invariant at k, the step leads to a state that meets it at k + 1, on every
path through the step. Then, whatever n is, the state after the loop is one that meets the invariant at n, and nothing
else is known of it. The first three are obligations, so a wrong invariant, a negative count, or a step that breaks the
invariant only on a later turn is a failure.

An invariant speaks about counts, about one block, and about one entry of the state's table. It is shown for a fresh
block and a fresh entry, of which only `presumed` is known, whatever the theorem supposes about its own. So afterwards
it is known of every block that meets this, and stated for each one that is mentioned: entries read, heads popped, and
the block that the theorem names. `defined` says how what the invariant counts begins and goes on from turn to turn.

A loop that starts anew from the same state over the same items ends in the same one, so it is given the same name.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import getclosurevars, unwrap
from typing import Any

import z3

from slotproof.proofs.bounded import BoundedPool
from slotproof.proofs.engine import Ask, EngineError, ImpossiblePath, Int, check, current_run, term_of
from slotproof.proofs.pool import SymbolicPool
from slotproof.proofs.table import Items, Run, SymbolicTable, table_of
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
    `presumed(start, block, context)`; `entries(turn, start, state, place, context)` what holds of the entry at any
    place; `defined(turn, start, context)` how what is defined by recursion begins, and goes on at this turn.
    """

    unknown: Callable[[Any, str], Any]
    facts: Callable[[Any, Any, Any, Any, Context], Facts]
    presumed: Callable[[Any, Any, Context], Any] = lambda *_: True
    entries: Callable[[Any, Any, Any, Any, Context], Facts] = lambda *_: []
    defined: Callable[[Any, Any, Context], tuple[Any, ...]] = lambda *_: ()


INVARIANTS: dict[str, Invariant] = {}
"""By the name of the step."""


def is_small(state: Any) -> bool:
    """Whether a loop over this state runs turn by turn, because the pool or table has few blocks."""
    return isinstance(state, BoundedPool | Table) or (isinstance(state, tuple) and any(map(is_small, state)))


def repeat_by_induction(num_turns: Any, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """`repeat`, for a number of turns that is not known."""
    if isinstance(num_turns, int) or is_small(start):
        return repeat(num_turns, step, start)
    return by_induction(step, num_turns, step, start, getclosurevars(unwrap(step)).nonlocals)


def foreach_by_induction(items: Any, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """`foreach`, over a table of which nothing is known."""
    if not isinstance(items, Items):
        return foreach(items, step, start)
    context = {**getclosurevars(unwrap(step)).nonlocals, "items": items}
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
    mark = f" in loop {occasion(name, num_turns, start, context)}"
    block, place = Int(z3.Int(f"{ANY_BLOCK}{mark}")), Int(z3.Int(f"any place{mark}"))
    turn = Int(z3.Int(f"turn{mark}"))

    def of_block(turn: Any, state: Any, one: Any) -> Iterator[Any]:
        presumed = term_of(invariant.presumed(start, one, context))
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
        current_run().know(term_of(invariant.presumed(start, block, context)))
        current_run().mention(block.term)
        for state in states:
            if isinstance(getattr(state, "table", None), SymbolicTable):
                state.table.mention(place)

    def first() -> None:
        current_run().know(*invariant.defined(0, start, context))
        fresh(start)
        show(0, start, "before")

    def later() -> bool:
        current_run().assume(term_of(turn >= 0), term_of(turn < num_turns))
        current_run().know(*invariant.defined(turn, start, context))
        current_run().know_everywhere(lambda one: of_block(turn, before, Int(one)))
        fresh(start, before)
        show(turn + 1, one_turn(turn, before), "after a turn of")
        return current_run().has_example(SMALL_BLOCKS)

    run.oblige(term_of(num_turns >= 0), "a loop has no negative number of turns")
    if not run.may_be(term_of(num_turns > 0)):
        return start
    run.paths_through(first)
    if not any(path.result for path in run.paths_through(later)):
        if check(tuple(run.known), Ask.GOAL)[0] == z3.unsat:
            raise ImpossiblePath
        raise EngineError(f"no turn of the loop over {name} is possible, so nothing is shown of it")
    end = claimed(num_turns, invariant.unknown(start, f" after{mark}"))
    run.know(*invariant.defined(num_turns, start, context))
    run.know_everywhere(lambda one: of_block(num_turns, end, Int(one)))
    presumed = invariant.presumed(start, Int(z3.Int(ANY_BLOCK)), context)
    run.oblige(term_of(presumed), f"the loop over {name} speaks of the block")
    run.mention(z3.Int(ANY_BLOCK))
    return end


SMALL_BLOCKS = z3.Int("block_size") == 2
"""Z3 finds examples sooner where the divisor is a number."""


_occasions: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}


def occasion(name: str, num_turns: Any, start: Any, context: Context) -> str:
    """A name for a loop: the same for the same step, turns, state and items, if the step knows nothing else."""
    if not isinstance(start, SymbolicPool) or set(context) - {"items"}:
        return current_run().fresh_name()
    items = context.get("items")
    arrays, numbers = arrays_in(start, items), numbers_in(num_turns, start, items)
    direction = isinstance(items, Run) and items.backwards
    question = (name, direction, *(array.get_id() for array in arrays))
    before = _occasions.setdefault(question, [])
    for place, (_, earlier) in enumerate(before):
        if all(map(are_equal_here, numbers, earlier)):
            return f"{'.'.join(map(str, question))}.{place}"
    before.append((arrays, numbers))
    return f"{'.'.join(map(str, question))}.{len(before) - 1}"


def are_equal_here(one: Any, other: Any) -> bool:
    """Whether two numbers are the same on this path."""
    return bool(one.eq(other)) or not current_run().may_be(one != other)


def arrays_in(pool: SymbolicPool, items: Items | None) -> tuple[Any, ...]:
    """The arrays of a pool, and of what is run over."""
    named = () if items is None else (table_of(items).array, table_of(items).places)
    return (pool.refs, pool.keys, pool.queued, pool.stamps, *named)


def numbers_in(num_turns: Any, pool: SymbolicPool, items: Items | None) -> tuple[Any, ...]:
    """The turns, and the numbers of a pool and of what is run over."""
    named = () if items is None else (table_of(items).nulls, items.length.term)
    return (term_of(num_turns), pool.size, pool.front, pool.back, pool.free, *named)

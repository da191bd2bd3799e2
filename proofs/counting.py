"""How many of the first entries of a table or run are unreferenced: a sum of which Z3 knows how it goes on.

The number is a function of the pool's arrays and of what is run over, defined by recursion on the number of entries.
Z3 is told the start and the steps that a loop takes (`begins`, `goes_on`), never a property that would need proof.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any

import z3

from slotproof.proofs.engine import Int, term_of
from slotproof.proofs.pool import SymbolicPool
from slotproof.proofs.table import Items, Run, table_of
from slotproof.spec.pool import NO_KEY, NULL_BLOCK


class Kind(IntEnum):
    """Which unreferenced blocks are counted."""

    KEYLESS = 0
    KEYED = 1
    ANY = 2


INTEGERS = z3.ArraySort(z3.IntSort(), z3.IntSort())

UNREFERENCED = z3.Function("unreferenced among the first", *[INTEGERS] * 3, *[z3.IntSort()] * 6)
"""Of a pool's references and keys, the entries, null entries, end, direction and kind: among the first so many."""


def unreferenced(kind: Kind, pool: SymbolicPool, items: Items, number: Any) -> Int:
    """How many of the first `number` items are unreferenced blocks of the kind."""
    table, backwards = table_of(items), isinstance(items, Run) and items.backwards
    which = (pool.refs, pool.keys, table.array, table.nulls, items.length.term)
    return Int(UNREFERENCED(*which, z3.IntVal(-1 if backwards else 1), z3.IntVal(kind), term_of(number)))


def definition(kind: Kind, pool: SymbolicPool, items: Items, turn: Any) -> tuple[Any, ...]:
    """None are counted among no items; the item at a turn adds one if it is an unreferenced block of the kind."""
    counted = unreferenced(kind, pool, items, 0)
    return (counted.term == 0, *step_of(unreferenced(kind, pool, items, turn).term))


def step_of(counted: Any) -> Iterator[Any]:
    """How the number goes on from one item to the next."""
    refs, keys, entries, nulls, end, step, kind, turn = counted.children()
    place = z3.If(step < 0, end - 1 - turn, turn)
    block = z3.Select(entries, place)
    keyed = z3.Select(keys, block) != NO_KEY
    meant = z3.Or(kind == Kind.ANY, keyed == (kind == Kind.KEYED))
    adds = z3.And(place >= nulls, block != NULL_BLOCK, z3.Select(refs, block) == 0, meant)
    following = UNREFERENCED(refs, keys, entries, nulls, end, step, kind, turn + 1)
    yield z3.Implies(turn >= 0, following == counted + z3.If(adds, 1, 0))


def expanded(terms: Iterable[Any], most: int) -> list[Any]:
    """What the definition says about the first `most` items, for every sum that stands in the terms."""
    sums: dict[tuple[int, ...], Any] = {}
    seen: set[int] = set()
    waiting = list(terms)
    while waiting:
        term = waiting.pop()
        if term.get_id() in seen:
            continue
        seen.add(term.get_id())
        waiting += term.children()
        if z3.is_app(term) and term.decl().eq(UNREFERENCED):
            sums[tuple(part.get_id() for part in term.children()[:-1])] = term
    said = []
    for one in sums.values():
        *which, _ = one.children()
        said.append(UNREFERENCED(*which, 0) == 0)
        said += [fact for turn in range(most) for fact in step_of(UNREFERENCED(*which, turn))]
    return said

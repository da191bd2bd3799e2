"""A table of any length, as a Z3 array, with the part of the interface that an admission with full attention needs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import z3

from slotproof.proofs.engine import Bool, Int, current_run, term_of
from slotproof.spec.pool import NULL_BLOCK


@dataclass(frozen=True, slots=True)
class SymbolicTable:
    """Any table of usable blocks that names none twice (TABLE-1).

    `places` is the way back: where a block stands, negative for one that the table does not name. `is_proper` says
    what that means for an entry, `says_of` for a block.
    """

    array: Any
    size: Any
    places: Any
    claims: Callable[[Any], tuple[Any, ...]] = lambda _: ()
    """What is known of the entry at a place of the table."""

    @classmethod
    def arbitrary(cls, name: str, size: Any) -> "SymbolicTable":
        """A table of this length about whose entries nothing is known."""
        array, places = (z3.Array(f"{part} of {name}", z3.IntSort(), z3.IntSort()) for part in ("entries", "places"))
        return cls(array, term_of(size), places)

    def claiming(self, claims: Callable[[Any], tuple[Any, ...]]) -> "SymbolicTable":
        """The table, of whose entries this is known."""
        return replace(self, claims=claims)

    def mention(self, place: Any) -> None:
        """State what is known of an entry, and of the block that stands there."""
        current_run().know(*self.claims(place))
        current_run().mention(z3.Select(self.array, term_of(place)))

    def is_proper(self, place: Any) -> Any:
        """An entry in range is a usable block that has its place here."""
        index, entry = term_of(place), z3.Select(self.array, term_of(place))
        within = z3.And(index >= 0, index < self.size)
        return Bool(z3.Implies(within, z3.And(entry > NULL_BLOCK, z3.Select(self.places, entry) == index)))

    @property
    def entries(self) -> "SymbolicTable":
        """What a loop runs over."""
        return self

    @property
    def length(self) -> Int:
        """Entries, null ones included."""
        return Int(self.size)

    def entry(self, index: Any) -> Int:
        """One entry."""
        run, place = current_run(), term_of(index)
        run.oblige(z3.And(place >= 0, place < self.size), "an entry that is read is in the table")
        self.mention(index)
        return Int(z3.Select(self.array, place))

    def place(self, block: Any) -> Int:
        """Where the block stands."""
        return Int(z3.Select(self.places, term_of(block)))

    def names(self, block: Any) -> Any:
        """Whether the block stands in the table."""
        return self.place(block) >= 0

    def says_of(self, block: Any) -> Any:
        """A block that stands in the table is the entry at its place; any other has a negative one."""
        place = z3.Select(self.places, term_of(block))
        stands_there = z3.Implies(place >= 0, z3.Select(self.array, place) == term_of(block))
        return z3.And(place < self.size, stands_there)

    def append(self, block: Any) -> "SymbolicTable":
        """The table one entry longer."""
        added = term_of(block)
        return SymbolicTable(
            z3.Store(self.array, self.size, added), self.size + 1, z3.Store(self.places, added, self.size)
        )

    def behind_nulls(self, skipped: Any) -> "SymbolicTable":
        """The table itself: with full attention nothing is skipped."""
        current_run().oblige(term_of(skipped) == 0, "nothing is skipped with full attention")
        return self

    def num_live(self) -> Int:
        """Entries that name a block, which all do here."""
        return self.length

    def tail(self, start: Any) -> "Tail":
        """The entries from `start` on."""
        return Tail(self, start)


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a table."""

    table: SymbolicTable
    start: Any

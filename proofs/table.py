"""A table of any length, as a Z3 array, with the part of the interface that growing one needs."""

from dataclasses import dataclass, replace
from typing import Any

import z3

from slotproof.proofs.engine import Int, current_run, term_of
from slotproof.spec.pool import NULL_BLOCK


@dataclass(frozen=True, slots=True)
class SymbolicTable:
    """Any table of usable blocks that names none twice (TABLE-1).

    `block` stands at `place`, or nowhere if that is out of range. What that means for an entry is added when it is
    read.
    """

    array: Any
    size: Any
    block: Any = None
    place: Any = None

    @classmethod
    def arbitrary(cls, name: str, size: Any, block: Any = None, place: Any = None) -> "SymbolicTable":
        """A table of this length about whose entries nothing else is known."""
        return cls(z3.Array(name, z3.IntSort(), z3.IntSort()), term_of(size), block, place)

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
        entry = z3.Select(self.array, term_of(index))
        if self.block is not None:
            is_named, is_its_place = entry == term_of(self.block), term_of(index) == term_of(self.place)
            current_run().know(entry != NULL_BLOCK, is_named == is_its_place)
        return Int(entry)

    def naming(self, block: Any, place: Any) -> "SymbolicTable":
        """The same table, seen from another block."""
        return replace(self, block=block, place=place)

    def append(self, block: Any) -> "SymbolicTable":
        """The table one entry longer."""
        return SymbolicTable(z3.Store(self.array, self.size, term_of(block)), self.size + 1)

    def behind_nulls(self, skipped: Any) -> "SymbolicTable":
        """The table itself: with full attention nothing is skipped."""
        current_run().oblige(term_of(skipped) == 0, "nothing is skipped with full attention")
        return self

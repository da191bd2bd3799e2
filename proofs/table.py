"""A table of any length, as a Z3 array, with the part of the interface that growing one needs."""

from dataclasses import dataclass
from typing import Any

import z3

from slotproof.proofs.engine import Int, term_of


@dataclass(frozen=True, slots=True)
class SymbolicTable:
    """Any table."""

    array: Any
    size: Any

    @classmethod
    def arbitrary(cls, name: str, size: Any) -> "SymbolicTable":
        """A table of this length about whose entries nothing is known."""
        return cls(z3.Array(name, z3.IntSort(), z3.IntSort()), term_of(size))

    @property
    def length(self) -> Int:
        """Entries, null ones included."""
        return Int(self.size)

    def entry(self, index: Any) -> Int:
        """One entry."""
        return Int(z3.Select(self.array, term_of(index)))

    def append(self, block: Any) -> "SymbolicTable":
        """The table one entry longer."""
        return SymbolicTable(z3.Store(self.array, self.size, term_of(block)), self.size + 1)

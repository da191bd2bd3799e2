"""A table of any length, as a Z3 array, with the part of the interface that an admission and a free need."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import z3

from slotproof.proofs.engine import Bool, Int, current_run, term_of
from slotproof.spec.pool import NULL_BLOCK

NO_PLACE = -1
"""Where a block stands that is not in a table."""


@dataclass(frozen=True, slots=True)
class SymbolicTable:
    """Any table whose first `nulls` entries are null, and the others usable blocks, none of them twice (TABLE-1).

    `places` is the way back: where a block stands behind the null entries; what it says of any other block is no
    place there. `is_proper` says what that means for an entry, `says_of` for a block.
    """

    array: Any
    size: Any
    places: Any
    nulls: Any = field(default_factory=lambda: z3.IntVal(0))
    claims: Callable[[Any], tuple[Any, ...]] = lambda _: ()
    """What is known of the entry at a place behind the null ones."""

    @classmethod
    def arbitrary(cls, name: str, size: Any, nulls: Any = 0) -> "SymbolicTable":
        """A table of this length and so many null entries about whose other entries nothing is known."""
        array, places = (z3.Array(f"{part} of {name}", z3.IntSort(), z3.IntSort()) for part in ("entries", "places"))
        return cls(array, term_of(size), places, term_of(nulls))

    def claiming(self, claims: Callable[[Any], tuple[Any, ...]]) -> "SymbolicTable":
        """The table, of whose entries this is known."""
        return replace(self, claims=claims)

    def mention(self, place: Any) -> None:
        """State what is known of an entry, and of the block that stands there."""
        current_run().know(*self.claims(place))
        current_run().mention(z3.Select(self.array, term_of(place)))

    def is_proper(self, place: Any) -> Any:
        """An entry in range is null, or a usable block that has its place here."""
        index, entry = term_of(place), z3.Select(self.array, term_of(place))
        within = z3.And(index >= self.nulls, index < self.size)
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
        return Int(self.entry_term(place))

    def entry_term(self, place: Any) -> Any:
        """The entry at a place in range."""
        block = z3.Select(self.array, place)
        return block if self.has_no_nulls else z3.If(place < self.nulls, NULL_BLOCK, block)

    @property
    def has_no_nulls(self) -> bool:
        """Whether it is plain that no entry is null."""
        return self.nulls.eq(z3.IntVal(0)) is True

    def place(self, block: Any) -> Int:
        """Where the block stands, negative if it does not."""
        place = z3.Select(self.places, term_of(block))
        return Int(place if self.has_no_nulls else z3.If(place >= self.nulls, place, NO_PLACE))

    def names(self, block: Any) -> Any:
        """Whether the block stands in the table."""
        return self.place(block) >= 0

    def says_of(self, block: Any) -> Any:
        """A block that stands in the table is the entry at its place."""
        place = z3.Select(self.places, term_of(block))
        stands_there = z3.Implies(place >= self.nulls, z3.Select(self.array, place) == term_of(block))
        return z3.And(place < self.size, stands_there)

    def append(self, block: Any) -> "SymbolicTable":
        """The table one entry longer."""
        added = term_of(block)
        return SymbolicTable(
            z3.Store(self.array, self.size, added), self.size + 1, z3.Store(self.places, added, self.size), self.nulls
        )

    def with_nulls(self, number: Any) -> "SymbolicTable":
        """The table with so many null entries."""
        return replace(self, nulls=number)

    def with_null(self, index: Any) -> "SymbolicTable":
        """The table with one entry null, the first behind the null ones or one of these."""
        place = term_of(index)
        current_run().oblige(z3.And(place >= 0, place < self.size, place <= self.nulls), "null entries stand in front")
        return replace(self, nulls=larger(self.nulls, place + 1))

    def behind_nulls(self, skipped: Any) -> "SymbolicTable":
        """The table with its first `skipped` entries null, longer if it had fewer."""
        number, run = term_of(skipped), current_run()
        run.oblige(number >= 0, "no negative number of entries is skipped")
        if not run.may_be(number > 0):
            return self
        return replace(self, size=larger(self.size, number), nulls=larger(self.nulls, number))

    def num_live(self) -> Int:
        """Entries that name a block."""
        return Int(self.size - self.nulls)

    def head(self, end: Any) -> "Run":
        """The entries before `end`, which is in the table."""
        current_run().oblige(
            z3.And(term_of(end) >= 0, term_of(end) <= self.size), "the head of a table is a part of it"
        )
        return Run(self, term_of(end))

    def reversed(self) -> "Run":
        """The entries from tail to head."""
        return Run(self, self.size, backwards=True)

    def tail(self, start: Any) -> "Tail":
        """The entries from `start` on."""
        return Tail(self, start)


def larger(one: Any, other: Any) -> Any:
    """The larger of two terms."""
    return z3.If(one >= other, one, other)


@dataclass(frozen=True, slots=True)
class Run:
    """The entries of a table before `end`, from the first on or from the last back."""

    table: SymbolicTable
    end: Any
    backwards: bool = False

    @property
    def entries(self) -> "Run":
        """What a loop runs over."""
        return self

    @property
    def length(self) -> Int:
        """Entries, null ones included."""
        return Int(self.end)

    def reversed(self) -> "Run":
        """The same entries the other way round."""
        return replace(self, backwards=not self.backwards)

    def entry(self, index: Any) -> Int:
        """One entry."""
        return self.table.entry(Int(self.turned(term_of(index))))

    def place(self, block: Any) -> Int:
        """Where the block stands, negative if it does not."""
        place = self.table.place(block).term
        return Int(z3.If(z3.And(place >= 0, place < self.end), self.turned(place), NO_PLACE))

    def turned(self, place: Any) -> Any:
        """A place of the table as one of the run, or the other way."""
        return self.end - 1 - place if self.backwards else place


Items = SymbolicTable | Run
"""What a loop runs over."""


def table_of(items: Items) -> SymbolicTable:
    """The table of which the items are entries."""
    return items.table if isinstance(items, Run) else items


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a table."""

    table: SymbolicTable
    start: Any

"""Symbolic values of the specification's own types, and what they are under a model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import z3

from slotproof.proofs.bounded import BoundedPool
from slotproof.proofs.engine import Bool, Int, current_run, term_of
from slotproof.spec.pool import NO_KEY, Pool
from slotproof.spec.request import Flight, Request

Made = TypeVar("Made")

PREFIX_KEY = z3.Function("prefix key", z3.IntSort(), z3.IntSort())
"""The key of the prefix that a full block of the request ends, by the block's index."""

PART_KEY = z3.Function("part key", z3.IntSort(), z3.IntSort(), z3.IntSort())
"""The key of a prefix that ends inside a block, by the block's index and the place among those of the block."""

SHOWN_PREFIX = 40
"""Full blocks of a request that is shown."""


class Choice:
    """One of a few named values, not yet known which."""

    __slots__ = ("options", "term")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str, options: Iterable[Any]) -> None:
        self.options = tuple(options)
        self.term = z3.Int(name)
        current_run().know(self.term >= 0, self.term < len(self.options))

    def __eq__(self, other: object) -> Bool:  # type: ignore[override]
        return Bool(self.term == self.options.index(other))


@dataclass(frozen=True, slots=True)
class SymbolicRequest:
    """What the specification reads of a request."""

    request_id: str
    num_tokens: Any
    num_computed_tokens: Any
    num_in_flight_tokens: Any
    status: Choice
    num_full_blocks: int = SHOWN_PREFIX
    draft_token_ids: tuple[Any, ...] = ()
    num_parts: tuple[int, ...] = ()
    """A block, how many prefixes end inside it; none where hits are whole blocks."""

    def parts_of(self, index: int) -> tuple[Int, ...]:
        """The keys of the prefixes that end inside a block: any numbers."""
        places = range(self.num_parts[index] if index < len(self.num_parts) else 0)
        keys = tuple(PART_KEY(index, place) for place in places)
        current_run().know(*(key >= 0 for key in keys))
        return tuple(map(Int, keys))

    def prefix_key(self, position: Any) -> Int:
        """The key of the prefix that full block `position` ends: any number, one a block."""
        key = PREFIX_KEY(term_of(position))
        current_run().know(key >= 0)
        return Int(key)

    @property
    def prefix_keys(self) -> range:
        """As many as there are full blocks."""
        return range(self.num_full_blocks)

    def under(self, model: z3.ModelRef) -> Request:
        """The request that a model describes."""
        tokens, computed, flying = (
            number(model, value) for value in (self.num_tokens, self.num_computed_tokens, self.num_in_flight_tokens)
        )
        keys = tuple(number(model, PREFIX_KEY(place)) for place in self.prefix_keys)
        flights = (Flight(flying, (), samples=False),) if flying else ()
        drafts, status = under(model, self.draft_token_ids), under(model, self.status)
        parts = tuple(
            tuple(number(model, PART_KEY(index, place)) for place in range(num_parts))
            for index, num_parts in enumerate(self.num_parts)
        )
        plain = Request(self.request_id, (1,) * tokens, keys, tokens, computed, drafts, flights, status)
        return replace(plain, part_keys=parts)


def made(kind: type[Made], **parts: Any) -> Made:
    """A value of a frozen class without the checks of its constructor, which only plain numbers can pass."""
    value = object.__new__(kind)
    for name, part in parts.items():
        object.__setattr__(value, name, part)
    return value


def number(model: z3.ModelRef, value: Any) -> int:
    """The number that a model gives to an integer; any will do where it gives none."""
    term = value if isinstance(value, z3.ExprRef) else term_of(value)
    return int(model.eval(term, model_completion=True).as_long())


def under(model: z3.ModelRef, value: Any) -> Any:
    """The plain value that a model makes of a symbolic one."""
    if isinstance(value, Int):
        return number(model, value)
    if isinstance(value, Bool):
        return z3.is_true(model.eval(value.term, model_completion=True))
    if isinstance(value, Choice):
        return value.options[number(model, Int(value.term))]
    if isinstance(value, SymbolicRequest):
        return value.under(model)
    if isinstance(value, BoundedPool):
        refs, keys = under(model, value.refs), under(model, value.keys)
        return Pool(refs, keys, value.queue, tuple(block for block, key in enumerate(keys) if key != NO_KEY))
    if isinstance(value, tuple):
        parts = [under(model, part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, Mapping):
        return MappingProxyType({name: under(model, part) for name, part in value.items()})
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{field.name: under(model, getattr(value, field.name)) for field in fields(value)})
    return value


SMALL = 8
"""An example is looked for among numbers up to this one first."""


def smallness(value: Any) -> tuple[Any, ...]:
    """Conditions under which every integer in a value is small."""
    if isinstance(value, Int):
        return (value.term <= SMALL,)
    if isinstance(value, BoundedPool):
        return smallness((value.refs, value.keys))
    if not isinstance(value, tuple | Mapping) and type(value).__module__.endswith((".pool", ".table")):
        return ()
    if isinstance(value, tuple):
        return tuple(condition for part in value for condition in smallness(part))
    if isinstance(value, Mapping):
        return smallness(tuple(value.values()))
    if is_dataclass(value) and not isinstance(value, type):
        return smallness(tuple(getattr(value, field.name) for field in fields(value)))
    return ()

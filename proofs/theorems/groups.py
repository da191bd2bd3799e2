"""Theorems about `spec/groups.py`: what a window skips, caps and matches, for every window and block size."""

from collections.abc import Callable
from typing import Any

from slotproof.proofs.engine import Int
from slotproof.proofs.loops import ANY_BLOCK
from slotproof.proofs.scope import Scope, implies, negated
from slotproof.proofs.theorem import theorem
from slotproof.proofs.theorems.invariants import CACHED, IN_A_ROW, lacks
from slotproof.proofs.theorems.vocabulary import blocks_for
from slotproof.spec.admission import skipped_blocks
from slotproof.spec.arithmetic import ceil_div
from slotproof.spec.groups import FullAttention, SlidingWindow


def window_group(s: Scope) -> Any:
    """A window group of any block size and window."""
    return SlidingWindow(s.integer("block_size", 1), s.integer("window", 2))


@theorem("SKIP-1", "Entry i is skipped exactly when (i + 1) · block size <= max(0, settled - window + 1).")
def exactly_the_entries_behind_the_window_are_skipped(s: Scope) -> None:
    group, settled, entry = window_group(s), s.integer("settled"), s.integer("entry")
    is_behind = (entry + 1) * group.block_size <= settled - group.window + 1
    s.prove(is_behind == (entry < skipped_blocks(group, settled)))


@theorem("SKIP-1", "No token of a skipped block is read by the next token or a later one.")
def what_is_skipped_is_never_read_again(s: Scope) -> None:
    group, settled, later = window_group(s), s.integer("settled"), s.integer("later")
    position = s.integer("position")
    s.assume(position < skipped_blocks(group, settled) * group.block_size)
    reader = settled + later
    s.prove(position < reader - group.window + 1)


@theorem("SKIP-1", "The first entry that is kept is read by the next token: not one block too many is kept.")
def what_is_kept_is_read(s: Scope) -> None:
    group, settled = window_group(s), s.integer("settled")
    kept = skipped_blocks(group, settled)
    s.prove((kept + 1) * group.block_size > settled - group.window + 1)


@theorem("SKIP-1", "The skipped entries only become more as a request goes on.")
def skipping_is_monotone(s: Scope) -> None:
    group, settled, more = window_group(s), s.integer("settled"), s.integer("more")
    s.prove(skipped_blocks(group, settled + more) >= skipped_blocks(group, settled))


@theorem("ADMIT-1", "A window request with no more in flight than it may have never holds more blocks than its cap.")
def the_cap_covers_what_a_window_holds(s: Scope) -> None:
    group, settled, ahead = window_group(s), s.integer("settled"), s.integer("ahead")
    in_flight, longest = s.integer("max_in_flight_tokens", 1), s.integer("max_model_len", 1)
    s.assume(ahead <= in_flight)
    s.assume(settled + ahead <= longest)
    held = ceil_div(settled + ahead, group.block_size)
    s.prove(held - skipped_blocks(group, settled) <= group.capped(held, in_flight, longest))


@theorem("ADMIT-1", "The charge of a whole prompt is what its length requires or the cap, whichever is less.")
def a_prompt_is_charged_for_no_more_than_its_length(s: Scope) -> None:
    group, required = window_group(s), s.integer("required")
    in_flight, longest = s.integer("max_in_flight_tokens", 1), s.integer("max_model_len", 1)
    s.prove(group.capped(required, in_flight, longest) <= required)
    s.prove(FullAttention(group.block_size).capped(required, in_flight, longest) == required)


@theorem("LOOKUP-1", "The blocks that a window hit must end with hold every token that the next token reads.")
def a_window_hit_has_what_is_read(s: Scope) -> None:
    group, length, position = window_group(s), s.integer("length"), s.integer("position")
    s.assume(position < length * group.block_size)
    s.assume(position >= length * group.block_size - group.window + 1)
    s.prove(position >= (length - group.blocks_read(length)) * group.block_size)


@theorem("LOOKUP-1", "With one block fewer a window hit would lack a token that is read.")
def a_window_hit_has_no_block_too_many(s: Scope) -> None:
    group, length = window_group(s), s.integer("length", 1)
    read = group.blocks_read(length)
    first_token = (length - read + 1) * group.block_size
    s.prove((first_token > length * group.block_size - group.window + 1) | (length * group.block_size < group.window))


@theorem("SKIP-1", "What a lookup leaves null is what adoption skips.")
def a_hit_is_null_exactly_where_adoption_skips(s: Scope) -> None:
    group, length = window_group(s), s.integer("length")
    s.prove(length - group.blocks_read(length) == skipped_blocks(group, length * group.block_size))


ANY_LENGTH = "any prefix, any window"


@theorem("LOOKUP-1", "With full attention a hit is cached to its end, and ends at the first miss.", ANY_LENGTH)
def a_full_hit_ends_at_the_first_miss(s: Scope) -> None:
    cached, limit, index = s.predicate(CACHED), s.integer("limit"), s.integer(ANY_BLOCK)
    found = FullAttention(s.integer("block_size", 1)).longest_hit(cached, limit)
    s.prove((found >= 0) & (found <= limit))
    s.prove(implies(index < found, cached(index)))
    s.prove((found == limit) | negated(cached(found)))


@theorem("LOOKUP-1", "A window hit ends behind all the cached blocks it reads, and no longer one does.", ANY_LENGTH)
def a_window_hit_is_the_longest(s: Scope) -> None:
    group, cached, limit, index = window_group(s), s.predicate(CACHED), s.integer("limit"), s.integer(ANY_BLOCK)
    found, enough = group.longest_hit(cached, limit), blocks_for(group.window - 1, group.block_size)
    s.prove((found >= 0) & (found <= limit))
    s.prove(negated(lacks(in_a_row(cached, found), found, enough)))
    longer = (index > found) & (index <= limit)
    s.prove(implies(longer, lacks(in_a_row(cached, index), index, enough)))


def in_a_row(cached: Callable[[Any], Any], end: Any) -> Any:
    """How many cached blocks end before an index without a gap."""
    if isinstance(end, Int):
        return Int(IN_A_ROW(end.term))
    first = next((index for index in reversed(range(end)) if not cached(index)), -1)
    return end - 1 - first

"""POOL, INDEX, TABLE, LEAK, ISO: what holds between any two calls."""

from collections import Counter

from slotproof.spec.pool import NO_BLOCK, NO_KEY, NULL_BLOCK
from slotproof.spec.predicates.facts import Entries, parts_held, tables_of
from slotproof.spec.snapshot import Snapshot
from slotproof.spec.transition import Allocated, Batched, Transition


def queued_iff_unreferenced(t: Transition) -> str | None:
    """POOL-1."""
    pool = t.after.pool
    queued = Counter(pool.queue)
    for block in range(1, t.after.config.num_blocks):
        expected = 1 if pool.ref(block) == 0 else 0
        if queued[block] != expected:
            return f"block {block} has reference count {pool.ref(block)} and is queued {queued[block]} times"
    return None


def references_are_names(t: Transition) -> str | None:
    """POOL-2."""
    named = Counter(live_entries(t.after))
    for block in range(1, t.after.config.num_blocks):
        if t.after.pool.ref(block) != named[block]:
            return f"block {block} has reference count {t.after.pool.ref(block)} and is named {named[block]} times"
    return None


def null_block_is_untouched(t: Transition) -> str | None:
    """POOL-3."""
    pool = t.after.pool
    if "queue" in t.facets and NULL_BLOCK in pool.queue:
        return "the null block is in the free queue"
    if "keys" in t.facets and pool.key_of(NULL_BLOCK) != NO_KEY:
        return "the null block carries a key"
    if isinstance(t.event, Allocated) and t.event.answer is not None and NULL_BLOCK in t.allocation.popped:
        return f"the null block was handed out: {t.event.answer}"
    return None


def free_and_held_are_all(t: Transition) -> str | None:
    """POOL-4."""
    held, free, usable = len(set(live_entries(t.after))), t.after.pool.num_free(), t.after.config.usable_blocks
    if free + held != usable:
        return f"{free} blocks are free and {held} held, of {usable} usable"
    if abs(t.after.usage - held / usable) > 1e-9:
        return f"usage is {t.after.usage} with {held} of {usable} usable blocks held"
    return None


def index_offers_what_blocks_carry(t: Transition) -> str | None:
    """INDEX-1."""
    pool = t.after.pool
    carrying = {block for block in range(1, t.after.config.num_blocks) if pool.key_of(block) != NO_KEY}
    if sorted(pool.keyed) != sorted(carrying):
        return f"the index offers blocks {sorted(pool.keyed)}, keys are on blocks {sorted(carrying)}"
    for block in carrying:
        if pool.block_of(pool.key_of(block)) == NO_BLOCK:
            return f"block {block} carries a key that finds nothing"
    return duplicates_keep_their_order(t) or popped_blocks_lost_their_keys(t) or parts_are_of_keyed_blocks(t)


def parts_are_of_keyed_blocks(t: Transition) -> str | None:
    """INDEX-1 at a finer hash granularity: parts go with the key of their block, and keep their order."""
    before, after = t.before.parts, t.after.parts
    popped = handed_out(t) if after else ()
    for part in after:
        if t.after.pool.key_of(part.block) == NO_KEY or part.block in popped:
            return f"block {part.block} has lost its key, and a part of it is still offered for copying"
    kept = [part for part in before if part in after]
    if len(set(after)) < len(after) or [part for part in after if part in before] != kept:
        return f"parts are offered in the order {after}; those of before are due first, in the order {before}"
    return None


def duplicates_keep_their_order(t: Transition) -> str | None:
    """The middle of INDEX-1: of the carriers of one key, those that had it before come first, in their old order."""
    before, after = t.before.pool, t.after.pool
    if len({after.key_of(block) for block in after.keyed}) == len(after.keyed):
        return None
    for key in {after.key_of(block) for block in after.keyed}:
        carriers = [block for block in after.keyed if after.key_of(block) == key]
        had_it = [block for block in before.keyed if before.key_of(block) == key and block in carriers]
        popped = handed_out(t)
        kept = [block for block in had_it if block not in popped]
        if carriers[: len(kept)] != kept:
            return f"blocks {carriers} are offered in this order for one key; {kept} had it before, in that order"
    return None


def handed_out(t: Transition) -> Entries:
    """The blocks that the call popped."""
    if isinstance(t.event, Batched):
        return tuple(block for answer in t.event.answers for blocks in answer for block in blocks)
    return t.allocation.popped if isinstance(t.event, Allocated) and t.event.answer is not None else ()


def popped_blocks_lost_their_keys(t: Transition) -> str | None:
    """The end of INDEX-1: what carries its old key after the call was handed out with it."""
    for block in handed_out(t):
        old = t.before.pool.key_of(block)
        if old != NO_KEY and t.after.pool.key_of(block) == old and not same_prefix_again(t, block):
            return f"block {block} was handed out and is still offered for what it held before"
    return None


def same_prefix_again(t: Transition, block: int) -> bool:
    """A popped block may get its old key again when the call fills it with that very prefix."""
    num_groups = len(t.after.config.groups)
    calls = t.event.calls if isinstance(t.event, Batched) else (t.allocation.call,)
    for request in (call.request for call in calls):
        for number, entries in enumerate(tables_of(t.after, request.request_id)):
            if block in entries:
                index, keys = entries.index(block), request.prefix_keys
                return index < len(keys) and keys[index] * num_groups + number == t.after.pool.key_of(block)
    return False


def table_is_long_enough_and_distinct(t: Transition) -> str | None:
    """TABLE-1."""
    facts = t.allocation
    for number, (old, hit, entries) in enumerate(zip(facts.old, facts.call.hit.blocks, facts.new, strict=True)):
        live = [block for block in entries if block != NULL_BLOCK]
        if len(set(live)) != len(live):
            return f"group {number}: a block stands twice in the table {entries}"
        length = max(len(old), len(hit), -(-facts.slots // facts.block_size))
        if len(entries) != length:
            return f"group {number}: the table has {len(entries)} entries; {length} are due for {facts.slots} slots"
    return None


def unfinished_blocks_are_private(t: Transition) -> str | None:
    """TABLE-2."""
    facts = t.allocation
    pins = [end for copy in t.after.copies for end in copy]
    parts = parts_held(t.after, facts.call.request, facts.final)
    for number, entries in enumerate(facts.new):
        for index in range(facts.final // facts.block_size, len(entries)):
            block = entries[index]
            if block == NULL_BLOCK:
                continue
            if t.after.pool.ref(block) != 1 + pins.count(block):
                return f"group {number}: block {block} may still change and has {t.after.pool.ref(block)} references"
            key = t.after.pool.key_of(block) if "keys" in t.facets else NO_KEY
            if key != NO_KEY and key not in parts.get((number, index), ()):
                return f"group {number}: block {block} may still change and carries a key"
    return None


def nothing_leaks(t: Transition) -> str | None:
    """LEAK-1."""
    free, usable = t.after.pool.num_free(), t.after.config.usable_blocks
    if next(iter(live_entries(t.after)), None) is None and free != usable:
        return f"nothing is held, but {free} of {usable} usable blocks are free"
    return None


def sharing_requests_have_equal_salts(t: Transition) -> str | None:
    """ISO-1."""
    request = t.allocation.call.request
    mine = {block for entries in t.allocation.new for block in entries if block != NULL_BLOCK}
    for name, holding in t.after.holdings.items():
        other = t.requests.get(name)
        if other is None or name == request.request_id:
            continue
        shared = sorted(mine.intersection(block for table in holding.tables for block in table.entries))
        if shared and (other.cache_salt, other.extra_keys) != (request.cache_salt, request.extra_keys):
            return f"requests {request.request_id} and {name} share blocks {shared} across a salt or extra key"
    return None


def live_entries(snapshot: Snapshot) -> Entries:
    """Every name of a block in a table, a waiting free or a copy, null entries left out."""
    tables = [table.entries for holding in snapshot.holdings.values() for table in holding.tables]
    runs = (*tables, *snapshot.waiting_frees, *snapshot.copies)
    return tuple(block for run in runs for block in run if block != NULL_BLOCK)

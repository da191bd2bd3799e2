"""HASH, LOOKUP, EVENT: who may be found, and by what."""

from slotproof.spec.pool import NO_BLOCK, NO_KEY, NULL_BLOCK
from slotproof.spec.predicates.facts import parts_held, read_by_hit
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Snapshot
from slotproof.spec.transition import Allocated, Committed, LookedUp, Transition


def only_finalized_tokens_have_keys(t: Transition) -> str | None:
    """HASH-1."""
    request = _request(t)
    bs, parts = t.after.config.block_size, parts_held(t.after, request, request.num_tokens)
    for number, table in enumerate(t.after.holding(request.request_id).tables):
        for index in range(request.num_tokens // bs, table.length):
            block = table.entry(index)
            key = NO_KEY if block == NULL_BLOCK else t.after.pool.key_of(block)
            if key != NO_KEY and key not in parts.get((number, index), ()):
                held = f"tokens {index * bs} to {(index + 1) * bs - 1}"
                return f"group {number}: block {block} holds {held} of {request.num_tokens} finalized and has a key"
    return only_computed_parts_are_offered(t)


def only_computed_parts_are_offered(t: Transition) -> str | None:
    """HASH-1 at a finer hash granularity: a part is offered by a commit, and of finalized and computed tokens only."""
    if t.before.parts is t.after.parts:
        return None
    request = _request(t)
    computed = t.event.num_computed_tokens if isinstance(t.event, Committed) else 0
    held = parts_held(t.after, request, min(computed, request.num_tokens))
    allowed = {
        (key, table.entry(index))
        for number, table in enumerate(t.after.holding(request.request_id).tables)
        for index in range(table.length)
        for key in held.get((number, index), ())
    }
    for part in t.after.parts:
        if part not in t.before.parts and part not in allowed:
            return f"block {part.block} offers a part for copying that is not of {computed} computed tokens"
    return None


def full_blocks_have_their_keys(t: Transition) -> str | None:
    """HASH-2."""
    request = _request(t)
    bs, counters = t.after.config.block_size, t.after.holding(request.request_id).cached
    for number, table in enumerate(t.after.holding(request.request_id).tables):
        start, end = _keyed_range(t, number)
        for index in range(start, min(end // bs, table.length)):
            block, key = table.entry(index), _key(t.after, request, number, index)
            if block != NULL_BLOCK and t.after.pool.key_of(block) != key:
                return f"group {number}: block {block} at entry {index} is full and not offered for its prefix"
        if "counters" in t.facets and counters[number] != max(start, end // bs):
            return f"group {number}: the cached counter is {counters[number]}; {max(start, end // bs)} is due"
        missing = part_that_is_missing(t, number, start, end) if isinstance(t.event, Committed) else None
        if missing is not None:
            return missing
    return None


def part_that_is_missing(t: Transition, number: int, counter: int, end: int) -> str | None:
    """HASH-2 at a finer hash granularity: behind a commit the last block carries the key of a part that is at least as
    long as what is computed, and every keyed block offers all of that.
    """
    if not t.after.config.has_partial_hits:
        return None
    request, table = _request(t), t.after.holding(_request(t).request_id).tables[number]
    every, computed = (parts_held(t.after, request, tokens) for tokens in (request.num_tokens, end))
    for index in range(-(-end // t.after.config.block_size)):
        block, due = table.entry(index), computed.get((number, index), ())
        last = index == end // t.after.config.block_size and counter <= index and len(due) > 0
        if last and t.after.pool.key_of(block) not in every[number, index][len(due) - 1 :]:
            return f"group {number}: block {block} at entry {index} does not carry the key of what it holds computed"
        lacking = [key for key in due if (key, block) not in t.after.parts]
        if lacking and "parts" in t.facets and t.after.pool.key_of(block) != NO_KEY:
            return f"group {number}: block {block} at entry {index} does not offer all of its computed parts"
    return None


def _keyed_range(t: Transition, number: int) -> tuple[int, int]:
    """The counter before keys are given, in entries, and how many tokens' blocks get keys."""
    counter = t.before.holding(_request(t).request_id).cached[number]
    if isinstance(t.event, Committed):
        return counter, t.event.num_computed_tokens if t.after.config.caching else 0
    facts = t.allocation
    if not facts.accepted:
        return counter, 0
    start = facts.adopted_lengths[number] if facts.adopting else counter
    keyed = t.after.config.caching and not facts.call.delay_cache_blocks
    return start, facts.final if keyed else 0


def drafts_decide_nothing(t: Transition) -> str | None:
    """HASH-3: the keys a call adds are those of its finalized tokens, however many drafts came with them."""
    facts = t.allocation
    if not facts.accepted:
        return None
    request = facts.call.request
    drafts = max(0, facts.computed + facts.call.num_new_tokens - request.num_tokens)
    undrafted = facts.computed + facts.call.num_new_tokens - drafts
    allowed = {
        _key(t.after, request, number, index)
        for number in range(len(facts.new))
        for index in range(min(undrafted, request.num_tokens) // facts.block_size)
    }
    for block in t.after.pool.keyed:
        key = t.after.pool.key_of(block)
        if key != t.before.pool.key_of(block) and key not in allowed:
            return f"block {block} got a key that the call's {undrafted} tokens without its {drafts} drafts do not give"
    return None


def lookup_finds_the_longest_valid_hit(t: Transition) -> str | None:
    """LOOKUP-1."""
    assert isinstance(t.event, LookedUp)
    request, hit, bs = t.event.request, t.event.hit, t.after.config.block_size
    length, limit = hit.num_tokens // bs, min(len(request.prefix_keys), (request.num_tokens - 1) // bs)
    if (hit.num_tokens % bs and not hit.tails) or any(len(blocks) != length for blocks in hit.blocks):
        return f"a hit of {hit.num_tokens} tokens came with {[len(blocks) for blocks in hit.blocks]} blocks"
    if not t.after.config.caching:
        return f"a hit of {hit.num_tokens} tokens with caching off" if hit.num_tokens else None
    if length > limit:
        return f"a hit of {hit.num_tokens} tokens leaves nothing of {request.num_tokens} tokens to compute"
    for number, blocks in enumerate(hit.blocks):
        if blocks != _offered(t.before, request, number, length):
            return f"group {number}: hit {blocks}; the index offers {_offered(t.before, request, number, length)}"
    for longer in range(limit, length, -1):
        if all(NO_BLOCK not in _offered(t.before, request, number, longer) for number in range(len(hit.blocks))):
            return f"a hit of {length} blocks; {longer} are cached in every group"
    return tail_is_not_the_longest(t, length) or t.changed()


def tail_is_not_the_longest(t: Transition, length: int) -> str | None:
    """LOOKUP-1 behind the whole blocks of a hit: the longest part of the next block that every group offers."""
    assert isinstance(t.event, LookedUp)
    request, hit = t.event.request, t.event.hit
    if not t.after.config.has_partial_hits or "parts" not in t.facets:
        return None
    held, groups = parts_held(t.before, request, request.num_tokens - 1), range(len(hit.blocks))
    offered = [
        [next((part.block for part in t.before.parts if part.key == key), NO_BLOCK) for key in keys]
        for keys in (held.get((number, length), ()) for number in groups)
    ]
    usable = [place for place, blocks in enumerate(zip(*offered, strict=True), start=1) if NO_BLOCK not in blocks]
    longest = max(usable, default=0)
    due = tuple(blocks[longest - 1] for blocks in offered) if longest else ()
    tokens = length * t.after.config.block_size + longest * t.after.config.hash_unit
    if (hit.num_tokens, hit.tails) != (tokens, due):
        return f"a hit of {hit.num_tokens} tokens, its end copied from {hit.tails}; {tokens} from {due} are offered"
    return None


def _offered(snapshot: Snapshot, request: Request, number: int, length: int) -> tuple[int, ...]:
    """The blocks a hit of `length` blocks has in a group; NO_BLOCK where one is missing."""
    first = length - read_by_hit(snapshot.config.groups[number], length)
    keys = [_key(snapshot, request, number, index) for index in range(first, length)]
    return (NULL_BLOCK,) * first + tuple(snapshot.pool.block_of(key) for key in keys)


def emits_events(t: Transition) -> bool:
    """Whether the allocator emits events at all."""
    return t.replayed is not None


def events_replay_to_the_index(t: Transition) -> str | None:
    """EVENT-1."""
    assert t.indexed is not None
    assert t.replayed is not None
    if t.indexed == t.replayed:
        return None
    differing = [key for key in {*t.indexed, *t.replayed} if t.indexed.get(key, 0) != t.replayed.get(key, 0)]
    return (
        f"{len(differing)} keys are offered by a different number of blocks than the events say, first {differing[0]}"
    )


def _request(t: Transition) -> Request:
    assert isinstance(t.event, Allocated | Committed)
    return t.event.call.request if isinstance(t.event, Allocated) else t.event.request


def _key(snapshot: Snapshot, request: Request, number: int, index: int) -> int:
    return request.prefix_keys[index] * len(snapshot.config.groups) + number

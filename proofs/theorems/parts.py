"""Theorems about `spec/parts.py`, `spec/copies.py` and what leads there: hits that end inside a block.

Blocks hold 3 tokens in lookups and commits, so that one ends 2 parts, and 2 tokens in admissions.
"""

from dataclasses import fields, replace
from operator import index
from typing import Any

from slotproof.proofs.engine import ImpossiblePath
from slotproof.proofs.operations import Operation, Step, World
from slotproof.proofs.scope import Scope, implies, negated
from slotproof.proofs.shapes import ASKING, BLOCK_SIZE, Shape, any_call, any_request, any_snapshot, choose, integer
from slotproof.proofs.theorem import about, theorem
from slotproof.proofs.theorems.preconditions import Neglect, checking_duties
from slotproof.proofs.theorems.vocabulary import (
    after,
    all_of,
    any_of,
    blocks_of,
    call_of,
    count,
    is_accepted,
    is_refused,
    new,
    prompt_missing,
    queue_behind,
    same,
    step_missing,
    total,
    watermark,
)
from slotproof.proofs.theorems.vocabulary import idle as idle_hits
from slotproof.proofs.values import made
from slotproof.proofs.worlds import a_holder, allocate, world
from slotproof.spec import admission, copies, lookup, preconditions, release
from slotproof.spec import request as requests
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention
from slotproof.spec.keys import ROOT_KEY, KeyTable, block_key
from slotproof.spec.lookup import Hit
from slotproof.spec.pool import NO_BLOCK, NO_KEY
from slotproof.spec.snapshot import Copy, Part, Snapshot, empty

PART_BLOCK = 3
"""Tokens a block in lookups and commits."""


def with_parts(snapshot: Snapshot, block_size: int, *parts: Part, hash_size: int = 1) -> Snapshot:
    """The snapshot with hashes at this granularity, and these parts offered."""
    config = {field.name: getattr(snapshot.config, field.name) for field in fields(Config)}
    groups = tuple(FullAttention(block_size) for _ in snapshot.config.groups)
    finer = made(Config, **(config | {"groups": groups, "hash_size": hash_size}))
    return replace(snapshot, config=finer, parts=parts)


def with_num_parts(request: Any, num_parts: tuple[int, ...]) -> Any:
    """A request of whose blocks so many parts are finalized."""
    return replace(request, num_parts=num_parts)


def any_part(name: str, most_block: int) -> Part:
    """Any block up to this one, and any key."""
    return Part(integer(f"{name} key"), 1 + choose(f"{name} block", most_block - 1))


# Admission.


def a_copying_call(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot and a call whose hit ends one token into a block; any block, idle or held, offers that part."""
    snapshot, call = any_call(shape)
    asking = with_num_parts(call.request, (1,) * (shape.hits + 1))
    used = {block for blocks in call.hit.blocks for block in blocks}
    tails = tuple(1 + choose(f"source {number}", shape.num_blocks - 2) for number in range(len(shape.kinds)))
    if len({*tails, *used}) < len(tails) + len(used):
        raise ImpossiblePath
    key = asking.parts_of(shape.hits)[0]
    offered = [Part(block_key(key, number, len(tails)), block) for number, block in enumerate(tails)]
    hit = Hit(shape.hits * BLOCK_SIZE + 1, call.hit.blocks, tails)
    asked = replace(call, request=asking, hit=hit, num_external_computed_tokens=0)
    return with_parts(snapshot, BLOCK_SIZE, *offered, any_part("another part", 1)), (asked,)


COPYING_SHAPES = (
    Shape("f", free=2, held=(0,), others=1),
    Shape("f", free=2, held=(0,), others=1, hits=1),
    Shape("ff", free=4, held=(0, 0)),
)

COPYING = Operation(
    "allocate_slots, the end of a hit copied",
    allocate,
    tuple(world(shape, a_copying_call) for shape in COPYING_SHAPES),
    "any hit that ends inside a block, up to 4 usable blocks",
    num_quick=1,
)


def sources(step: Step) -> tuple[int, ...]:
    """The blocks that the end of the hit is copied from."""
    return call_of(step).hit.tails


def destinations(step: Step) -> list[int]:
    """The first block, a group, behind the whole blocks of the hit."""
    index = call_of(step).hit.num_tokens // BLOCK_SIZE
    return [new(step, number).entry(index) for number in range(len(sources(step)))]


def idle(step: Step) -> Any:
    """Hits, sources among them, that stand in the queue."""
    return idle_hits(step) + total(count(step.before.pool.ref(block) == 0) for block in sources(step))


@about(COPYING, "MEM-2", "The copy list grows by the source and the request's own block, a pair a group, and no other.")
def exactly_the_end_of_a_hit_is_copied(s: Scope, step: Step) -> None:
    if is_accepted(step):
        due = tuple(Copy(source, own) for source, own in zip(sources(step), destinations(step), strict=True))
        s.prove(after(step).copies == due)


@about(COPYING, "COMMIT-1", "What is copied from is pinned before any pop: held once more, and no block of the table.")
def what_is_copied_from_is_pinned(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    for source in sources(step):
        s.prove(after(step).pool.ref(source) == step.before.pool.ref(source) + 1)
        s.prove(source not in after(step).pool.queue)
        s.prove(all(source not in new(step, number).entries for number in range(len(sources(step)))))


@about(
    COPYING, "POOL-2", "The private block is held twice, by its table and by its copy, and every other one as before."
)
def both_ends_of_a_copy_are_pinned(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    tables = [block for number in range(len(sources(step))) for block in new(step, number).entries]
    ends = [end for copy in after(step).copies for end in copy]
    for block in blocks_of(step):
        popped = block in tables and all(block not in blocks for blocks in call_of(step).hit.blocks)
        before = 0 if popped else step.before.pool.ref(block)
        s.prove(after(step).pool.ref(block) == before + tables.count(block) + ends.count(block))


@about(
    COPYING, "COUNT-1", "A copy costs its private block and an idle source; a call that copies never raises half-way."
)
def a_copy_costs_its_block_and_an_idle_source(s: Scope, step: Step) -> None:
    s.prove(is_accepted(step) or is_refused(step))
    needed = step_missing(step) + idle(step)
    if is_accepted(step):
        s.prove(step.before.pool.num_free() - after(step).pool.num_free() == needed)
        s.prove(step_missing(step) >= len(sources(step)))


@about(COPYING, "REFUSE-1", "A refused call that would copy leaves no trace: no pin, no copy, no part withdrawn.")
def a_refused_copy_leaves_no_trace(s: Scope, step: Step) -> None:
    if is_refused(step):
        s.prove(after(step) is step.before)


@about(COPYING, "REFUSE-2", "A call that copies is refused exactly when short, its block and an idle source counted.")
def a_copy_is_refused_exactly_when_short(s: Scope, step: Step) -> None:
    call, free, needs = call_of(step), step.before.pool.num_free(), idle(step) + watermark(step)
    prompt = call.full_sequence_must_fit & (prompt_missing(step) + needs > free)
    short = prompt | (step_missing(step) + needs > free - call.reserved_blocks)
    s.prove(short if is_refused(step) else negated(short))


@about(COPYING, "INDEX-1", "A popped block offers no part any more; every other part stays, in its order.")
def a_popped_block_offers_no_part(s: Scope, step: Step) -> None:
    if is_accepted(step):
        hit = {block for blocks in call_of(step).hit.blocks for block in blocks}
        tables = {block for number in range(len(sources(step))) for block in new(step, number).entries}
        s.prove(after(step).parts == tuple(part for part in step.before.parts if part.block not in tables - hit))


# Lookup.


def a_request_with_parts(most_blocks: int) -> Any:
    """A request of up to so many full blocks and a few tokens more, with a key a token."""
    full, rest = choose("full blocks", most_blocks), choose("tokens behind them", PART_BLOCK - 1)
    if full + rest == 0:
        raise ImpossiblePath
    tokens = full * PART_BLOCK + rest
    parts = (PART_BLOCK - 1,) * full + (rest,)
    return with_num_parts(replace(any_request(), num_tokens=tokens, num_full_blocks=full), parts)


def a_partial_lookup(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot that offers any two parts, and a request of few tokens that holds nothing; block ids are names."""
    parts = [any_part("first", 1), any_part("second", shape.num_blocks - 1)]
    return with_parts(any_snapshot(shape), PART_BLOCK, *parts), (a_request_with_parts(1),)


PARTIAL_LOOKUP = Operation(
    "get_computed_blocks, parts offered",
    lambda before, request: lookup.get_computed_blocks(before, request),
    (world(Shape("f", free=2, held=(0,)), a_partial_lookup),),
    "two parts and a request of up to 5 tokens",
)


def offers(step: Step, index: int, place: int) -> Any:
    """Whether some block offers a part of the request's block `index`."""
    return any_of(part.key == step.arguments[0].parts_of(index)[place] for part in step.before.parts)


@about(PARTIAL_LOOKUP, "LOOKUP-1", "A hit ends in the longest part that is offered and leaves a token to compute.")
def a_hit_ends_in_the_longest_part(s: Scope, step: Step) -> None:
    request, hit = step.arguments[0], step.result
    index, rest = len(hit.blocks[0]), hit.num_tokens - len(hit.blocks[0]) * PART_BLOCK
    s.prove((0 <= rest < PART_BLOCK) and hit.num_tokens < request.num_tokens)
    for place in range(min(len(request.parts_of(index)), request.num_tokens - 1 - index * PART_BLOCK)):
        if place >= rest:
            s.prove(negated(step.before.config.caching & offers(step, index, place)))
    s.prove(rest == 0 or offers(step, index, rest - 1))


@about(
    PARTIAL_LOOKUP, "INDEX-1", "What is copied from is the block that offered the part first, and none if none does."
)
def the_first_to_offer_a_part_is_copied_from(s: Scope, step: Step) -> None:
    hit = step.result
    index, rest = len(hit.blocks[0]), hit.num_tokens - len(hit.blocks[0]) * PART_BLOCK
    s.prove(len(hit.tails) == (1 if rest else 0))
    if rest:
        key, (first, second) = step.arguments[0].parts_of(index)[rest - 1], step.before.parts
        s.prove(implies(first.key == key, hit.tails == (first.block,)))
        s.prove(implies(first.key != key, (second.key == key) & (hit.tails == (second.block,))))
        s.prove(hit.tails != (NO_BLOCK,))


PARTIAL_LOOKUP_OF_TWO = Operation(
    "get_computed_blocks of two groups, parts offered",
    lambda before, request: lookup.get_computed_blocks(before, request),
    (world(Shape("ff", free=1, held=(0, 0)), a_partial_lookup),),
    "two parts, two groups and a request of up to 5 tokens",
)


@about(PARTIAL_LOOKUP_OF_TWO, "LOOKUP-1", "Each group offers the end of a hit, under the key it has in that group.")
def each_group_offers_the_end_of_a_hit(s: Scope, step: Step) -> None:
    hit = step.result
    index, rest = len(hit.blocks[0]), hit.num_tokens - len(hit.blocks[0]) * PART_BLOCK
    if rest:
        for number, block in enumerate(hit.tails):
            due = block_key(step.arguments[0].parts_of(index)[rest - 1], number, len(hit.tails))
            s.prove(any_of(part.key == due for part in step.before.parts if part.block == block))


# The duties of who brings such a hit.

SIX, TWO = 6, 2
"""Tokens a block, and from one hash to the next."""


def any_tail(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot that offers both parts of a request's first block, in each group from a block of its own, and a hit of
    few tokens, copied from anywhere.
    """
    asking, num_groups = with_num_parts(any_request(), (2,)), len(shape.kinds)
    groups = range(num_groups)
    offered = [Part(block_key(key, number, num_groups), 1 + number) for number in groups for key in asking.parts_of(0)]
    tails = tuple(1 + choose(f"source {number}", 1) for number in range(choose("sources", num_groups + 1)))
    hit = Hit(choose("hit tokens", SIX + TWO), ((),) * num_groups, tails)
    return with_parts(any_snapshot(shape), SIX, *offered, hash_size=TWO), (asking, hit)


TAIL = Operation(
    "require_adoption of the end of a hit",
    checking_duties(
        lambda before, request, hit: preconditions.require_adoption(
            before, request, hit, before.holding(request.request_id)
        )
    ),
    tuple(world(shape, any_tail) for shape in (Shape("f", free=2, held=(0,)), Shape("ff", free=2, held=(0, 0)))),
    "any end of a hit of up to 8 tokens",
)


@about(TAIL, "MEM-2", "A hit ends inside a block exactly where a hash does, copied from blocks that offer that part.")
def the_end_of_a_hit_is_one_that_is_offered(s: Scope, step: Step) -> None:
    hit, sources = step.arguments[1], tuple(range(1, 1 + len(step.before.config.groups)))
    offered = hit.num_tokens in (TWO, 2 * TWO) and hit.tails == sources
    s.prove((step.result == Neglect("tail-is-current")) == (bool(hit.tails) and not offered))


# Commit.


def a_partial_commit(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot that offers any part, a request that holds something in it, and a number of its tokens."""
    request = a_request_with_parts(shape.held[0] - 1)
    tokens = choose("committed", request.num_tokens)
    snapshot = with_parts(any_snapshot(shape), PART_BLOCK, any_part("earlier", 1 + shape.free))
    return snapshot, (request, tokens)


PARTIAL_COMMIT = Operation(
    "commit, parts offered",
    lambda before, request, tokens: admission.commit(before, request, tokens),
    (
        world(Shape("ff", free=0, held=(1, 1)), a_partial_commit),
        world(Shape("f", free=0, held=(2,)), a_partial_commit),
    ),
    "any commit of up to 5 tokens",
)


def computed_parts(step: Step) -> list[tuple[Part, int]]:
    """The parts of the request's blocks that the committed tokens fill, each with its block's index."""
    request, tokens = step.arguments
    return [
        (Part(block_key(key, number, len(step.before.config.groups)), table.entry(index)), index)
        for number, table in enumerate(step.before.holding(ASKING).tables)
        for index in range(-(-tokens // PART_BLOCK))
        for place, key in enumerate(request.parts_of(index), start=1)
        if index * PART_BLOCK + place <= tokens
    ]


def is_listed(part: Part, parts: Any) -> Any:
    """Whether a part is one of these."""
    return any_of((part.key == other.key) & (part.block == other.block) for other in parts)


@about(PARTIAL_COMMIT, "HASH-1", "A commit offers only parts that computed and finalized tokens fill, of keyed blocks.")
def a_commit_offers_only_computed_parts(s: Scope, step: Step) -> None:
    before, now = step.before, step.result
    s.prove(now.parts[: len(before.parts)] == before.parts)
    due = [part for part, _ in computed_parts(step)]
    for part in now.parts[len(before.parts) :]:
        s.prove(is_listed(part, due))
        s.prove(now.pool.key_of(part.block) != NO_KEY)
        s.prove(before.config.caching)


@about(PARTIAL_COMMIT, "HASH-2", "After a commit every keyed block of the request offers all its computed parts.")
def a_commit_offers_every_computed_part(s: Scope, step: Step) -> None:
    now = step.result
    for part, _ in computed_parts(step):
        keyed = step.before.config.caching & (now.pool.key_of(part.block) != NO_KEY)
        s.prove(implies(keyed, is_listed(part, now.parts)))


@about(
    PARTIAL_COMMIT, "HASH-2", "A commit keys the block its tokens end in by its longest computed part, or a longer one."
)
def the_last_block_is_keyed_by_its_longest_part(s: Scope, step: Step) -> None:
    request, tokens = step.arguments
    index, rest = tokens // PART_BLOCK, tokens % PART_BLOCK
    if rest == 0:
        return
    for number, table in enumerate(step.before.holding(ASKING).tables):
        block, now = table.entry(index), step.result.pool.key_of(table.entry(index))
        keys = [block_key(key, number, len(step.before.config.groups)) for key in request.parts_of(index)[rest - 1 :]]
        behind = step.before.config.caching & (step.before.holding(ASKING).cached[number] <= index)
        s.prove(implies(behind, any_of(now == key for key in keys)))
        had_one = any_of(step.before.pool.key_of(block) == key for key in keys)
        s.prove(implies(negated(behind) | had_one, now == step.before.pool.key_of(block)))


@about(PARTIAL_COMMIT, "COMMIT-3", "A commit that offers parts changes no reference, no order, no table and no copy.")
def a_commit_of_parts_changes_keys_only(s: Scope, step: Step) -> None:
    s.prove(all_of(step.result.pool.ref(one) == step.before.pool.ref(one) for one in blocks_of(step)))
    s.prove(step.result.pool.queue == step.before.pool.queue)
    s.prove(step.result.holding(ASKING).tables == step.before.holding(ASKING).tables)
    s.prove(step.result.copies is step.before.copies)


# What ends, and what goes with a key.


def copies_under_way(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot with a copy between any two held blocks, and one more behind it."""
    held = range(1 + shape.free, shape.num_blocks)
    source, destination = (held[choose(end, len(held) - 1)] for end in ("source", "destination"))
    if source == destination:
        raise ImpossiblePath
    return replace(any_snapshot(shape), copies=(Copy(source, destination), Copy(held[0], held[-1]))), ()


RELEASE_COPY = Operation(
    "release_copy",
    lambda before: copies.release_copy(before),
    tuple(world(Shape("f", free=1, held=(held,), others=1), copies_under_way) for held in (1, 2)),
    "any copy between two of up to 3 held blocks",
)


@about(
    RELEASE_COPY, "FREE-1", "The end of the oldest copy gives each end back once, the private one first, and no other."
)
def the_oldest_copy_lets_go_of_both_ends(s: Scope, step: Step) -> None:
    (oldest, *younger), pool = step.before.copies, step.before.pool
    for block in blocks_of(step):
        s.prove(step.result.pool.ref(block) == pool.ref(block) - oldest.count(block))
        s.prove(step.result.pool.key_of(block) == pool.key_of(block))
    s.prove(same(step.result.pool.queue, queue_behind(step, [[oldest.destination, oldest.source]])))
    s.prove(step.result.copies == tuple(younger))
    s.prove(step.result.holdings is step.before.holdings)


NO_COPY = Operation(
    "release_copy, none under way",
    lambda before: copies.release_copy(before),
    (world(Shape("f", free=1, held=(1,)), lambda shape: (any_snapshot(shape), ())),),
    "any pool of 2 blocks",
)


@about(NO_COPY, "FREE-2", "The end of a copy where none is under way changes nothing.")
def the_end_of_no_copy_changes_nothing(s: Scope, step: Step) -> None:
    s.prove(step.result is step.before)


def a_pinned_holder(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot in which the request's first block is pinned by a copy from the other's: two references at least."""
    snapshot, arguments = a_holder(shape)
    first, last = 1 + shape.free, shape.num_blocks - 1
    if not snapshot.pool.ref(first) >= 2:
        raise ImpossiblePath
    return replace(snapshot, copies=(Copy(last, first),)), arguments


FREE_PINNED = Operation(
    "free, a copy under way",
    lambda before, request_id: release.free(before, request_id),
    (World("a block pinned", lambda: a_pinned_holder(Shape("f", free=1, held=(2,), others=1))),),
    "any holder of a pinned block, 4 blocks",
)


@about(
    FREE_PINNED, "POOL-1", "No free before the copy is done hands out either end: both stay held, and the copy listed."
)
def a_free_leaves_the_ends_of_a_copy_held(s: Scope, step: Step) -> None:
    (copy,) = step.before.copies
    s.prove(step.result.copies == (copy,))
    for end in copy:
        s.prove(step.result.pool.ref(end) >= 1)
        s.prove(end not in step.result.pool.queue)


def an_eviction(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot in which every block offers a part, and a block."""
    parts = tuple(Part(integer(f"part of {block}"), block) for block in range(1, shape.num_blocks))
    named = 1 + choose("evicted", shape.num_blocks - 2)
    return with_parts(any_snapshot(shape), PART_BLOCK, *parts), ((named,),)


PARTIAL_EVICT = Operation(
    "evict_blocks, parts offered",
    lambda before, blocks: release.evict_blocks(before, blocks),
    (world(Shape("f", free=1, held=(1,)), an_eviction),),
    "any block of 2, parts offered",
)


@about(PARTIAL_EVICT, "EVICT-1", "Evict withdraws exactly the parts of the blocks named.")
def an_eviction_withdraws_parts(s: Scope, step: Step) -> None:
    (named,) = step.arguments[0]
    s.prove(step.result.parts == tuple(part for part in step.before.parts if part.block != named))
    s.prove(step.result.pool.key_of(named) == NO_KEY)


PARTIAL_RESET = Operation(
    "reset_prefix_cache, parts offered",
    lambda before, _: release.reset_prefix_cache(before),
    tuple(world(Shape("f", free=1, held=(held,)), an_eviction) for held in (0, 1)),
    "any pool of up to 2 blocks, parts offered",
)


@about(PARTIAL_RESET, "RESET-1", "A reset that succeeds withdraws every part; one that is refused none.")
def a_reset_withdraws_every_part(s: Scope, step: Step) -> None:
    now, succeeded = step.result
    s.prove(now.parts == (() if succeeded else step.before.parts))


# Requests.

TOKENS = (1, 2, 1, 2, 2, 1, 1, 2)


@theorem(
    "HASH-1", "A part's key stands for its parent, its tokens and extra keys; parts are of final tokens.", "8 tokens"
)
def a_part_stands_for_its_tokens_behind_its_parent(s: Scope) -> None:
    tokens = s.integer("tokens", 1)
    s.assume(tokens <= len(TOKENS))
    length = index(tokens)
    for block_size, hash_size in ((4, 1), (4, 2), (6, 2), (6, 3)):
        for start in range(1, length + 1):
            keys, request = requests.new_request(
                KeyTable(), "r", TOKENS[:start], block_size, "s", ("x",), hash_size=hash_size
            )
            keys, request = requests.append_tokens(keys, request, TOKENS[start:length], block_size, hash_size)
            prove_parts(s, keys, request, block_size, hash_size)


def prove_parts(s: Scope, keys: KeyTable, request: Any, block_size: int, hash_size: int) -> None:
    """Prove that exactly the prefixes of a request that end inside a block, where a hash does, have a key as parts."""
    s.prove(len(request.part_keys) == -(-request.num_tokens // block_size))
    for place, parts in enumerate(request.part_keys):
        block = request.token_ids[place * block_size : (place + 1) * block_size]
        parent = request.prefix_keys[place - 1] if place else ROOT_KEY
        identity = ("salt:s", "x") if place == 0 else ("x",)
        ends = [end for end in range(hash_size, block_size, hash_size) if end <= len(block)]
        s.prove(parts == tuple(keys.entries.get((parent, block[:end], identity)) for end in ends))
        s.prove(request.parts_of(place) == parts)
    s.prove(request.parts_of(len(request.part_keys)) == ())


@theorem("MEM-2", "Snapshots that offer other parts or have other copies under way have other keys.", "one of each")
def a_key_of_a_snapshot_names_parts_and_copies(s: Scope) -> None:
    block = s.integer("block", 1)
    s.assume(block <= 3)
    config = Config(4, (FullAttention(BLOCK_SIZE),), 8, 8, hash_size=1)
    plain = empty(config)
    offering = plain.with_parts((Part(0, index(block)),))
    copies_of = [replace(snapshot, copies=(Copy(index(block), 1),)) for snapshot in (plain, offering)]
    s.prove(len({snapshot.key() for snapshot in (plain, offering, *copies_of)}) == 4)

"""`allocate_slots`, the one call that decides memory admission, stage by stage in the order in which vLLM takes them.

Stage 0 asks whether the whole prompt would fit, stage 1 gives back what a window has left behind, stage 2 counts this
step, stage 3 takes the blocks, stage 4 gives keys to the blocks that become full. Nothing is taken before both
questions are answered, so a refusal has nothing to undo (REFUSE-1).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeVar

from slotproof.spec.arithmetic import blocks_missing, ceil_div, imax, imin, is_short, slots_needed, tokens_to_cache
from slotproof.spec.copies import list_copies, pin_sources
from slotproof.spec.groups import Group
from slotproof.spec.keys import block_key
from slotproof.spec.lookup import Hit, no_hit
from slotproof.spec.loops import foreach, repeat
from slotproof.spec.parts import offer_parts, withdraw_parts
from slotproof.spec.pool import NULL_BLOCK, Pool, key_block, pin_block, pop_head
from slotproof.spec.preconditions import require, require_call
from slotproof.spec.release import release_run
from slotproof.spec.request import Request, Status
from slotproof.spec.snapshot import Holding, Snapshot, Table

Item = TypeVar("Item")


class Reason(StrEnum):
    """Which question was answered with no."""

    WHOLE_PROMPT = "whole-prompt"
    """Stage 0: the whole prompt would not fit."""
    STEP = "step"
    """Stage 2: this step does not fit."""


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one `allocate_slots`, as the engine passes them; see that function."""

    request: Request
    num_new_tokens: int
    hit: Hit
    num_lookahead_tokens: int = 0
    num_external_computed_tokens: int = 0
    delay_cache_blocks: bool = False
    full_sequence_must_fit: bool = False
    reserved_blocks: int = 0
    has_scheduled_reqs: bool = True

    @property
    def num_computed_tokens(self) -> int:
        """Tokens that need no computing after this call's adoption: computed, hit and external."""
        return self.request.num_computed_tokens + self.hit.num_tokens + self.num_external_computed_tokens

    def hit_table(self, number: int) -> Table:
        """The blocks of the hit in one group."""
        return Table(self.hit.blocks[number])


@dataclass(frozen=True, slots=True)
class Allocation:
    """A yes: the block ids popped for new and lookahead tokens, a group, and the snapshot after the call."""

    new_blocks: tuple[tuple[int, ...], ...]
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Refusal:
    """A no, the field's `None`: needed + watermark > free - reserved, and the snapshot after the call.

    `never` says that waiting cannot help: the call would be refused with every other request gone (REFUSE-3).
    """

    reason: Reason
    never: bool
    needed: int
    watermark: int
    free: int
    reserved: int
    snapshot: Snapshot


def allocate_slots(
    snapshot: Snapshot,
    request: Request,
    num_new_tokens: int,
    *,
    hit: Hit | None = None,
    num_lookahead_tokens: int = 0,
    num_external_computed_tokens: int = 0,
    delay_cache_blocks: bool = False,
    full_sequence_must_fit: bool = False,
    reserved_blocks: int = 0,
    has_scheduled_reqs: bool = True,
) -> Allocation | Refusal:
    """Give a request the slots for its next tokens, or refuse.

    Args:
        snapshot: the allocator before the call.
        request: who asks; its computed tokens do not include what this call adopts or computes.
        num_new_tokens: tokens to compute, drafts included.
        hit: cached blocks found by `get_computed_blocks` just now; None for none.
        num_lookahead_tokens: slots for tokens that a proposer writes ahead.
        num_external_computed_tokens: tokens whose KV a connector loads, behind the hit.
        delay_cache_blocks: give no keys now, because the blocks are filled later; `commit` gives them.
        full_sequence_must_fit: refuse unless the whole prompt would fit (stage 0).
        reserved_blocks: blocks that must stay free for others (stage 2 only).
        has_scheduled_reqs: whether anything is scheduled, without which the watermark does not count (ADMIT-2).

    Raises:
        PreconditionError: for a call that no engine may make.
    """
    call = Call(
        request,
        num_new_tokens,
        hit or no_hit(snapshot),
        num_lookahead_tokens,
        num_external_computed_tokens,
        delay_cache_blocks,
        full_sequence_must_fit,
        reserved_blocks,
        has_scheduled_reqs,
    )
    return admit(snapshot, call)


def admit(snapshot: Snapshot, call: Call) -> Allocation | Refusal:
    """`allocate_slots` on its arguments as one value; touches nothing but the request's own blocks (COMMIT-3)."""
    require_call(
        snapshot,
        call.request,
        call.hit,
        call.num_external_computed_tokens,
        call.num_new_tokens,
        call.num_lookahead_tokens,
        call.reserved_blocks,
    )
    watermark = watermark_for(snapshot, call)
    free = snapshot.pool.num_free()
    if call.full_sequence_must_fit:
        needed = whole_prompt_need(snapshot, call, idle_hits(snapshot, call))
        if is_short(needed, watermark, free, 0):
            return Refusal(Reason.WHOLE_PROMPT, never_fits(snapshot, call), needed, watermark, free, 0, snapshot)
    released = release_skipped(snapshot, call)
    needed = step_need(released, call, idle_hits(released, call))
    free = released.pool.num_free()
    if is_short(needed, watermark, free, call.reserved_blocks):
        never = never_fits(snapshot, call)
        return Refusal(Reason.STEP, never, needed, watermark, free, call.reserved_blocks, released)
    taken = take_blocks(released, call)
    return Allocation(taken.new_blocks, give_keys(taken.snapshot, call))


# Stage 0: does the whole prompt fit?


def watermark_for(snapshot: Snapshot, call: Call) -> int:
    """Blocks kept free on top of the need: for who enters or re-enters while others run (ADMIT-2)."""
    enters = call.request.status in (Status.WAITING, Status.PREEMPTED)
    return snapshot.config.watermark_blocks if enters and call.has_scheduled_reqs else 0


def whole_prompt_need(snapshot: Snapshot, call: Call, idle: int) -> int:
    """Blocks the finalized tokens are charged for, windows by their cap (ADMIT-1)."""
    config = snapshot.config
    tokens = imin(call.request.num_tokens, config.max_model_len)

    def charge(group: Group) -> int:
        required = ceil_div(tokens, group.block_size)
        return group.capped(required, config.max_in_flight_tokens, config.max_model_len)

    return new_blocks_needed(snapshot, call, [charge(group) for group in config.groups]) + idle


def new_blocks_needed(snapshot: Snapshot, call: Call, required: list[int]) -> int:
    """Blocks to pop so that each group's table reaches its required length, summed over groups (COUNT-1)."""
    tables = snapshot.holding(call.request.request_id).tables

    def add_missing(number: int, total: int) -> int:
        skipped = skipped_blocks(snapshot.config.groups[number], call.num_computed_tokens)
        present = tables[number].length + call.hit_table(number).length
        return total + blocks_missing(required[number], skipped, present)

    return foreach(range(len(tables)), add_missing, 0)


def idle_hits(snapshot: Snapshot, call: Call) -> int:
    """Hits, blocks to copy from among them, that stand in the free queue: taking them uses free blocks up, held ones
    cost nothing (COUNT-2).
    """

    def add_if_idle(block: int, total: int) -> int:
        return total + 1 if block != NULL_BLOCK and snapshot.pool.ref(block) == 0 else total

    def add_in_group(number: int, total: int) -> int:
        return foreach(adopted_table(snapshot, call, number).entries, add_if_idle, total)

    adopted = foreach(range(len(snapshot.config.groups)), add_in_group, 0)
    return foreach(call.hit.tails, add_if_idle, adopted)


def adopted_table(snapshot: Snapshot, call: Call, number: int) -> Table:
    """The hit as it enters a group's table: null for what the window skips, even past the hit, then the rest."""
    skipped = skipped_blocks(snapshot.config.groups[number], call.num_computed_tokens)
    return call.hit_table(number).behind_nulls(skipped)


def skipped_blocks(group: Group, settled: int) -> int:
    """Leading blocks that attention no longer reads at all."""
    return group.skipped_tokens(settled) // group.block_size


# Stage 1: give back what a window has left behind.


def release_skipped(snapshot: Snapshot, call: Call) -> Snapshot:
    """Null the entries no token will read again, whatever happens to the steps in flight (SKIP-1)."""
    settled = imax(call.num_computed_tokens - call.request.num_in_flight_tokens, 0)

    def release_in_group(number: int, so_far: Snapshot) -> Snapshot:
        return release_head(so_far, call.request.request_id, number, settled)

    return foreach(range(len(snapshot.config.groups)), release_in_group, snapshot)


def release_head(snapshot: Snapshot, request_id: str, number: int, settled: int) -> Snapshot:
    """One group's part of stage 1: the skipped entries become null, and their blocks are released last entry first.

    Null entries stand in front of all others, so nothing is left to release where the last skipped entry is null.
    """
    holding = snapshot.holding(request_id)
    table = holding.tables[number]
    end = imin(skipped_blocks(snapshot.config.groups[number], settled), table.length)
    if end == 0 or table.entry(end - 1) == NULL_BLOCK:
        return snapshot
    pool = release_run(snapshot.pool, table.head(end).reversed(), snapshot.config.free_order)
    tables = with_item(holding.tables, number, repeat(end, null_entry, table))
    return snapshot.with_pool(pool).with_holding(request_id, Holding(tables, holding.cached))


def null_entry(index: int, table: Table) -> Table:
    """The table with one entry nulled."""
    return table.with_null(index)


# Stage 2: does this step fit?


def step_need(snapshot: Snapshot, call: Call, idle: int) -> int:
    """Blocks this step takes from the free queue: those popped and the idle hits (COUNT-1, COUNT-3)."""
    config = snapshot.config
    slots = slots_needed(call.num_computed_tokens, call.num_new_tokens, call.num_lookahead_tokens, config.max_model_len)
    return new_blocks_needed(snapshot, call, [ceil_div(slots, group.block_size) for group in config.groups]) + idle


def never_fits(snapshot: Snapshot, call: Call) -> bool:
    """Whether the call is refused even with the pool to itself: nothing else held, reserved or scheduled (REFUSE-3)."""
    released = release_skipped(snapshot, call)
    whole = sum(adopted_table(snapshot, call, number).num_live() for number in range(len(snapshot.config.groups)))
    idle = whole + len(call.hit.tails)
    whole_prompt = whole_prompt_need(snapshot, call, idle)
    if call.full_sequence_must_fit and is_short(whole_prompt, 0, free_if_alone(snapshot, call), 0):
        return True
    return is_short(step_need(released, call, idle), 0, free_if_alone(released, call), 0)


def free_if_alone(snapshot: Snapshot, call: Call) -> int:
    """Free blocks if nobody but this request held any."""
    tables = snapshot.holding(call.request.request_id).tables
    return snapshot.config.usable_blocks - sum(table.num_live() for table in tables)


# Stage 3: take the blocks.


class Taken(NamedTuple):
    """The snapshot after the blocks were taken, and those popped for new and lookahead tokens."""

    snapshot: Snapshot
    new_blocks: tuple[tuple[int, ...], ...]


class Growth(NamedTuple):
    """A pool and a table that takes blocks from it."""

    pool: Pool
    table: Table


def take_blocks(snapshot: Snapshot, call: Call) -> Taken:
    """Pin every group's hits, then pop for external tokens, then for new ones, so that no pop evicts a hit
    (COMMIT-1).
    """
    config, request_id = snapshot.config, call.request.request_id
    computed = call.num_computed_tokens
    slots = slots_needed(computed, call.num_new_tokens, call.num_lookahead_tokens, config.max_model_len)
    adopted = pin_sources(adopt_hits(snapshot, call), call.hit)
    loaded = grow_tables(adopted, request_id, computed if call.num_external_computed_tokens > 0 else 0)
    grown = grow_tables(loaded, request_id, slots)
    before, after = loaded.holding(request_id).tables, grown.holding(request_id).tables
    new_blocks = tuple(long.tail(short.length) for short, long in zip(before, after, strict=True))
    return Taken(list_copies(withdraw_popped(adopted, grown, request_id), request_id, call.hit), new_blocks)


def withdraw_popped(before: Snapshot, after: Snapshot, request_id: str) -> Snapshot:
    """The blocks that a request's tables have grown by offer no parts of what they held."""
    if not after.parts:
        return after
    tables = zip(before.holding(request_id).tables, after.holding(request_id).tables, strict=True)
    return withdraw_parts(after, tuple(block for short, long in tables for block in long.tail(short.length)))


def adopt_hits(snapshot: Snapshot, call: Call) -> Snapshot:
    """The request's first entries: null for what its windows skip, then the hits, each with one more reference."""
    if call.hit.num_tokens + call.num_external_computed_tokens == 0:
        return snapshot
    tables = tuple(adopted_table(snapshot, call, number) for number in range(len(snapshot.config.groups)))

    def pin_in_group(table: Table, pool: Pool) -> Pool:
        return foreach(table.entries, pin_block, pool)

    pool = foreach(tables, pin_in_group, snapshot.pool)
    holding = Holding(tables, tuple(table.length for table in tables))
    return snapshot.with_pool(pool).with_holding(call.request.request_id, holding)


def grow_tables(snapshot: Snapshot, request_id: str, tokens: int) -> Snapshot:
    """Pop blocks, group after group, until every table has slots for `tokens` tokens."""

    def grow(number: int, so_far: Snapshot) -> Snapshot:
        holding = so_far.holding(request_id)
        table = holding.tables[number]
        missing = imax(ceil_div(tokens, so_far.config.groups[number].block_size) - table.length, 0)
        if missing == 0:
            return so_far
        grown = repeat(missing, pop_into_table, Growth(so_far.pool, table))
        tables = with_item(holding.tables, number, grown.table)
        return so_far.with_pool(grown.pool).with_holding(request_id, Holding(tables, holding.cached))

    return foreach(range(len(snapshot.config.groups)), grow, snapshot)


def pop_into_table(_: int, growth: Growth) -> Growth:
    """One block from the head of the queue to the end of the table; it is this table's alone (TABLE-2)."""
    pool, block = pop_head(growth.pool)
    return Growth(pool, growth.table.append(block))


# Stage 4: give keys to the blocks that become full.


def give_keys(snapshot: Snapshot, call: Call) -> Snapshot:
    """Key what this step fills, at scheduling time, and finalized tokens only (HASH-1, HASH-2)."""
    if call.delay_cache_blocks:
        return snapshot
    tokens = tokens_to_cache(call.num_computed_tokens, call.num_new_tokens, call.request.num_tokens)
    return key_full_blocks(snapshot, call.request, tokens)


def commit(snapshot: Snapshot, request: Request, num_computed_tokens: int) -> Snapshot:
    """Key the full blocks of the first `num_computed_tokens` tokens: after a delayed call, or when drafts became final;
    at a finer hash granularity offer their parts.

    Raises:
        PreconditionError: for tokens that are not finalized, or not held.
    """
    require(num_computed_tokens >= 0, "counts-not-negative")
    require(num_computed_tokens <= request.num_tokens, "commit-is-held")
    for table in snapshot.holding(request.request_id).tables:
        require(num_computed_tokens <= table.length * snapshot.config.block_size, "commit-is-held")
    return offer_parts(key_full_blocks(snapshot, request, num_computed_tokens), request, num_computed_tokens)


def key_full_blocks(snapshot: Snapshot, request: Request, tokens: int) -> Snapshot:
    """Key, in every group, the entries behind the cached counter that `tokens` tokens fill."""
    if not snapshot.config.caching:
        return snapshot

    def key_in_group(number: int, so_far: Snapshot) -> Snapshot:
        return key_group_blocks(so_far, request, number, tokens)

    return foreach(range(len(snapshot.config.groups)), key_in_group, snapshot)


def key_group_blocks(snapshot: Snapshot, request: Request, number: int, tokens: int) -> Snapshot:
    """One group's part of stage 4; the counter never goes down, so what was considered once is not keyed again."""
    config = snapshot.config
    holding = snapshot.holding(request.request_id)
    table, counter = holding.tables[number], holding.cached[number]
    full = tokens // config.groups[number].block_size
    if full <= counter:
        return snapshot

    def key_entry(step: int, pool: Pool) -> Pool:
        index = counter + step
        return key_block(table.entry(index), block_key(request.prefix_key(index), number, len(config.groups)), pool)

    pool = repeat(full - counter, key_entry, snapshot.pool)
    cached = with_item(holding.cached, number, full)
    return snapshot.with_pool(pool).with_holding(request.request_id, Holding(holding.tables, cached))


def with_item(items: tuple[Item, ...], index: int, item: Item) -> tuple[Item, ...]:
    """The tuple with one item replaced."""
    return (*items[:index], item, *items[index + 1 :])

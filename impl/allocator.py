"""The allocator: the one place where memory admission is decided.

Identical, block id for block id, with vLLM 0.31.0 for full attention, sliding window and hybrids of equal
block size. Law ids (REFUSE-1, ...) name the project's laws.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from slotproof.impl.config import AllocatorConfig
from slotproof.impl.events import KVEvent
from slotproof.impl.groups import SlidingWindow
from slotproof.impl.lookup import FoundBlocks, PrefixLookup
from slotproof.impl.pool import BlockPool
from slotproof.impl.preconditions import Hit, check_adoption, check_counts, check_span
from slotproof.impl.request import Request, RequestStatus
from slotproof.impl.tables import Adoption, RequestTables
from slotproof.impl.tails import TailPool, found_with_tails

if TYPE_CHECKING:
    from slotproof.impl.decode_rows import DecodeBlocks, DecodeRows, NewTokens

Blocks = tuple[tuple[int, ...], ...]

_RUNNING = RequestStatus.RUNNING


class SlotAllocator:
    """Hands blocks of KV memory to requests, shares cached prefixes and takes blocks back.

    Block ids are integers; 0 is the null block, which stands in a window group's table for blocks that
    fell out of view. Answers have one tuple of block ids per group.
    """

    __slots__ = (
        "_block_size",
        "_caching",
        "_caps",
        "_config",
        "_deferred",
        "_groups",
        "_hash_size",
        "_lookup",
        "_max_model_len",
        "_nothing",
        "_num_closed",
        "_num_groups",
        "_pool",
        "_queue",
        "_tables",
        "_tails",
        "_watermark",
        "_windows",
    )

    def __init__(self, config: AllocatorConfig) -> None:
        in_flight = config.max_model_len if config.max_in_flight_tokens is None else config.max_in_flight_tokens
        self._config = config
        self._groups = config.groups
        self._num_groups = len(config.groups)
        self._block_size = config.block_size
        self._hash_size = config.hash_size or config.block_size
        self._max_model_len = config.max_model_len
        self._caching = config.enable_caching
        self._watermark = config.watermark_blocks
        self._caps = [group.admission_cap(in_flight, config.max_model_len) for group in config.groups]
        self._windows = [
            (position, group) for position, group in enumerate(config.groups) if isinstance(group, SlidingWindow)
        ]
        self._nothing: Blocks = ((),) * len(config.groups)
        self._tails = TailPool(config) if config.has_partial_hits else None
        self._pool = self._tails or BlockPool(config)
        self._queue = self._pool.queue
        self._lookup = PrefixLookup(self._pool.index, config.groups)
        self._tables: dict[str, RequestTables] = {}
        self._deferred: deque[list[int]] = deque()
        self._num_closed = 0

    @property
    def config(self) -> AllocatorConfig:
        """What the allocator was built for."""
        return self._config

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        num_new_computed_tokens: int = 0,
        new_computed_blocks: Hit | None = None,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,
        full_sequence_must_fit: bool = False,
        reserved_blocks: int = 0,
        has_scheduled_reqs: bool = True,
    ) -> Blocks | None:
        """Gives `request` slots for its next tokens, or refuses with None.

        num_new_tokens: tokens to compute, drafts included.
        num_new_computed_tokens, new_computed_blocks: a hit, as `get_computed_blocks` returned it.
        num_lookahead_tokens: further slots for a speculative proposer.
        num_external_computed_tokens: tokens whose KV another store delivers, after the hit.
        delay_cache_blocks: key nothing yet; `cache_blocks` does it later.
        full_sequence_must_fit: refuse unless the whole request fits (stage 0, ADMIT-1).
        reserved_blocks: blocks to leave free for others (stage 2 only).
        has_scheduled_reqs: whether others are scheduled, so that the watermark counts (ADMIT-2).

        Returns the ids popped for new and lookahead tokens, not hit blocks and not those popped for
        external tokens. A stage 0 refusal changes nothing; a stage 2 refusal changes what stage 1 alone
        would, so nothing with full attention (REFUSE-1). Raises `ValueError`, changing nothing, on a
        caller's mistake: see `preconditions.py`.
        """
        tables = self._tables.get(request.request_id)
        if (
            num_new_computed_tokens
            or num_external_computed_tokens
            or (new_computed_blocks and any(new_computed_blocks))
        ):
            return self._adopt(
                request,
                tables,
                num_new_tokens,
                num_new_computed_tokens,
                new_computed_blocks,
                num_lookahead_tokens,
                num_external_computed_tokens,
                delay_cache_blocks,
                full_sequence_must_fit,
                reserved_blocks,
                has_scheduled_reqs,
            )
        size, held = self._block_size, 0
        if tables is not None:
            # Most decode steps change nothing. They are the reason why arguments are not keyword-only: that alone
            # would add a third to their time.
            if (
                0 < num_new_tokens <= tables.quiet_until - request.num_computed_tokens - num_lookahead_tokens
                and num_lookahead_tokens >= 0
                and not (reserved_blocks or full_sequence_must_fit)
                and request.status is _RUNNING
            ):
                return self._nothing
            held = tables.held
        # From here to stage 3 all is comparisons of few integers, so that a refusal costs little; they are written out,
        # because one call of `min` costs as much as several of them.
        room, longest, computed = held * size, self._max_model_len, request.num_computed_tokens
        end = computed + num_new_tokens
        if (
            num_new_tokens <= 0
            or num_lookahead_tokens < 0
            or reserved_blocks < 0
            or not 0 <= computed <= room
            or end > longest
            or request.num_in_flight_tokens < 0
            or request.block_size != size
            or request.hash_size != self._hash_size
        ):
            self._examine(request, held, num_new_tokens, 0, None, num_lookahead_tokens, 0, reserved_blocks)
        queue = self._queue
        watermark = 0 if request.status is _RUNNING or not has_scheduled_reqs else self._watermark
        # Stage 0
        if full_sequence_must_fit:
            final = len(request.token_ids)
            if self._need(held, None, final if final < longest else longest, self._caps) + watermark > queue.count:
                return None
        # Stage 1
        if self._windows and tables is not None:
            self._release_skipped(tables, computed - request.num_in_flight_tokens)
        # Stage 2
        slots = end + num_lookahead_tokens
        if slots > longest:
            slots = longest
        missing = -((room - slots) // size) if slots > room else 0
        if missing * self._num_groups + watermark > queue.count - reserved_blocks:
            return None
        # Stages 3 and 4
        if tables is None:
            tables = self._tables[request.request_id] = RequestTables(self._num_groups)
        new_blocks = self._grow(tables, missing) if missing else self._nothing
        self._commit(request, tables, 0 if delay_cache_blocks else end)
        return new_blocks

    def _adopt(
        self,
        request: Request,
        tables: RequestTables | None,
        new: int,
        hit_tokens: int,
        hit: Hit | None,
        lookahead: int,
        external: int,
        delay: bool,
        whole: bool,
        reserved: int,
        scheduled: bool,
    ) -> Blocks | None:
        """Stages 0 to 4 for a request that takes over a hit or an external prefix: it holds nothing yet."""
        held = 0 if tables is None else tables.held
        found, total = self._examine(request, held, new, hit_tokens, hit, lookahead, external, reserved)
        adoption = self._plan_adoption(found, total, external)
        queue = self._queue
        watermark = 0 if request.status is _RUNNING or not scheduled else self._watermark
        # Stage 0
        if whole and self._need_whole(request, 0, adoption) + watermark > queue.count:
            return None
        # Stage 2
        end = total + new
        slots = end + lookahead
        if slots > self._max_model_len:
            slots = self._max_model_len
        if self._need(0, adoption, slots) + watermark > queue.count - reserved:
            return None
        # Stages 3 and 4
        tables = self._open(request.request_id, adoption)
        missing = -(-slots // self._block_size) - tables.held
        new_blocks = self._grow(tables, missing) if missing > 0 else self._nothing
        if self._tails is not None and adoption.sources:
            self._tails.list_copies(adoption, tables)
        self._commit(request, tables, 0 if delay else end)
        return new_blocks

    def decode_rows(self, requests: Sequence[Request]) -> "DecodeRows":
        """Running requests that hold blocks, as the rows of a batch for `allocate_decode`; needs torch.

        Raises `ValueError` for a request that does not run, holds nothing or is named twice.
        """
        from slotproof.impl.decode_rows import DecodeRows, check_rows

        check_rows(requests)
        for request in requests:
            if request.request_id not in self._tables:
                raise ValueError(f"decode_rows: request {request.request_id!r} holds no blocks; admit it first")
        return DecodeRows(requests, [self._tables[request.request_id] for request in requests], self._num_closed)

    def allocate_decode(
        self,
        rows: "DecodeRows",
        num_new_tokens: "NewTokens" = 1,
        num_lookahead_tokens: int = 0,
        reserved_blocks: int = 0,
    ) -> "DecodeBlocks":
        """One decode step of all rows: `allocate_slots` for each in order, up to the first refusal (BATCH-1).

        num_new_tokens: tokens to compute, drafts included, for every row or, as int64 [rows], for each.
        num_lookahead_tokens, reserved_blocks: as for `allocate_slots`, for every row.

        The refused row and those after it are untouched, but with a window the refused one gives back what stage 1
        releases (REFUSE-1). Raises `ValueError` on a caller's mistake; with full attention nothing has changed then.
        """
        from slotproof.impl.decode_rows import DecodeBlocks

        self._check_batch(rows, num_new_tokens, num_lookahead_tokens, reserved_blocks)
        due, computed = rows.due(num_new_tokens, num_lookahead_tokens)
        if not due and not reserved_blocks:
            return DecodeBlocks(len(rows), [], [])
        new = [num_new_tokens] * len(rows) if isinstance(num_new_tokens, int) else num_new_tokens.tolist()
        if self._windows or reserved_blocks:
            return self._decode_one_by_one(rows, due, new, num_lookahead_tokens, reserved_blocks)
        served, num_served, missing = self._plan_batch(rows, due, computed, new, num_lookahead_tokens)
        blocks = self._deal_out(rows, served, missing)
        for row in served:
            request, tables = rows.requests[row], rows.tables[row]
            self._commit(request, tables, request.num_computed_tokens + new[row])
        rows.settle(served)
        return DecodeBlocks(num_served, [row for row, lack in zip(served, missing, strict=True) if lack], blocks)

    def can_allocate(
        self,
        request: Request,
        num_new_tokens: int,
        num_new_computed_tokens: int = 0,
        new_computed_blocks: Hit | None = None,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,
        full_sequence_must_fit: bool = False,
        reserved_blocks: int = 0,
        has_scheduled_reqs: bool = True,
    ) -> bool:
        """Whether `allocate_slots` with the same arguments would succeed; changes nothing (CAN-1).

        Raises `ValueError` where `allocate_slots` would.
        """
        tables = self._tables.get(request.request_id)
        held = 0 if tables is None else tables.held
        hit, total = self._examine(
            request,
            held,
            num_new_tokens,
            num_new_computed_tokens,
            new_computed_blocks,
            num_lookahead_tokens,
            num_external_computed_tokens,
            reserved_blocks,
        )
        adoption = (
            None if tables is not None or total == 0 else self._plan_adoption(hit, total, num_external_computed_tokens)
        )
        watermark = 0 if request.status is _RUNNING or not has_scheduled_reqs else self._watermark
        free = self._queue.count
        if full_sequence_must_fit and self._need_whole(request, held, adoption) + watermark > free:
            return False
        if tables is not None:
            free += self._count_releasable(tables, total - request.num_in_flight_tokens)
        slots = min(total + num_new_tokens + num_lookahead_tokens, self._max_model_len)
        return self._need(held, adoption, slots) + watermark <= free - reserved_blocks

    def get_computed_blocks(self, request: Request) -> tuple[Blocks, int]:
        """The longest hit of at most num_tokens - 1 tokens: blocks per group and tokens; changes nothing (LOOKUP-1).

        Null (0) stands where a window does not look. Of several blocks with one key the one keyed first is
        taken. No blocks and 0 tokens if caching is off. With a finer `hash_size` a hit may end inside a block; then the
        blocks must be passed on as they are returned.
        """
        if self._tails is not None and self._caching:
            return self._with_tails(self._tails, request)
        limit = (len(request.token_ids) - 1) // self._block_size
        if not self._caching or limit <= 0:
            return self._nothing, 0
        blocks = self._lookup.find(request.block_hashes, limit)
        if not blocks:
            return self._nothing, 0
        found, index = FoundBlocks(blocks), self._pool.index
        found.origin = request, index, index.num_dropped
        return found, len(blocks[0]) * self._block_size

    def _with_tails(self, pool: TailPool, request: Request) -> tuple[Blocks, int]:
        """The longest hit, which may end inside a block."""
        limit = (len(request.token_ids) - 1) // self._block_size
        whole = self._lookup.find(request.block_hashes, limit) if limit > 0 else ()
        found = FoundBlocks(whole or self._nothing)
        found.origin = request, pool.index, pool.index.num_dropped
        length = len(found[0])
        num_tokens = length * self._block_size + found_with_tails(pool.tails, request, found, length)
        return (found, num_tokens) if num_tokens else (self._nothing, 0)

    def cache_blocks(self, request: Request, num_computed_tokens: int) -> None:
        """Keys the full blocks of the first `num_computed_tokens` tokens, finalized ones only (HASH-1, HASH-2).

        Ends a delayed commit. Silent for a request that holds nothing, and when caching is off. With a finer
        `hash_size` the parts of these blocks are offered too, so call it only when the tokens are computed.
        """
        tables = self._tables.get(request.request_id)
        if tables is not None:
            held = min(num_computed_tokens, tables.held * self._block_size)
            self._commit(request, tables, held)
            if self._tails is not None and self._caching:
                self._tails.store_parts(request, tables, min(held, len(request.token_ids)))

    def take_copies(self) -> list[tuple[int, int]]:
        """(source, destination) of the copies that accepted calls have asked for since the last time, oldest first.

        The worker makes them before the forward of the step (`KVMemory.prepare`). Both blocks stay held until
        `release_copy`, whatever becomes of the requests. Always empty without a finer `hash_size`.
        """
        return [] if self._tails is None else self._tails.take_copies()

    def release_copy(self) -> bool:
        """The step of the oldest copy is done: lets go of both blocks. False when there is none."""
        return self._tails is not None and self._tails.release_copy()

    def free(self, request: Request) -> None:
        """Takes all blocks back: per group in group order, tail to head (FREE-1). Silent if it holds none (FREE-2)."""
        tables = self._tables.pop(request.request_id, None)
        if tables is not None:
            self._num_closed += 1
            for table in tables.live() if self._windows else tables.blocks:
                self._pool.release(table)

    def defer_free(self, request: Request) -> None:
        """Takes the tables out of the request; the blocks stay held until `return_deferred`.

        Silent if it holds none.
        """
        tables = self._tables.pop(request.request_id, None)
        if tables is not None:
            self._num_closed += 1
            self._deferred.append([block for table in tables.live() for block in table])

    def return_deferred(self) -> bool:
        """Takes back the oldest waiting free, from the last group's tail to the first group's head (FREE-1).

        False when none waits.
        """
        if not self._deferred:
            return False
        self._pool.release(self._deferred.popleft())
        return True

    def preempt(self, request: Request) -> None:
        """Frees the request and sets it back to nothing computed; its cached blocks can be hit again."""
        self.free(request)
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        request.num_in_flight_tokens = 0

    def evict_blocks(self, block_ids: Iterable[int]) -> None:
        """Takes the keys of these blocks away, held or not, and nothing else (EVICT-1).

        Raises `ValueError`, changing nothing, on an id outside the pool.
        """
        blocks = list(block_ids)
        for block in blocks:
            if not 0 <= block < self._config.num_blocks:
                raise ValueError(
                    f"evict_blocks: no block {block} in a pool of {self._config.num_blocks}; "
                    "give ids that the allocator handed out"
                )
        self._pool.drop_keys(blocks)

    def reset_prefix_cache(self) -> bool:
        """Takes every key away if nothing is held, and says whether it did; queue order stays (RESET-1)."""
        return self._pool.clear_keys()

    def take_events(self) -> list[KVEvent]:
        """The KV events since the last call, oldest first (EVENT-1); empty unless `enable_events`."""
        return self._pool.take_events()

    @property
    def num_free_blocks(self) -> int:
        """Blocks in the free queue, cached or not."""
        return self._queue.count

    @property
    def usage(self) -> float:
        """Share of the usable blocks that is held, 0.0 to 1.0 (POOL-4)."""
        return 1.0 - self._queue.count / self._pool.num_usable

    def block_table(self, request_id: str) -> Blocks:
        """Block ids per group, null (0) where skipped; empty tuples for a request that holds nothing."""
        tables = self._tables.get(request_id)
        return self._nothing if tables is None else tuple(map(tuple, tables.blocks))

    def cached_count(self, request_id: str) -> tuple[int | None, ...]:
        """Per group the entries already considered for keys; None while untracked."""
        tables = self._tables.get(request_id)
        if tables is None or tables.cached is None:
            return (None,) * len(self._groups)
        return tuple(tables.cached)

    def ref_count(self, block_id: int) -> int:
        """Table entries, waiting frees and ends of copies that name the block (POOL-2); 0 for null."""
        return self._pool.refs[block_id]

    def free_queue(self) -> tuple[int, ...]:
        """Free blocks, the next one popped first."""
        return tuple(self._pool.queue)

    def cached_blocks(self) -> dict[int, tuple[bytes, int]]:
        """Keyed blocks: id to (hash, group)."""
        hash_of, group_of = self._pool.index.hash_of, self._pool.index.group_of
        return {
            block: (block_hash, group_of[block]) for block, block_hash in enumerate(hash_of) if block_hash is not None
        }

    def offered_parts(self) -> tuple[tuple[int, tuple[bytes, int]], ...]:
        """Block and (hash, group) of every prefix ending inside a block that may be copied, the first such first."""
        if self._tails is None:
            return ()
        return tuple((block, (part, group)) for block, part, group in self._tails.tails.offered_parts())

    def index_order(self) -> tuple[int, ...]:
        """Keyed blocks; those sharing a key in the order they were keyed, so the first one is offered."""
        return tuple(self._pool.index)

    def _check_batch(self, rows: "DecodeRows", new: "NewTokens", lookahead: int, reserved: int) -> None:
        """Raises `ValueError` for counts that cannot be, or a request that was freed since the rows were made."""
        fewest = new if isinstance(new, int) else int(new.min())
        if fewest < 1 or lookahead < 0 or reserved < 0:
            raise ValueError(
                f"allocate_decode: {fewest} new tokens, {lookahead} lookahead tokens, {reserved} reserved blocks; "
                "give at least 1 new token and nothing negative"
            )
        if rows.num_closed == self._num_closed:
            return
        for request, tables in zip(rows.requests, rows.tables, strict=True):
            if self._tables.get(request.request_id) is not tables:
                raise ValueError(
                    f"allocate_decode: request {request.request_id!r} was freed; make the rows anew without it"
                )
        rows.num_closed = self._num_closed

    def _plan_batch(
        self, rows: "DecodeRows", due: list[int], computed: list[int], new: list[int], lookahead: int
    ) -> tuple[list[int], int, list[int]]:
        """Stage 2 of a batch: the due rows that are served, how many of all rows are, and the blocks each one lacks."""
        size, longest, left = self._block_size, self._max_model_len, self._queue.count
        num_groups, missing = len(self._groups), list[int]()
        for position, (row, start) in enumerate(zip(due, computed, strict=True)):
            request, tables = rows.requests[row], rows.tables[row]
            request.num_computed_tokens = start
            end = start + new[row]
            if start < 0 or end > longest or start > tables.held * size or request.status is not _RUNNING:
                self._explain_row(request, tables, new[row])
            lack = max(-(-min(end + lookahead, longest) // size) - tables.held, 0)
            left -= lack * num_groups
            if left < 0:
                return due[:position], row, missing
            missing.append(lack)
        return due, len(rows), missing

    def _explain_row(self, request: Request, tables: RequestTables, new: int) -> None:
        """Raises `ValueError`: says what is wrong with a row."""
        self._examine(request, tables.held, new, 0, None, 0, 0, 0)
        raise ValueError(
            f"allocate_decode: request {request.request_id!r} is {request.status.value}; "
            "only running requests are decoded together"
        )

    def _deal_out(self, rows: "DecodeRows", served: list[int], missing: list[int]) -> list[Blocks]:
        """Stage 3 of a batch: one pop for all rows, dealt out row by row, group by group."""
        popped = iter(self._pool.take(sum(missing) * len(self._groups)))
        blocks: list[Blocks] = []
        for row, lack in zip(served, missing, strict=True):
            if lack:
                tables = rows.tables[row]
                tables.held += lack
                new_blocks = tuple(tuple(islice(popped, lack)) for _ in tables.blocks)
                for table, added in zip(tables.blocks, new_blocks, strict=True):
                    table += added
                blocks.append(new_blocks)
        return blocks

    def _decode_one_by_one(
        self, rows: "DecodeRows", due: list[int], new: list[int], lookahead: int, reserved: int
    ) -> "DecodeBlocks":
        """A batch whose rows may release blocks for one another, or must leave some: a step for each row in turn."""
        from slotproof.impl.decode_rows import DecodeBlocks

        growing: list[int] = []
        blocks: list[Blocks] = []
        computed = rows.num_computed.tolist()
        for row in range(len(rows)) if reserved else due:
            request = rows.requests[row]
            request.num_computed_tokens = computed[row]
            new_blocks = self.allocate_slots(
                request, new[row], num_lookahead_tokens=lookahead, reserved_blocks=reserved
            )
            rows.settle([row])
            if new_blocks is None:
                return DecodeBlocks(row, growing, blocks)
            if any(new_blocks):
                growing.append(row)
                blocks.append(new_blocks)
        return DecodeBlocks(len(rows), growing, blocks)

    def _examine(
        self,
        request: Request,
        held: int,
        new: int,
        hit_tokens: int,
        hit: Hit | None,
        lookahead: int,
        external: int,
        reserved: int,
    ) -> tuple[Hit, int]:
        """Checks the call; returns the hit, empty per group if there is none, and computed + hit + external tokens."""
        computed = request.num_computed_tokens
        total = computed + hit_tokens + external
        if (
            new < 0
            or hit_tokens < 0
            or lookahead < 0
            or external < 0
            or reserved < 0
            or computed < 0
            or request.num_in_flight_tokens < 0
            or total + new == computed
            or total + new > self._max_model_len
            or computed > held * self._block_size
            or request.block_size != self._block_size
            or request.hash_size != self._hash_size
        ):
            check_counts(request, new, hit_tokens, lookahead, external, reserved)
            check_span(request, self._config, total + new, held)
        if hit is None or not (hit_tokens or any(hit)):
            hit = self._nothing
        if hit_tokens or external or hit is not self._nothing:
            check_adoption(request, self._config, self._pool.index, held, hit_tokens, hit, external)
        return hit, total

    def _plan_adoption(self, hit: Hit, total: int, external: int) -> Adoption:
        """What a new request takes over of `total` hit and external tokens; changes nothing."""
        # A block to copy into is a new one, so that the answer names it.
        held = -(-total // self._block_size) if external else total // self._block_size
        pool, adoption = self._pool, Adoption(held)
        for position, found in enumerate(hit):
            nulls = self._groups[position].skipped_blocks(total) if self._windows else 0
            kept = found[nulls:] if nulls else found
            run = pool.is_idle_run(kept)
            adoption.add(nulls, kept, kept if run else pool.idle_among(kept), run)
        if isinstance(hit, FoundBlocks) and hit.tails:
            adoption.copy_from(hit.tails, pool.idle_among(hit.tails))
        return adoption

    def _need_whole(self, request: Request, held: int, adoption: Adoption | None) -> int:
        """Blocks that stage 0 charges for the whole request, capped per window group (ADMIT-1)."""
        return self._need(held, adoption, min(len(request.token_ids), self._max_model_len), self._caps)

    def _need(self, held: int, adoption: Adoption | None, num_tokens: int, caps: list[int | None] | None = None) -> int:
        """Blocks that leave the free queue to reach `num_tokens` slots: new ones and idle hits (COUNT-1, COUNT-2)."""
        required = -(-num_tokens // self._block_size)
        if not self._windows:
            # Without windows nothing is capped, and all tables are alike.
            idle = 0
            if adoption is not None:
                held, idle = len(adoption.tables[0]), adoption.num_idle
            return idle + (required - held) * self._num_groups if required > held else idle
        count = 0 if adoption is None else adoption.num_idle
        for position in range(self._num_groups):
            cap = None if caps is None else caps[position]
            wanted = required if cap is None or required < cap else cap
            if adoption is not None:
                held = len(adoption.tables[position])
            if wanted > held:
                count += wanted - held
        return count

    def _release_skipped(self, tables: RequestTables, processed: int) -> None:
        """Stage 1: lets go of blocks behind the windows, last one first, leaving null (SKIP-1)."""
        for position, group in self._windows:
            nulls, skipped = tables.nulls[position], group.skipped_blocks(processed)
            if skipped > nulls:
                table = tables.blocks[position]
                dropped = table[nulls:skipped]
                table[nulls:skipped] = [0] * len(dropped)
                tables.nulls[position] = nulls + len(dropped)
                self._pool.release(dropped)

    def _count_releasable(self, tables: RequestTables, processed: int) -> int:
        """Blocks that `_release_skipped` would return to the free queue."""
        refs = self._pool.refs
        return sum(
            refs[block] == 1
            for position, group in self._windows
            for block in tables.blocks[position][tables.nulls[position] : group.skipped_blocks(processed)]
        )

    def _open(self, request_id: str, adoption: Adoption) -> RequestTables:
        """First half of stage 3: new tables, with the hit and external prefix adopted (COMMIT-1)."""
        pool = self._pool
        for position, idle in enumerate(adoption.idle):
            if adoption.runs[position]:
                pool.touch_run(idle)
            else:
                pool.touch(adoption.kept[position], idle)
        if self._tails is not None and adoption.sources:
            self._tails.pin_sources(adoption)
        tables = self._tables[request_id] = RequestTables(0)
        tables.blocks, tables.nulls, tables.held = adoption.tables, adoption.nulls, adoption.held
        tables.cached = [len(table) for table in tables.blocks]
        tables.considered = min(tables.cached)
        for table in tables.blocks:
            if tables.held > len(table):
                table += pool.take(tables.held - len(table))
        return tables

    def _grow(self, tables: RequestTables, missing: int) -> Blocks:
        """Second half of stage 3: pops what is missing, group by group (COMMIT-2)."""
        tables.held += missing
        popped: list[tuple[int, ...]] = []
        for table in tables.blocks:
            if missing == 1:
                block = self._pool.take_one()
                table.append(block)
                popped.append((block,))
            else:
                blocks = self._pool.take(missing)
                table += blocks
                popped.append(tuple(blocks))
        return tuple(popped)

    def _commit(self, request: Request, tables: RequestTables, num_tokens: int) -> None:
        """Stage 4: keys the full blocks of the finalized tokens among the first `num_tokens` (HASH-1, HASH-2).

        Works out, then, how far calls can reach before a pop, a key or a release is due.
        """
        size = self._block_size
        quiet = tables.held * size
        if self._caching:
            due = (tables.considered + 1) * size
            final = len(request.token_ids)
            if num_tokens >= due and final >= due:
                self._key(request, tables, (num_tokens if num_tokens < final else final) // size)
                due = (tables.considered + 1) * size
            if due <= quiet:
                quiet = due - 1
        if self._windows:
            quiet = min(quiet, *(group.release_point(tables.nulls[position]) for position, group in self._windows))
        tables.quiet_until = quiet if quiet < self._max_model_len else self._max_model_len

    def _key(self, request: Request, tables: RequestTables, full: int) -> None:
        """Gives the first `full` blocks of every table their keys, as far as that was not considered before."""
        cached = tables.cached
        if cached is None:
            cached = tables.cached = [0] * self._num_groups
        tables.considered = full
        for position, table in enumerate(tables.blocks):
            start = cached[position]
            if full > start:
                cached[position] = full
                self._pool.store_keys(request, table, start, full, position)

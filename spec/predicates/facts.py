"""What the laws count about one `allocate_slots`, in their own arithmetic."""

from dataclasses import dataclass
from functools import cached_property

from slotproof.spec.admission import Call
from slotproof.spec.config import FreeOrder
from slotproof.spec.groups import Group, SlidingWindow
from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.request import Request, Status
from slotproof.spec.snapshot import Copy, Snapshot

Entries = tuple[int, ...]


def up(tokens: int, block_size: int) -> int:
    """Blocks that hold the tokens."""
    return -(-tokens // block_size)


def num_behind_window(group: Group, settled: int) -> int:
    """Entries i with (i + 1) · block_size <= max(0, settled - window + 1)."""
    if not isinstance(group, SlidingWindow):
        return 0
    return max(0, settled - group.window + 1) // group.block_size


def read_by_hit(group: Group, length: int) -> int:
    """Blocks at the end of a hit that the group reads."""
    if not isinstance(group, SlidingWindow):
        return length
    return min(length, up(group.window - 1, group.block_size))


def tables_of(snapshot: Snapshot, request_id: str) -> tuple[Entries, ...]:
    """The entries a request holds, a group."""
    return tuple(table.entries for table in snapshot.holding(request_id).tables)


def queue_after(snapshot: Snapshot, queue: Entries, run: list[int]) -> Entries:
    """The free queue after one run of blocks was released, by FREE-1."""
    pool = snapshot.pool
    freed = [block for block in run if block != NULL_BLOCK and pool.ref(block) == 1]
    if snapshot.config.free_order == FreeOrder.LRU:
        return (*queue, *freed)
    keyless = [block for block in freed if pool.key_of(block) == NO_KEY]
    keyed = [block for block in freed if pool.key_of(block) != NO_KEY]
    return (*keyless, *queue, *keyed)


def parts_held(snapshot: Snapshot, request: Request, tokens: int) -> dict[tuple[int, int], tuple[int, ...]]:
    """The keys of the prefixes, at a finer hash granularity, that the first `tokens` tokens end inside each block, by
    group and entry.
    """
    if not request.part_keys:
        return {}
    bs, num_groups = snapshot.config.block_size, len(snapshot.config.groups)
    return {
        (number, index): tuple(
            key * num_groups + number
            for place, key in enumerate(keys, start=1)
            if index * bs + place * snapshot.config.hash_unit <= tokens
        )
        for number in range(num_groups)
        for index, keys in enumerate(request.part_keys)
    }


@dataclass(frozen=True)
class AllocationFacts:
    """Everything the laws compare about a call; block and token counts."""

    before: Snapshot
    call: Call
    accepted: bool
    after: Snapshot

    @cached_property
    def block_size(self) -> int:
        return self.before.config.block_size

    @cached_property
    def adopting(self) -> bool:
        """Whether the call brings hit or external tokens."""
        return self.call.hit.num_tokens + self.call.num_external_computed_tokens > 0

    @cached_property
    def computed(self) -> int:
        """Tokens that need no computing: computed + hit + external."""
        call = self.call
        return call.request.num_computed_tokens + call.hit.num_tokens + call.num_external_computed_tokens

    @cached_property
    def final(self) -> int:
        """m = min(computed + hit + external + new, num_tokens)."""
        return min(self.computed + self.call.num_new_tokens, self.call.request.num_tokens)

    @cached_property
    def slots(self) -> int:
        """min(computed + hit + external + new + lookahead, max_model_len)."""
        wanted = self.computed + self.call.num_new_tokens + self.call.num_lookahead_tokens
        return min(wanted, self.before.config.max_model_len)

    @cached_property
    def old(self) -> tuple[Entries, ...]:
        """The request's entries before the call."""
        return tables_of(self.before, self.call.request.request_id)

    @cached_property
    def new(self) -> tuple[Entries, ...]:
        """The request's entries after the call."""
        return tables_of(self.after, self.call.request.request_id)

    @cached_property
    def released_tables(self) -> tuple[Entries, ...]:
        """The entries after stage 1: null where no token will read again (SKIP-1)."""
        settled = max(0, self.computed - self.call.request.num_in_flight_tokens)
        return tuple(
            (NULL_BLOCK,) * min(num_behind_window(group, settled), len(entries))
            + entries[num_behind_window(group, settled) :]
            for group, entries in zip(self.before.config.groups, self.old, strict=True)
        )

    @cached_property
    def released_runs(self) -> list[list[int]]:
        """The blocks stage 1 gives back, a group, last entry first."""
        return [
            [block for block, kept in zip(old[::-1], now[::-1], strict=True) if block != kept]
            for old, now in zip(self.old, self.released_tables, strict=True)
        ]

    @cached_property
    def released_queue(self) -> Entries:
        """The free queue after stage 1."""
        queue = self.before.pool.queue
        for run in self.released_runs:
            queue = queue_after(self.before, queue, run)
        return queue

    @cached_property
    def num_released(self) -> int:
        """Blocks that stage 1 makes free."""
        ref = self.before.pool.ref
        return sum(ref(block) == 1 for run in self.released_runs for block in run)

    @cached_property
    def free(self) -> int:
        """Free blocks after stage 1."""
        return self.before.pool.num_free() + self.num_released

    @cached_property
    def skipped(self) -> list[int]:
        """Leading blocks, a group, that the next token does not read."""
        return [num_behind_window(group, self.computed) for group in self.before.config.groups]

    @cached_property
    def hits(self) -> list[int]:
        """The hit blocks that are adopted, and those that are copied from."""
        adopted = [
            block
            for skipped, blocks in zip(self.skipped, self.call.hit.blocks, strict=True)
            for block in blocks[skipped:]
            if block != NULL_BLOCK
        ]
        return [*adopted, *self.call.hit.tails]

    @cached_property
    def copies(self) -> tuple[Copy, ...]:
        """What must be copied before the step: into the first block, a group, behind the hit's whole blocks."""
        index = self.call.hit.num_tokens // self.block_size
        return tuple(
            Copy(source, entries[index]) for source, entries in zip(self.call.hit.tails, self.new, strict=False)
        )

    @cached_property
    def num_idle(self) -> int:
        """Those of the hits that stood in the free queue."""
        return sum(self.before.pool.ref(block) == 0 for block in self.hits)

    @cached_property
    def watermark(self) -> int:
        """The watermark that applies to this call (ADMIT-2)."""
        enters = self.call.request.status in (Status.WAITING, Status.PREEMPTED)
        return self.before.config.watermark_blocks if enters and self.call.has_scheduled_reqs else 0

    def missing(self, required: list[int]) -> int:
        """Sum over groups of max(required - max(skipped, held + hit), 0)."""
        held = [len(old) + len(hit) for old, hit in zip(self.old, self.call.hit.blocks, strict=True)]
        return sum(
            max(blocks - max(skipped, present), 0)
            for blocks, skipped, present in zip(required, self.skipped, held, strict=True)
        )

    @cached_property
    def prompt_missing(self) -> int:
        """What stage 0 charges, idle hits left out (ADMIT-1)."""
        return self.missing([self.prompt_blocks(group) for group in self.before.config.groups])

    def prompt_blocks(self, group: Group) -> int:
        """min(ceil(min(num_tokens, max_model_len) / block_size), cap)."""
        config = self.before.config
        blocks = up(min(self.call.request.num_tokens, config.max_model_len), group.block_size)
        if not isinstance(group, SlidingWindow):
            return blocks
        reach = min(group.window - 1 + config.max_in_flight_tokens, config.max_model_len)
        return min(blocks, up(reach, group.block_size) + 1)

    @cached_property
    def step_missing(self) -> int:
        """What stage 2 counts, idle hits left out."""
        return self.missing([up(self.slots, group.block_size) for group in self.before.config.groups])

    def prompt_is_short(self, watermark: int) -> bool:
        """The stage 0 inequality."""
        needed = self.prompt_missing + self.num_idle + watermark
        return self.call.full_sequence_must_fit and needed > self.before.pool.num_free()

    def step_is_short(self, watermark: int) -> bool:
        """The stage 2 inequality."""
        return self.step_missing + self.num_idle + watermark > self.free - self.call.reserved_blocks

    def is_short_without_idle_hits(self) -> bool:
        """Whether the call would be short if idle hits cost nothing."""
        wanted = self.call.full_sequence_must_fit
        prompt = wanted and self.prompt_missing + self.watermark > self.before.pool.num_free()
        return prompt or self.step_missing + self.watermark > self.free - self.call.reserved_blocks

    @cached_property
    def adopted_lengths(self) -> list[int]:
        """The table lengths, a group, before anything is popped."""
        if not self.adopting:
            return [len(entries) for entries in self.old]
        return [max(skip, len(hit)) for skip, hit in zip(self.skipped, self.call.hit.blocks, strict=True)]

    @cached_property
    def loaded_lengths(self) -> list[int]:
        """The table lengths, a group, with blocks for external tokens."""
        loads = self.call.num_external_computed_tokens > 0
        loaded = up(self.computed, self.block_size) if loads else 0
        return [max(length, loaded) for length in self.adopted_lengths]

    @cached_property
    def popped(self) -> Entries:
        """Blocks popped, in the order in which that must happen: for external tokens group by group, then for new
        ones.
        """
        spans = zip(self.new, self.adopted_lengths, self.loaded_lengths, strict=True)
        external, new = zip(
            *((entries[start:middle], entries[middle:]) for entries, start, middle in spans), strict=True
        )
        return tuple(block for part in (*external, *new) for block in part)

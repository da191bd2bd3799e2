"""The laws: an id, one sentence, one predicate. This is the only list; proofs, run-time checks, vectors and messages
refer to it by id. `LAWS` are about an allocator, `SCHEDULER_LAWS` about the scheduler around it.

Words: *m* is min(computed + hit + external + new, num_tokens) of the call, *bs* the block size; a table's entries are
numbered from 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slotproof.spec.predicates import admission, batch, frame, keys, pool, progress, release, scheduling
from slotproof.spec.scheduler.turn import (
    Aborted,
    Arrived,
    CacheReset,
    Happening,
    InputCame,
    LoadDone,
    LoadFailed,
    Processed,
    Scheduled,
    Turn,
)
from slotproof.spec.transition import (
    Allocated,
    Batched,
    Committed,
    Copied,
    Deferred,
    Event,
    Evicted,
    Freed,
    LookedUp,
    Reset,
    Returned,
    Transition,
)

ANY: tuple[type[Event], ...] = (
    Allocated,
    Batched,
    LookedUp,
    Committed,
    Freed,
    Deferred,
    Returned,
    Copied,
    Evicted,
    Reset,
)
GIVEN_BACK: tuple[type[Event], ...] = (Freed, Deferred, Returned, Copied)


@dataclass(frozen=True, slots=True)
class Law:
    """One law. It speaks about transitions of some kinds, and of `allocate_slots` perhaps only about a yes or a no."""

    id: str
    sentence: str
    predicate: Callable[[Transition], str | None]
    about: tuple[type[Event], ...] = (Allocated,)
    answered: bool | None = None
    """True: speaks about accepted calls only; False: about refused ones; None: about both."""
    said: Callable[[Transition], bool] | None = None
    """Whether what it speaks about was said at all, for answers that an allocator need not give."""
    needs: frozenset[str] = frozenset()
    """The facets of a snapshot without which the predicate sees nothing; see `transition.ALL_FACETS`."""

    def speaks_about(self, transition: Transition) -> bool:
        """Whether this kind of step, seen with these facets, is the law's business."""
        event = transition.event
        if not isinstance(event, self.about) or not self.needs <= transition.facets:
            return False
        if self.said is not None and not self.said(transition):
            return False
        return self.answered is None or not isinstance(event, Allocated) or self.answered == (event.answer is not None)

    def objection(self, transition: Transition) -> str | None:
        """What contradicts the law in a step it speaks about, or None."""
        return self.predicate(transition)


def _needs(*facets: str) -> frozenset[str]:
    return frozenset(facets)


LAWS: tuple[Law, ...] = (
    Law(
        "POOL-1",
        "Every block but the null block is in the free queue, once, exactly when its reference count is 0.",
        pool.queued_iff_unreferenced,
        ANY,
        needs=_needs("queue"),
    ),
    Law(
        "POOL-2",
        "A block's reference count is the number of table entries, waiting frees and pins (ends of copies) that name "
        "it.",
        pool.references_are_names,
        ANY,
        needs=_needs("refs"),
    ),
    Law("POOL-3", "The null block is never queued, keyed, counted or handed out.", pool.null_block_is_untouched, ANY),
    Law(
        "POOL-4",
        "Free blocks and held blocks are the usable blocks; usage is 1 - free / usable.",
        pool.free_and_held_are_all,
        ANY,
    ),
    Law(
        "INDEX-1",
        "The index offers block b for key k exactly when b carries k; a block is keyless at the moment it is handed "
        "out, and what it offers for copying goes with its key.",
        pool.index_offers_what_blocks_carry,
        ANY,
        needs=_needs("keys"),
    ),
    Law(
        "TABLE-1",
        "A table names no block but null twice; after an accepted call its length is "
        "max(before, hits, ceil(min(computed + hit + external + new + lookahead, max_model_len) / bs)).",
        pool.table_is_long_enough_and_distinct,
        answered=True,
    ),
    Law(
        "TABLE-2",
        "After an accepted call every entry i with (i+1)·bs > m has reference count 1, pins apart, and no key but that "
        "of a computed part: what may still change belongs to one table; a keyed block may be shared before it is "
        "computed, and is written with exactly the content its key says.",
        pool.unfinished_blocks_are_private,
        answered=True,
    ),
    Law(
        "REFUSE-1",
        "A stage 0 refusal changes nothing, a stage 2 refusal exactly what stage 1 alone would; so with full "
        "attention a refusal leaves no trace at all (an empty table entry counts as nothing).",
        admission.refusal_changes_nothing_but_stage_1,
        answered=False,
    ),
    Law(
        "REFUSE-2",
        "A call is refused exactly when it is short by the stage 0 or the stage 2 inequality, also for a need of 0; "
        "equality admits.",
        admission.refused_exactly_when_short,
    ),
    Law(
        "REFUSE-3",
        "'Never' is said exactly when the same call, with the same hit, would still be refused with every other "
        "request gone, all blocks this request does not hold free (its hits idle), nothing reserved and nothing "
        "scheduled.",
        admission.never_means_never,
        answered=False,
        said=admission.says_never_or_not_now,
    ),
    Law(
        "ADMIT-1",
        "Stage 0 charges, per group, max(min(ceil(min(num_tokens, max_model_len) / bs), cap) - max(skipped, held + "
        "hit), 0), plus idle hits and the watermark, against free; neither lookahead nor reserved blocks nor drafts.",
        admission.whole_prompt_is_charged,
    ),
    Law(
        "ADMIT-2",
        "The watermark counts only for waiting or preempted requests while something is scheduled.",
        admission.watermark_counts_for_entering_requests,
    ),
    Law(
        "ADMIT-3",
        "After every accepted call free >= reserved + the watermark that applied to it.",
        admission.reserve_is_left,
        answered=True,
    ),
    Law(
        "COUNT-1",
        "Free after stage 1 - free after the call = counted = popped + idle hits, over all groups; the answer names "
        "the blocks popped for new and lookahead tokens; pops never underflow and the call never raises half-way.",
        admission.what_is_counted_is_taken,
        answered=True,
    ),
    Law("COUNT-2", "Idle hits are charged, held hits are free.", admission.idle_hits_are_charged, answered=True),
    Law(
        "COUNT-3",
        "One new token at unchanged lookahead needs at most one block a group, and none off a block boundary.",
        admission.one_token_needs_at_most_one_block,
        answered=True,
    ),
    Law(
        "COMMIT-1",
        "All hits of all groups, sources of copies too, are pinned before any block is popped; no hit block is popped.",
        admission.hits_are_pinned,
        answered=True,
    ),
    Law(
        "COMMIT-2",
        "Popped blocks come from the front of the queue in order, for external tokens first and group by group; only "
        "they lose keys.",
        admission.blocks_come_from_the_front,
        needs=_needs("queue"),
    ),
    Law(
        "COMMIT-3",
        "Nothing else changes: other requests' tables and counters, deferred frees, other blocks, other keys.",
        frame.nothing_else_changes,
        (Allocated, Committed, Freed, Deferred, Returned, Copied),
    ),
    Law(
        "HASH-1",
        "No block whose content includes a token that is not finalized ever gets a key, but that of a part which ends "
        "before it; no part that is not computed is offered for copying.",
        keys.only_finalized_tokens_have_keys,
        (Allocated, Committed),
        needs=_needs("keys"),
    ),
    Law(
        "HASH-2",
        "After an accepted, undelayed call every non-null entry i with (i+1)·bs <= m at or behind the cached counter "
        "carries its key; the counter never goes down; after delayed calls the first commit or undelayed call catches "
        "up; after a commit every keyed block offers its computed parts at the hash granularity.",
        keys.full_blocks_have_their_keys,
        (Allocated, Committed),
        needs=_needs("keys", "counters"),
    ),
    Law(
        "HASH-3",
        "Runs that differ only in draft ids end in equal snapshots; how many drafts there are, or lookahead, never "
        "changes which keys a call adds.",
        keys.drafts_decide_nothing,
        answered=True,
        needs=_needs("keys"),
    ),
    Law(
        "SKIP-1",
        "After stage 1 entry i of a window group is null exactly when (i+1)·bs <= max(0, s - W + 1), where s = "
        "computed - in flight is the shortest length the request may settle at; on adoption nulls are placed by s = "
        "hit + external.",
        admission.window_is_released_exactly,
    ),
    Law(
        "FREE-1",
        "Free releases each entry once, per group in group order, tail to head; of the blocks that reach 0 the "
        "keyless ones go as one run to the front (tail first), the keyed ones to the back; a deferred free does so "
        "over the reversed concatenation of all groups; 'lru': all to the back; keys survive.",
        release.freed_blocks_are_queued_in_order,
        GIVEN_BACK,
    ),
    Law(
        "FREE-2",
        "Freeing a request that holds nothing, or twice, changes nothing.",
        release.unknown_requests_free_nothing,
        (Freed, Deferred),
    ),
    Law(
        "EVICT-1",
        "Evict removes the keys of the blocks named and changes no table, count or order.",
        release.eviction_removes_keys_only,
        (Evicted,),
        needs=_needs("keys"),
    ),
    Law(
        "LOOKUP-1",
        "A lookup changes nothing and returns the longest valid hit of at most num_tokens - 1 tokens, the same length "
        "in every group; a hit is valid if its blocks hold the content of exactly that prefix. At a finer hash "
        "granularity it ends in the longest part of the next block that every group offers.",
        keys.lookup_finds_the_longest_valid_hit,
        (LookedUp,),
        needs=_needs("keys"),
    ),
    Law(
        "RESET-1",
        "Reset succeeds exactly when nothing is held, and then nothing is offered; the queue order stays.",
        release.reset_empties_the_index_when_nothing_is_held,
        (Reset,),
    ),
    Law("LEAK-1", "When every request has been freed, free = usable.", pool.nothing_leaks, ANY),
    Law(
        "ISO-1",
        "Requests with different salts or extra keys never share a block; equal ones do.",
        pool.sharing_requests_have_equal_salts,
        answered=True,
    ),
    Law(
        "EVENT-1",
        "The events replayed as a multiset give the index.",
        keys.events_replay_to_the_index,
        ANY,
        said=keys.emits_events,
        needs=_needs("keys"),
    ),
    Law(
        "BATCH-1",
        "A batched decode allocation equals the fold of the single call over its rows up to the first refusal; later "
        "rows are untouched.",
        batch.batch_is_the_fold,
        (Batched,),
    ),
    Law(
        "MEM-2",
        "A fresh block of a group that needs clearing is cleared, and a copy made, before the first read or write that "
        "could see old data; loaded data is never cleared; what is copied is the end of a hit, into the request's own "
        "block, and nothing else.",
        admission.copies_are_due,
        answered=True,
        said=admission.says_what_is_copied,
    ),
    Law(
        "CAN-1",
        "can_allocate says yes exactly when allocate_slots then succeeds.",
        admission.foretold_is_true,
        said=admission.foretells,
    ),
)

ANY_TURN: tuple[type[Happening], ...] = (
    Arrived,
    Scheduled,
    Processed,
    LoadDone,
    LoadFailed,
    InputCame,
    Aborted,
    CacheReset,
)


@dataclass(frozen=True, slots=True)
class SchedulerLaw:
    """One law about a scheduler. It speaks about turns of some kinds, and perhaps about cycles of them."""

    id: str
    sentence: str
    predicate: Callable[[Turn], str | None]
    about: tuple[type[Happening], ...] = (Scheduled,)
    of_cycle: Callable[[Sequence[Turn]], str | None] | None = None

    def objection(self, turn: Turn) -> str | None:
        """What contradicts the law in a turn, or None."""
        return self.predicate(turn) if isinstance(turn.event, self.about) else None


SCHEDULER_LAWS: tuple[SchedulerLaw, ...] = (
    SchedulerLaw(
        "SCHED-1",
        "What a step schedules is within the token budget and is running; the tokens, drafts and blocks of a victim "
        "are withdrawn from the step.",
        scheduling.step_is_within_its_limits,
    ),
    SchedulerLaw(
        "SCHED-2",
        "A refusal in the running pass preempts and retries, or stops the pass; there are at most as many preemptions "
        "as requests were running, each one frees every block that only the victim held, at once, and nobody is "
        "preempted more often than there are other requests while none ends.",
        scheduling.refusals_preempt_and_retry_or_stop,
    ),
    SchedulerLaw(
        "SCHED-3",
        "A refusal in the waiting pass leaves the request's status, computed count and table (up to stage 1) and the "
        "queue's order as they are, and ends the pass unless the policy skips.",
        scheduling.refused_requests_stay_as_they_are,
    ),
    SchedulerLaw(
        "SCHED-4",
        "Every block that a lookup can find holds the content its key says, or a step in flight owes it: no prefix is "
        "poisoned.",
        scheduling.findable_blocks_are_computed_or_owed,
        ANY_TURN,
    ),
    SchedulerLaw(
        "SCHED-5",
        "Work that fits is done, and work that never fits, and no other, ends in an error: no fair run leaves a "
        "request waiting for ever, and a step notices every load that is done.",
        scheduling.loads_are_noticed_and_errors_are_due,
        of_cycle=progress.nobody_starves,
    ),
    SchedulerLaw(
        "SCHED-6",
        "A refused request is overtaken a bounded number of times by requests that come after it in the policy's "
        "order.",
        scheduling.refused_heads_are_overtaken_seldom,
    ),
    SchedulerLaw(
        "MEM-1",
        "Every token that a step reads, from a hit, a load or its own earlier steps, is what computing that request's "
        "prefix gives.",
        scheduling.steps_read_what_was_computed,
        (Processed,),
    ),
    SchedulerLaw(
        "MEM-3",
        "No two live tokens of a step are written to one slot.",
        scheduling.live_tokens_have_slots_of_their_own,
    ),
)

ALL_LAWS: tuple[Law | SchedulerLaw, ...] = (*LAWS, *SCHEDULER_LAWS)

BY_ID: dict[str, Law | SchedulerLaw] = {law.id: law for law in ALL_LAWS}

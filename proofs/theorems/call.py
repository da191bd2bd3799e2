"""Theorems about the whole of `allocate_slots`."""

from typing import Any

from slotproof.proofs.operations import Broken, Step
from slotproof.proofs.scope import Scope, negated
from slotproof.proofs.shapes import ASKING, OTHER
from slotproof.proofs.theorem import about
from slotproof.proofs.theorems.vocabulary import (
    adopted_length,
    adopted_tokens,
    after,
    all_of,
    any_of,
    behind_window,
    blocks_for,
    blocks_of,
    call_of,
    computed,
    count,
    final,
    free_then,
    groups_of,
    hits,
    idle,
    if_else,
    is_accepted,
    is_refused,
    least,
    loaded_length,
    most,
    new,
    old,
    popped,
    prompt_is_short,
    prompt_missing,
    queue_behind,
    released,
    same,
    settled,
    skipped,
    slots,
    step_is_short,
    step_missing,
    total,
    watermark,
)
from slotproof.proofs.worlds import ADMIT
from slotproof.spec.admission import Reason
from slotproof.spec.groups import FullAttention
from slotproof.spec.keys import block_key
from slotproof.spec.pool import NO_KEY, NULL_BLOCK


@about(ADMIT, "REFUSE-1", "A stage 0 refusal changes nothing: the snapshot after it is the one before.")
def a_whole_prompt_refusal_leaves_no_trace(s: Scope, step: Step) -> None:
    if is_refused(step) and step.result.reason == Reason.WHOLE_PROMPT:
        s.prove(after(step) is step.before)


@about(ADMIT, "REFUSE-1", "With full attention any refusal leaves no trace: the snapshot after it is the one before.")
def with_full_attention_a_refusal_leaves_no_trace(s: Scope, step: Step) -> None:
    if is_refused(step) and all(isinstance(group, FullAttention) for group in step.before.config.groups):
        s.prove(after(step) is step.before)


@about(ADMIT, "REFUSE-1", "A stage 2 refusal leaves exactly what stage 1 alone does, and no key or counter changes.")
def a_step_refusal_leaves_what_stage_1_does(s: Scope, step: Step) -> None:
    if not is_refused(step) or step.result.reason != Reason.STEP:
        return
    before, now = step.before.pool, after(step).pool
    gone = dict(entry for number in groups_of(step) for entry in released(step, number))
    for block in blocks_of(step):
        drop = count(gone[block]) if block in gone else 0
        s.prove(now.ref(block) == before.ref(block) - drop)
        s.prove(now.key_of(block) == before.key_of(block))
    s.prove(now.num_free() == free_then(step))
    s.prove(after(step).holding(ASKING).cached == step.before.holding(ASKING).cached)
    s.prove(after(step).holdings.get(OTHER) is step.before.holdings.get(OTHER))
    s.prove(after(step).waiting_frees is step.before.waiting_frees)
    for number in groups_of(step):
        s.prove(all_of(entries_after_stage_1(step, number)))


def entries_after_stage_1(step: Step, number: int) -> list[Any]:
    """Of a refused call: each old entry is null where no token reads again, and itself elsewhere."""
    behind = behind_window(step.before.config.groups[number], settled(call_of(step)))
    before, now = old(step, number).entries, new(step, number).entries
    if len(before) != len(now):
        return [False]
    return [now[place] == if_else(place < behind, NULL_BLOCK, block) for place, block in enumerate(before)] or [True]


@about(ADMIT, "REFUSE-2", "A call is refused exactly if the whole prompt, where that is asked, or the step is short.")
def refused_exactly_when_short(s: Scope, step: Step) -> None:
    if is_accepted(step):
        s.prove(negated(prompt_is_short(step)))
        s.prove(negated(step_is_short(step)))
    elif is_refused(step):
        asked_first = step.result.reason == Reason.WHOLE_PROMPT
        s.prove(prompt_is_short(step) if asked_first else step_is_short(step))
        s.prove(asked_first or negated(prompt_is_short(step)))


@about(ADMIT, "REFUSE-3", "A refusal says 'never' exactly if the call would be short with the pool to itself.")
def never_means_alone_in_the_pool_too(s: Scope, step: Step) -> None:
    if not is_refused(step):
        return
    usable = step.before.config.num_blocks - 1
    wanted = total(count(adopted) for _, adopted in hits(step))
    held = [entry for number in groups_of(step) for entry in released(step, number)]
    kept = total(count(negated(gone)) for _, gone in held)
    prompt = call_of(step).full_sequence_must_fit & (prompt_missing(step) + wanted > usable - len(held))
    s.prove(step.result.never == (prompt | (step_missing(step) + wanted > usable - kept)))


@about(ADMIT, "ADMIT-1", "Stage 0 charges, per group, what the finalized tokens need, at most the cap, and idle hits.")
def the_whole_prompt_is_charged(s: Scope, step: Step) -> None:
    if is_refused(step) and step.result.reason == Reason.WHOLE_PROMPT:
        s.prove(step.result.needed == prompt_missing(step) + idle(step))
        s.prove(step.result.free == step.before.pool.num_free())
        s.prove(step.result.reserved == 0)


@about(ADMIT, "ADMIT-2", "The watermark counts exactly for who enters, or enters again, while something is scheduled.")
def the_watermark_counts_for_who_enters(s: Scope, step: Step) -> None:
    if is_refused(step):
        s.prove(step.result.watermark == watermark(step))


@about(ADMIT, "ADMIT-3", "An accepted call leaves the reserve and its watermark free.")
def an_accepted_call_leaves_the_reserve(s: Scope, step: Step) -> None:
    if is_accepted(step):
        s.prove(after(step).pool.num_free() >= call_of(step).reserved_blocks + watermark(step))


@about(ADMIT, "COUNT-1", "A call never pops from an empty queue and never raises half-way.")
def a_call_never_raises_half_way(s: Scope, step: Step) -> None:
    s.prove(not isinstance(step.result, Broken))


@about(ADMIT, "COUNT-1", "An accepted call takes what was counted: the blocks popped and the idle hits.")
def what_is_counted_is_taken(s: Scope, step: Step) -> None:
    if is_accepted(step):
        taken = free_then(step) - after(step).pool.num_free()
        s.prove(taken == step_missing(step) + idle(step))
        s.prove(taken == total(count(fresh) for _, fresh in popped(step)) + idle(step))


@about(ADMIT, "COUNT-1", "The answer names the blocks popped for new and lookahead tokens, in the table's order.")
def the_answer_names_what_was_popped_for_new_tokens(s: Scope, step: Step) -> None:
    if is_accepted(step):
        for number in groups_of(step):
            entries, answered = new(step, number).entries, step.result.new_blocks[number]
            s.prove(loaded_length(step, number) == len(entries) - len(answered))
            s.prove(same(entries[len(entries) - len(answered) :], answered))


@about(ADMIT, "COUNT-1", "A stage 2 refusal counted what the step lacks and the idle hits, against free after stage 1.")
def a_refusal_says_what_was_counted(s: Scope, step: Step) -> None:
    if is_refused(step) and step.result.reason == Reason.STEP:
        s.prove(step.result.needed == step_missing(step) + idle(step))
        s.prove(step.result.free == free_then(step))
        s.prove(step.result.reserved == call_of(step).reserved_blocks)


@about(ADMIT, "COUNT-2", "Of the hits exactly the idle ones take a free block.")
def idle_hits_are_charged_held_ones_are_free(s: Scope, step: Step) -> None:
    if is_accepted(step):
        left = after(step).pool.num_free() + total(count(fresh) for _, fresh in popped(step))
        s.prove(left == free_then(step) - idle(step))


@about(ADMIT, "COUNT-3", "One new token takes at most one block a group, and none off a block boundary.")
def one_token_takes_at_most_one_block(s: Scope, step: Step) -> None:
    call = call_of(step)
    if not is_accepted(step):
        return
    s.assume((call.num_new_tokens == 1) & (adopted_tokens(call) == 0))
    covered = least(computed(call) + call.num_lookahead_tokens, step.before.config.max_model_len)
    for number, group in enumerate(step.before.config.groups):
        grown = new(step, number).length - old(step, number).length
        enough = old(step, number).length * group.block_size >= covered
        s.prove(negated(enough) | (grown <= count(covered % group.block_size == 0)))


@about(ADMIT, "COMMIT-1", "Each adopted hit has one reference more and is not queued, and is not popped.")
def every_adopted_hit_is_pinned(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    now = after(step).pool
    for block, adopted in hits(step):
        pinned = (now.ref(block) == step.before.pool.ref(block) + 1) & (block not in now.queue)
        s.prove(negated(adopted) | pinned)
        s.prove(negated(adopted & any_of(fresh for one, fresh in popped(step) if one == block)))


@about(ADMIT, "COMMIT-1", "A table begins with null for what the window skips, and then with the hit.")
def a_table_begins_with_its_hit(s: Scope, step: Step) -> None:
    if not is_accepted(step) or not adopted_tokens(call_of(step)) > 0:
        return
    for number in groups_of(step):
        entries, hit = new(step, number).entries, call_of(step).hit.blocks[number]
        for place, block in enumerate(entries):
            found = hit[place] if place < len(hit) else block
            null = place < skipped(step, number)
            s.prove(block == if_else(null, NULL_BLOCK, found))
            s.prove(null | (place < len(hit)) | (block != NULL_BLOCK))


@about(ADMIT, "COMMIT-2", "Popped blocks come from the front of the queue in order; a refusal pops none.")
def pops_come_from_the_front_in_order(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    s.assume(all_of(negated(gone) for number in groups_of(step) for _, gone in released(step, number)))
    wanted = {block for block, adopted in hits(step) if adopted}
    queue = [block for block in step.before.pool.queue if block not in wanted]
    fresh = pop_order(step)
    s.prove(same(fresh, queue[: len(fresh)]))
    s.prove(same(after(step).pool.queue, queue[len(fresh) :]))


def pop_order(step: Step) -> list[int]:
    """The popped blocks: for external tokens group by group, then for new ones."""
    external: list[int] = []
    fresh: list[int] = []
    for number in groups_of(step):
        entries, answered = new(step, number).entries, step.result.new_blocks[number]
        loaded = len(entries) - len(answered)
        start = next(place for place in range(loaded + 1) if adopted_length(step, number) == place)
        external += entries[start:loaded]
        fresh += answered
    return [*external, *fresh]


@about(ADMIT, "COMMIT-2", "Only popped blocks lose their keys.")
def only_popped_blocks_lose_their_keys(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    fresh = dict(popped(step))
    for block in blocks_of(step):
        kept = after(step).pool.key_of(block) == step.before.pool.key_of(block)
        given = after(step).pool.key_of(block) != NO_KEY
        s.prove(kept | given | fresh.get(block, False))


@about(ADMIT, "COMMIT-3", "No other request's table or counter, no deferred free and no other block changes.")
def nothing_else_changes(s: Scope, step: Step) -> None:
    if isinstance(step.result, Broken):
        return
    s.prove(after(step).holdings.get(OTHER) is step.before.holdings.get(OTHER))
    s.prove(set(after(step).holdings) - {ASKING} == set(step.before.holdings) - {ASKING})
    s.prove(after(step).waiting_frees is step.before.waiting_frees)
    s.prove(after(step).config is step.before.config)
    own = {block for number in groups_of(step) for block in (*old(step, number).entries, *new(step, number).entries)}
    for block in blocks_of(step):
        if block not in own:
            s.prove(after(step).pool.ref(block) == step.before.pool.ref(block))
            s.prove(after(step).pool.key_of(block) == step.before.pool.key_of(block))
            s.prove((block in after(step).pool.queue) == (block in step.before.pool.queue))


@about(
    ADMIT, "HASH-1", "A block gets a key only for an entry that finalized and computed tokens fill: drafts get none."
)
def draft_tokens_never_get_hashes(s: Scope, step: Step) -> None:
    if isinstance(step.result, Broken):
        return
    filled = {
        block: (place + 1) * group.block_size <= final(call_of(step))
        for number, group in enumerate(step.before.config.groups)
        for place, block in enumerate(new(step, number).entries)
        if block != NULL_BLOCK
    }
    for block in blocks_of(step):
        key = after(step).pool.key_of(block)
        s.prove((key == step.before.pool.key_of(block)) | (key == NO_KEY) | filled.get(block, False))


@about(ADMIT, "HASH-2", "Every entry that becomes full, at or behind the counter, carries its own key.")
def every_full_block_gets_its_key(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    s.assume(step.before.config.caching & negated(call_of(step).delay_cache_blocks))
    for number, group in enumerate(step.before.config.groups):
        start = counter_then(step, number)
        for place, block in enumerate(new(step, number).entries):
            due = ((place + 1) * group.block_size <= final(call_of(step))) & (place >= start)
            key = block_key(call_of(step).request.prefix_key(place), number, len(groups_of(step)))
            if block != NULL_BLOCK:
                s.prove(negated(due) | (after(step).pool.key_of(block) == key))


def counter_then(step: Step, number: int) -> Any:
    """The cached counter before keys are given: of an adopted hit all entries are considered."""
    adopts = adopted_tokens(call_of(step)) > 0
    return if_else(adopts, adopted_length(step, number), step.before.holding(ASKING).cached[number])


@about(ADMIT, "HASH-2", "The counter moves to the last entry that is full, never down, and not at all if keys wait.")
def the_counter_follows_what_is_full(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    gives = step.before.config.caching & negated(call_of(step).delay_cache_blocks)
    for number, group in enumerate(step.before.config.groups):
        start = counter_then(step, number)
        full = final(call_of(step)) // group.block_size
        s.prove(after(step).holding(ASKING).cached[number] == if_else(gives, most(start, full), start))


@about(ADMIT, "HASH-2", "Without caching, or while keys wait, a call adds no key.")
def keys_wait_while_they_are_delayed(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    s.assume(call_of(step).delay_cache_blocks | negated(step.before.config.caching))
    for block in blocks_of(step):
        key = after(step).pool.key_of(block)
        s.prove((key == step.before.pool.key_of(block)) | (key == NO_KEY))


@about(ADMIT, "SKIP-1", "After stage 1 an old entry is null exactly if no token reads it again.")
def exactly_what_the_window_left_is_null(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    for number in groups_of(step):
        behind = behind_window(step.before.config.groups[number], settled(call_of(step)))
        entries = new(step, number).entries
        for place, block in enumerate(old(step, number).entries):
            s.prove(entries[place] == if_else(place < behind, NULL_BLOCK, block))


@about(ADMIT, "SKIP-1", "What stage 1 gives back loses one reference, keeps its key, and is queued if it was the last.")
def what_the_window_left_is_released(s: Scope, step: Step) -> None:
    if not is_refused(step) or step.result.reason != Reason.STEP:
        return
    for number in groups_of(step):
        for block, gone in released(step, number):
            last = step.before.pool.ref(block) == 1
            s.prove(negated(gone) | ((block in after(step).pool.queue) == last))


@about(ADMIT, "FREE-1", "What stage 1 frees is queued tail first, keyless blocks in front and keyed ones behind.")
def stage_1_queues_in_order(s: Scope, step: Step) -> None:
    if is_refused(step) and step.result.reason == Reason.STEP:
        runs = [[block for block, gone in reversed(released(step, number)) if gone] for number in groups_of(step)]
        s.prove(same(after(step).pool.queue, queue_behind(step, runs)))


@about(ADMIT, "TABLE-1", "A table is as long as its tokens and hits need, and no shorter than before.")
def a_table_is_exactly_long_enough(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    for number, group in enumerate(step.before.config.groups):
        due = most(adopted_length(step, number), blocks_for(slots(step), group.block_size))
        s.prove(new(step, number).length == most(old(step, number).length, due))


@about(ADMIT, "TABLE-1", "No table names a block that it, or another group's table, names already.")
def no_block_is_named_twice(s: Scope, step: Step) -> None:
    if isinstance(step.result, Broken):
        return
    named = [block for number in groups_of(step) for block in new(step, number).entries if block != NULL_BLOCK]
    s.prove(len(named) == len(set(named)))


@about(ADMIT, "TABLE-2", "What may still change stays private and keyless: an entry with a token that is not final.")
def unfinished_entries_are_private(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    before = step.before.pool
    for number, group in enumerate(step.before.config.groups):
        for place, block in enumerate(old(step, number).entries):
            done = least(call_of(step).request.num_computed_tokens, call_of(step).request.num_tokens)
            private = (before.ref(block) == 1) & (before.key_of(block) == NO_KEY)
            if block != NULL_BLOCK:
                s.assume(((place + 1) * group.block_size <= done) | private)
    for number, group in enumerate(step.before.config.groups):
        for place, block in enumerate(new(step, number).entries):
            private = (after(step).pool.ref(block) == 1) & (after(step).pool.key_of(block) == NO_KEY)
            if block != NULL_BLOCK:
                s.prove(((place + 1) * group.block_size <= final(call_of(step))) | private)


@about(ADMIT, "POOL-1", "A block is in the queue, once, exactly if nobody holds it.")
def a_call_keeps_the_queue_right(s: Scope, step: Step) -> None:
    if isinstance(step.result, Broken):
        return
    now = after(step).pool
    for block in blocks_of(step):
        s.prove((now.ref(block) == 0) == (now.queue.count(block) == 1))
        s.prove(now.ref(block) >= 0)


@about(ADMIT, "POOL-2", "References move by as many as the request's tables name the block more or less often.")
def references_follow_the_tables(s: Scope, step: Step) -> None:
    if isinstance(step.result, Broken):
        return
    for block in blocks_of(step):
        named = [
            sum(entries.count(block) for entries in (side(step, number).entries for number in groups_of(step)))
            for side in (old, new)
        ]
        s.prove(after(step).pool.ref(block) - step.before.pool.ref(block) == named[1] - named[0])


@about(ADMIT, "POOL-3", "The null block is never queued, keyed, counted or handed out.")
def the_null_block_stays_apart(s: Scope, step: Step) -> None:
    if isinstance(step.result, Broken):
        return
    now = after(step).pool
    s.prove((now.ref(NULL_BLOCK) == 0) & (now.key_of(NULL_BLOCK) == NO_KEY) & (NULL_BLOCK not in now.queue))
    if is_accepted(step):
        s.prove(all(NULL_BLOCK not in blocks for blocks in step.result.new_blocks))


@about(ADMIT, "POOL-4", "Free and held blocks are the usable blocks.")
def free_and_held_are_all(s: Scope, step: Step) -> None:
    if isinstance(step.result, Broken):
        return
    held = total(count(after(step).pool.ref(block) > 0) for block in blocks_of(step))
    s.prove(after(step).pool.num_free() + held == step.before.config.num_blocks - 1)


@about(ADMIT, "INDEX-1", "A block that is handed out is keyless, but for the key of its own entry.")
def a_block_is_handed_out_keyless(s: Scope, step: Step) -> None:
    if not is_accepted(step):
        return
    for number in groups_of(step):
        for place, block in enumerate(new(step, number).entries):
            key = after(step).pool.key_of(block)
            own = block_key(call_of(step).request.prefix_key(place), number, len(groups_of(step)))
            fresh = adopted_length(step, number) <= place
            if block != NULL_BLOCK:
                s.prove(negated(fresh) | (key == NO_KEY) | (key == own))

"""REFUSE, ADMIT, COUNT, COMMIT, SKIP, CAN: what an `allocate_slots` may and must do."""

from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.predicates.facts import AllocationFacts
from slotproof.spec.snapshot import Copy
from slotproof.spec.transition import Allocated, Transition, held_tables


def refusal_changes_nothing_but_stage_1(t: Transition) -> str | None:
    """REFUSE-1."""
    facts = t.allocation
    if facts.accepted:
        return None
    if facts.prompt_is_short(facts.watermark) or not any(facts.released_runs):
        return t.changed()
    expected = held_tables(t.before)
    expected[facts.call.request.request_id] = facts.released_tables
    if held_tables(t.after) != expected:
        return f"tables are {held_tables(t.after)}; stage 1 alone leaves {expected}"
    if t.after.pool.num_free() != facts.free:
        return f"{t.after.pool.num_free()} blocks are free; stage 1 alone leaves {facts.free}"
    if "queue" in t.facets and sorted(t.after.pool.queue) != sorted(facts.released_queue):
        return f"the queue holds {sorted(t.after.pool.queue)}; stage 1 alone leaves {sorted(facts.released_queue)}"
    return t.changed(("keys", "counters", "parts", "copies"))


def refused_exactly_when_short(t: Transition) -> str | None:
    """REFUSE-2."""
    facts = t.allocation
    prompt, step = facts.prompt_is_short(facts.watermark), facts.step_is_short(facts.watermark)
    if facts.accepted == (prompt or step):
        return f"{'accepted' if facts.accepted else 'refused'}; {inequalities(facts)}"
    return None


def inequalities(facts: AllocationFacts) -> str:
    """Both questions with their numbers."""
    idle, watermark, reserved = facts.num_idle, facts.watermark, facts.call.reserved_blocks
    prompt = f"whole prompt: {facts.prompt_missing} + {idle} idle + {watermark} > {facts.before.pool.num_free()}"
    step = f"step: {facts.step_missing} + {idle} idle + {watermark} > {facts.free} - {reserved}"
    asked = f"{prompt} is {facts.prompt_is_short(watermark)}; " if facts.call.full_sequence_must_fit else ""
    return f"{asked}{step} is {facts.step_is_short(watermark)}"


def says_never_or_not_now(t: Transition) -> bool:
    """Whether a refusal said if waiting can help."""
    return isinstance(t.event, Allocated) and t.event.never is not None


def never_means_never(t: Transition) -> str | None:
    """REFUSE-3."""
    assert isinstance(t.event, Allocated)
    never = is_refused_alone(t)
    return None if never == t.event.never else f"'never' was said to be {t.event.never}; alone it is {never}"


def is_refused_alone(t: Transition) -> bool:
    """Whether the call would be refused with every other request gone."""
    facts, usable = t.allocation, t.before.config.usable_blocks
    held = sum(block != NULL_BLOCK for entries in facts.old for block in entries)
    kept = sum(block != NULL_BLOCK for entries in facts.released_tables for block in entries)
    prompt = facts.call.full_sequence_must_fit and facts.prompt_missing + len(facts.hits) > usable - held
    return prompt or facts.step_missing + len(facts.hits) > usable - kept


def whole_prompt_is_charged(t: Transition) -> str | None:
    """ADMIT-1: where stage 2 would admit, stage 0 alone decides."""
    facts = t.allocation
    if not facts.call.full_sequence_must_fit or facts.step_is_short(facts.watermark):
        return None
    if facts.accepted == facts.prompt_is_short(facts.watermark):
        return f"{'accepted' if facts.accepted else 'refused'}; {inequalities(facts)}"
    return None


def watermark_counts_for_entering_requests(t: Transition) -> str | None:
    """ADMIT-2: where the watermark alone decides, it counts exactly for who enters while others run."""
    facts, watermark = t.allocation, t.before.config.watermark_blocks
    without = facts.prompt_is_short(0) or facts.step_is_short(0)
    with_it = facts.prompt_is_short(watermark) or facts.step_is_short(watermark)
    if without == with_it:
        return None
    applies = facts.watermark == watermark
    if facts.accepted == applies:
        status, scheduled = facts.call.request.status, facts.call.has_scheduled_reqs
        verb = "accepted" if facts.accepted else "refused"
        return f"{verb} a {status} request with others scheduled: {scheduled}; only the watermark {watermark} decides"
    return None


def reserve_is_left(t: Transition) -> str | None:
    """ADMIT-3."""
    facts, free = t.allocation, t.after.pool.num_free()
    if facts.accepted and free < facts.call.reserved_blocks + facts.watermark:
        return f"{free} blocks are left free; reserved {facts.call.reserved_blocks}, watermark {facts.watermark}"
    return None


def what_is_counted_is_taken(t: Transition) -> str | None:
    """COUNT-1."""
    facts = t.allocation
    if not facts.accepted:
        return None
    taken, counted = facts.free - t.after.pool.num_free(), facts.step_missing + facts.num_idle
    popped = len(facts.popped)
    if not taken == counted == popped + facts.num_idle:
        return f"{taken} blocks left the queue; counted {counted}; popped {popped} and adopted {facts.num_idle} idle"
    assert isinstance(t.event, Allocated)
    answered = t.event.answer
    due = tuple(entries[length:] for entries, length in zip(facts.new, facts.loaded_lengths, strict=True))
    return None if answered == due else f"answered {answered}; the table grew by {due} for new and lookahead tokens"


def idle_hits_are_charged(t: Transition) -> str | None:
    """COUNT-2: of an accepted call by what left the queue; where the idle hits alone decide, by the answer."""
    facts, watermark = t.allocation, t.allocation.watermark
    short = facts.prompt_is_short(watermark) or facts.step_is_short(watermark)
    if facts.accepted and short and not facts.is_short_without_idle_hits():
        return f"accepted although the {facts.num_idle} idle hits make it short; {inequalities(facts)}"
    if not facts.accepted:
        return None
    charged = facts.free - t.after.pool.num_free() - len(facts.popped)
    if charged != facts.num_idle:
        return f"{charged} of the hits {facts.hits} were charged; {facts.num_idle} were idle"
    return None


def one_token_needs_at_most_one_block(t: Transition) -> str | None:
    """COUNT-3."""
    facts = t.allocation
    covered = min(facts.computed + facts.call.num_lookahead_tokens, t.before.config.max_model_len)
    grows = facts.slots > covered and covered % facts.block_size == 0
    if not facts.accepted or facts.adopting or facts.call.num_new_tokens != 1:
        return None
    for number, (old, new) in enumerate(zip(facts.old, facts.new, strict=True)):
        if len(old) * facts.block_size >= covered and len(new) - len(old) > grows:
            return f"group {number}: one new token behind {covered} covered ones took {len(new) - len(old)} blocks"
    return None


def hits_are_pinned(t: Transition) -> str | None:
    """COMMIT-1."""
    facts, pool = t.allocation, t.after.pool
    if not facts.accepted:
        return None
    for block in facts.hits:
        if block in facts.popped:
            return f"hit block {block} was popped by the call that adopts it"
        if pool.ref(block) != t.before.pool.ref(block) + 1:
            return f"hit block {block} went from {t.before.pool.ref(block)} to {pool.ref(block)} references"
    adopted = [entries[:length] for entries, length in zip(facts.new, facts.adopted_lengths, strict=True)]
    for entries, skipped, hit in zip(adopted, facts.skipped, facts.call.hit.blocks, strict=True):
        if facts.adopting and entries != (NULL_BLOCK,) * skipped + hit[skipped:]:
            return f"the table starts with {entries}; the hit is {hit}, of which {skipped} are skipped"
    return None


def blocks_come_from_the_front(t: Transition) -> str | None:
    """COMMIT-2."""
    facts = t.allocation
    if not facts.accepted:
        return refusal_pops_none(t)
    queue = tuple(block for block in facts.released_queue if block not in facts.hits)
    popped = facts.popped
    if popped != queue[: len(popped)]:
        return f"popped {popped} from the queue {queue}"
    if t.after.pool.queue != queue[len(popped) :]:
        return f"the queue is {t.after.pool.queue}; popping {popped} leaves {queue[len(popped) :]}"
    lost = [block for block in t.before.pool.keyed if t.after.pool.key_of(block) == NO_KEY and block not in popped]
    return f"blocks {lost} lost their keys without being popped" if lost and "keys" in t.facets else None


def refusal_pops_none(t: Transition) -> str | None:
    """The end of COMMIT-2: a refusal leaves the queue as stage 1 does, in order."""
    facts = t.allocation
    asked_first = facts.prompt_is_short(facts.watermark)
    queue = t.before.pool.queue if asked_first else facts.released_queue
    return None if t.after.pool.queue == queue else f"the queue is {t.after.pool.queue} after a refusal; {queue} is due"


def window_is_released_exactly(t: Transition) -> str | None:
    """SKIP-1."""
    facts = t.allocation
    if facts.prompt_is_short(facts.watermark) and not facts.accepted:
        return None
    for number, (old, due, new) in enumerate(zip(facts.old, facts.released_tables, facts.new, strict=True)):
        kept = new[: len(old)]
        if kept != due:
            return f"group {number}: the table starts with {kept}; after stage 1 it is {due}"
    if facts.accepted and facts.adopting:
        for number, (skipped, new) in enumerate(zip(facts.skipped, facts.new, strict=True)):
            nulls = sum(block == NULL_BLOCK for block in new)
            if nulls != skipped:
                return f"group {number}: {nulls} null entries on adoption; {skipped} are behind the window"
    return None


def says_what_is_copied(t: Transition) -> bool:
    """Whether an accepted call said which blocks are to be copied."""
    return isinstance(t.event, Allocated) and t.event.copies is not None


def copies_are_due(t: Transition) -> str | None:
    """MEM-2, of the copy list: the end of a hit is copied into the request's own block, and nothing else is."""
    assert isinstance(t.event, Allocated)
    listed, due = t.event.copies, t.allocation.copies
    if listed != due:
        return f"blocks {words(listed or ())} are to be copied; the hit needs {words(due)}"
    return None


def words(copies: tuple[Copy, ...]) -> str:
    """A copy list, readable."""
    return ", ".join(f"{copy.source} to {copy.destination}" for copy in copies) or "none"


def foretells(t: Transition) -> bool:
    """Whether the answer was foretold."""
    return isinstance(t.event, Allocated) and t.event.foretold is not None


def foretold_is_true(t: Transition) -> str | None:
    """CAN-1."""
    assert isinstance(t.event, Allocated)
    if t.event.foretold is None or t.event.foretold == (t.event.answer is not None):
        return None
    return (
        f"can_allocate said {t.event.foretold}; the call was {'accepted' if t.event.answer is not None else 'refused'}"
    )

"""One `allocate_slots` stage by stage: every number, taken from the specification's own functions."""

from dataclasses import asdict, dataclass
from typing import Any

from slotproof.conformance.actions import perform
from slotproof.conformance.counterexample import config_words
from slotproof.conformance.errors import SetupError
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.conformance.vector import Vector, config_as_json
from slotproof.spec.admission import (
    Allocation,
    Call,
    Refusal,
    admit,
    adopted_table,
    free_if_alone,
    idle_hits,
    release_skipped,
    skipped_blocks,
    step_need,
    watermark_for,
    whole_prompt_need,
)
from slotproof.spec.arithmetic import (
    blocks_missing,
    ceil_div,
    imin,
    is_short,
    slots_needed,
    tokens_to_cache,
    window_admission_cap,
)
from slotproof.spec.config import Config
from slotproof.spec.groups import Group, SlidingWindow
from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.snapshot import Snapshot
from slotproof.spec.transition import Allocated


@dataclass(frozen=True, slots=True)
class GroupCount:
    """One group's part of a count, in blocks: max(min(required, cap) - max(skipped, held + hit), 0) are missing."""

    group: str
    required: int
    cap: int | None
    skipped: int
    held: int
    hit: int
    missing: int


@dataclass(frozen=True, slots=True)
class Count:
    """One question: is needed + watermark > free - reserved?"""

    tokens: int
    groups: tuple[GroupCount, ...]
    idle: int
    needed: int
    watermark: int
    free: int
    reserved: int

    @property
    def short(self) -> bool:
        """Whether the answer is a refusal."""
        return is_short(self.needed, self.watermark, self.free, self.reserved)

    @property
    def lacking(self) -> int:
        """Blocks that are missing for a yes; less than 1 if there are enough."""
        return self.needed + self.watermark - (self.free - self.reserved)


@dataclass(frozen=True, slots=True)
class Alone:
    """The tighter question asked again with the pool to itself: needed of free blocks."""

    needed: int
    free: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """A call, the questions it was asked, and what came of it; later stages are None where an earlier one refused."""

    vector: str
    number: int
    action: str
    config: Config
    call: Call
    held: int
    watermark_because: str
    whole_prompt: Count | None
    released: tuple[int, ...] | None
    step: Count | None
    pinned_idle: tuple[int, ...]
    pinned_held: tuple[int, ...]
    popped: tuple[int, ...]
    finalized: int
    keyed: tuple[int, ...]
    answer: Allocation | Refusal
    alone: Alone

    @property
    def refused(self) -> Count | None:
        """The question that was answered with no."""
        if self.whole_prompt is not None and self.whole_prompt.short:
            return self.whole_prompt
        return self.step if self.step is not None and self.step.short else None


@dataclass(frozen=True, slots=True)
class Asked:
    """One `allocate_slots` of a vector: the number of its action, and the snapshot it met."""

    number: int
    action: str
    before: Snapshot
    call: Call


def calls_of(vector: Vector) -> list[Asked]:
    """Every `allocate_slots` that the specification is asked when the vector is carried out."""
    session = Session(ReferenceAdapter(), vector.config, Tally.fresh())
    asked = []
    for number, step in enumerate(vector.steps, start=1):
        before = session.snapshot
        session.answers.clear()
        perform(session, step.action)
        events = [event for event in session.answers if isinstance(event, Allocated)]
        asked += [Asked(number, str(step.action), before, event.call) for event in events]
    return asked


def explain(vector: Vector, number: int | None) -> Explanation:
    """The call with this number, or the last one.

    Raises:
        SetupError: when the vector makes no such call.
    """
    asked = calls_of(vector)
    if not asked:
        raise SetupError(f"{vector.name} never calls allocate_slots, so there is nothing to explain")
    chosen = [one for one in asked if number in (None, one.number)]
    if not chosen:
        numbers = ", ".join(str(one.number) for one in asked)
        raise SetupError(f"call {number} of {vector.name} does not ask for slots; the calls that do are {numbers}")
    return explained(vector, chosen[-1])


def explained(vector: Vector, asked: Asked) -> Explanation:
    """Every number of one call."""
    before, call = asked.before, asked.call
    released = release_skipped(before, call)
    answer = admit(before, call)
    whole_prompt = whole_prompt_count(before, call) if call.full_sequence_must_fit else None
    reaches_step = whole_prompt is None or not whole_prompt.short
    tables = before.holding(call.request.request_id).tables
    hits = adopted_hits(before, call) if isinstance(answer, Allocation) else []
    return Explanation(
        vector.name,
        asked.number,
        asked.action,
        before.config,
        call,
        held=sum(table.num_live() for table in tables),
        watermark_because=watermark_reason(call),
        whole_prompt=whole_prompt,
        released=blocks_released(before, released, call) if reaches_step else None,
        step=step_count(released, call) if reaches_step else None,
        pinned_idle=tuple(block for block in hits if before.pool.ref(block) == 0),
        pinned_held=tuple(block for block in hits if before.pool.ref(block) > 0),
        popped=popped(released, answer, hits, call),
        finalized=tokens_to_cache(call.num_computed_tokens, call.num_new_tokens, call.request.num_tokens),
        keyed=newly_keyed(released, answer, hits, call),
        answer=answer,
        alone=tighter_alone(before, released, call),
    )


def watermark_reason(call: Call) -> str:
    """Why the watermark counts, or does not (ADMIT-2)."""
    if not call.has_scheduled_reqs:
        return "nothing is scheduled"
    also = " and something is scheduled" if call.request.status != "running" else ""
    return f"the request is {call.request.status.value}{also}"


def whole_prompt_count(before: Snapshot, call: Call) -> Count:
    """Stage 0."""
    config = before.config
    tokens = imin(call.request.num_tokens, config.max_model_len)
    groups = tuple(
        group_count(before, call, number, ceil_div(tokens, group.block_size), cap_of(group, config))
        for number, group in enumerate(config.groups)
    )
    idle = idle_hits(before, call)
    needed = whole_prompt_need(before, call, idle)
    return Count(tokens, groups, idle, needed, watermark_for(before, call), before.pool.num_free(), 0)


def step_count(released: Snapshot, call: Call) -> Count:
    """Stage 2."""
    config = released.config
    tokens = slots_needed(
        call.num_computed_tokens, call.num_new_tokens, call.num_lookahead_tokens, config.max_model_len
    )
    groups = tuple(
        group_count(released, call, number, ceil_div(tokens, group.block_size), None)
        for number, group in enumerate(config.groups)
    )
    idle = idle_hits(released, call)
    needed, free = step_need(released, call, idle), released.pool.num_free()
    return Count(tokens, groups, idle, needed, watermark_for(released, call), free, call.reserved_blocks)


def cap_of(group: Group, config: Config) -> int | None:
    """The most blocks a whole prompt is charged for in this group (ADMIT-1)."""
    if not isinstance(group, SlidingWindow):
        return None
    return window_admission_cap(group.window, config.max_in_flight_tokens, config.max_model_len, group.block_size)


def group_count(snapshot: Snapshot, call: Call, number: int, required: int, cap: int | None) -> GroupCount:
    """One group's part of a count."""
    group = snapshot.config.groups[number]
    skipped = skipped_blocks(group, call.num_computed_tokens)
    held, hit = snapshot.holding(call.request.request_id).tables[number].length, len(call.hit.blocks[number])
    charged = required if cap is None else imin(required, cap)
    name = f"window:{group.window}" if isinstance(group, SlidingWindow) else "full"
    return GroupCount(name, required, cap, skipped, held, hit, blocks_missing(charged, skipped, held + hit))


def blocks_released(before: Snapshot, released: Snapshot, call: Call) -> tuple[int, ...]:
    """The blocks whose entries stage 1 made null."""
    pairs = zip(_entries(before, call), _entries(released, call), strict=True)
    return tuple(old for old, new in pairs if old != new)


def popped(released: Snapshot, answer: Allocation | Refusal, hits: list[int], call: Call) -> tuple[int, ...]:
    """The blocks stage 3 took from the queue."""
    if isinstance(answer, Refusal):
        return ()
    known = {NULL_BLOCK, *hits, *_entries(released, call)}
    return tuple(block for block in _entries(answer.snapshot, call) if block not in known)


def newly_keyed(released: Snapshot, answer: Allocation | Refusal, hits: list[int], call: Call) -> tuple[int, ...]:
    """The blocks that stage 4 gave a key."""
    taken = popped(released, answer, hits, call)
    after = answer.snapshot
    return tuple(
        block
        for block in _entries(after, call)
        if after.pool.key_of(block) != NO_KEY and (block in taken or released.pool.key_of(block) == NO_KEY)
    )


def _entries(snapshot: Snapshot, call: Call) -> list[int]:
    tables = snapshot.holding(call.request.request_id).tables
    return [block for table in tables for block in table.entries]


def adopted_hits(before: Snapshot, call: Call) -> list[int]:
    """The hit blocks that enter the request's tables, all groups in order, and those that are copied from."""
    tables = [adopted_table(before, call, number) for number in range(len(before.config.groups))]
    return [*(block for table in tables for block in table.entries if block != NULL_BLOCK), *call.hit.tails]


def tighter_alone(before: Snapshot, released: Snapshot, call: Call) -> Alone:
    """The question that is harder to meet with every other request gone and all hits idle (REFUSE-3)."""
    idle = len(adopted_hits(before, call))
    asked = [Alone(step_need(released, call, idle), free_if_alone(released, call))]
    if call.full_sequence_must_fit:
        asked.append(Alone(whole_prompt_need(before, call, idle), free_if_alone(before, call)))
    return max(asked, key=lambda alone: alone.needed - alone.free)


def as_document(explanation: Explanation) -> dict[str, Any]:
    """The fields of `--json`."""
    call, answer = explanation.call, explanation.answer
    refused = isinstance(answer, Refusal)
    return {
        "vector": explanation.vector,
        "call": explanation.number,
        "action": explanation.action,
        "config": config_as_json(explanation.config),
        "request": {
            "id": call.request.request_id,
            "status": call.request.status.value,
            "num_tokens": call.request.num_tokens,
            "num_computed_tokens": call.request.num_computed_tokens,
            "num_in_flight_tokens": call.request.num_in_flight_tokens,
            "held_blocks": explanation.held,
        },
        "asks": {
            "num_new_tokens": call.num_new_tokens,
            "hit_tokens": call.hit.num_tokens,
            "num_external_computed_tokens": call.num_external_computed_tokens,
            "num_lookahead_tokens": call.num_lookahead_tokens,
            "reserved_blocks": call.reserved_blocks,
            "full_sequence_must_fit": call.full_sequence_must_fit,
            "has_scheduled_reqs": call.has_scheduled_reqs,
            "delay_cache_blocks": call.delay_cache_blocks,
        },
        "whole_prompt": _count_document(explanation.whole_prompt),
        "released": explanation.released,
        "step": _count_document(explanation.step),
        "pinned": None if refused else {"idle": explanation.pinned_idle, "held": explanation.pinned_held},
        "popped": None if refused else explanation.popped,
        "keyed": None if refused else explanation.keyed,
        "answer": None if isinstance(answer, Refusal) else answer.new_blocks,
        "reason": answer.reason.value if isinstance(answer, Refusal) else None,
        "waiting_can_help": not answer.never if isinstance(answer, Refusal) else None,
        "alone": asdict(explanation.alone),
        "free_after": answer.snapshot.pool.num_free(),
    }


def _count_document(count: Count | None) -> dict[str, Any] | None:
    return None if count is None else {**asdict(count), "short": count.short}


def headline(explanation: Explanation) -> str:
    """Which call is explained."""
    return (
        f"{explanation.vector}, call {explanation.number}: {explanation.action}\n  {config_words(explanation.config)}"
    )

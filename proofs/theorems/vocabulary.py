"""The words in which theorems about an admission are stated: the laws' own counts, written without the specification's.

They take symbolic and plain integers alike.
"""

from typing import Any

import z3

from slotproof.proofs.engine import Bool, Int, term_of
from slotproof.proofs.operations import Step
from slotproof.spec.admission import Allocation, Call, Refusal
from slotproof.spec.config import FreeOrder
from slotproof.spec.groups import Group, SlidingWindow
from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.request import Status
from slotproof.spec.snapshot import Snapshot, Table


def if_else(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the condition holds, else `no`; an integer."""
    if isinstance(condition, Bool):
        return Int(z3.If(condition.term, term_of(yes), term_of(no)))
    return yes if condition else no


def least(one: Any, other: Any) -> Any:
    """The smaller of two integers."""
    return if_else(one <= other, one, other)


def most(one: Any, other: Any) -> Any:
    """The larger of two integers."""
    return if_else(one >= other, one, other)


def count(condition: Any) -> Any:
    """1 where it holds, else 0."""
    return if_else(condition, 1, 0)


def total(numbers: Any) -> Any:
    """The sum."""
    result: Any = 0
    for number in numbers:
        result = result + number
    return result


def all_of(conditions: Any) -> Any:
    """Whether all hold."""
    result: Any = True
    for condition in conditions:
        result = condition if result is True else result & condition
    return result


def any_of(conditions: Any) -> Any:
    """Whether one holds."""
    result: Any = False
    for condition in conditions:
        result = condition if result is False else result | condition
    return result


def blocks_for(tokens: Any, block_size: Any) -> Any:
    """Blocks that hold the tokens."""
    return (tokens + block_size - 1) // block_size


def behind_window(group: Group, settled: Any) -> Any:
    """Entries i with (i + 1) · block size <= max(0, settled - window + 1)."""
    if not isinstance(group, SlidingWindow):
        return 0
    return most(0, settled - group.window + 1) // group.block_size


def blocks_of(step: Step) -> range:
    """The usable blocks."""
    return range(1, step.before.config.num_blocks)


def same(one: Any, other: Any) -> Any:
    """Whether two tuples of integers are equal."""
    if len(one) != len(other):
        return False
    return all_of(a == b for a, b in zip(one, other, strict=True))


def queue_behind(step: Step, runs: list[list[int]]) -> list[int]:
    """The queue after these runs were released, by FREE-1."""
    pool, queue = step.before.pool, list(step.before.pool.queue)
    for run in runs:
        freed = [block for block in run if pool.ref(block) == 1]
        if step.before.config.free_order == FreeOrder.LRU:
            queue = [*queue, *freed]
        else:
            keyless = [block for block in freed if pool.key_of(block) == NO_KEY]
            queue = [*keyless, *queue, *[block for block in freed if block not in keyless]]
    return queue


# What was asked.


def call_of(step: Step) -> Call:
    """The arguments of an admission."""
    call: Call = step.arguments[0]
    return call


def after(step: Step) -> Snapshot:
    """The snapshot after an admission."""
    snapshot: Snapshot = step.result.snapshot
    return snapshot


def is_accepted(step: Step) -> bool:
    """Whether the call was admitted."""
    return isinstance(step.result, Allocation)


def is_refused(step: Step) -> bool:
    """Whether the call was refused."""
    return isinstance(step.result, Refusal)


def adopted_tokens(call: Call) -> Any:
    """Hit and external tokens."""
    return call.hit.num_tokens + call.num_external_computed_tokens


def computed(call: Call) -> Any:
    """computed + hit + external."""
    return call.request.num_computed_tokens + adopted_tokens(call)


def final(call: Call) -> Any:
    """m = min(computed + hit + external + new, num_tokens)."""
    return least(computed(call) + call.num_new_tokens, call.request.num_tokens)


def slots(step: Step) -> Any:
    """min(computed + hit + external + new + lookahead, max_model_len)."""
    call = call_of(step)
    return least(computed(call) + call.num_new_tokens + call.num_lookahead_tokens, step.before.config.max_model_len)


def settled(call: Call) -> Any:
    """The shortest length the request may settle at."""
    return most(0, computed(call) - call.request.num_in_flight_tokens)


def watermark(step: Step) -> Any:
    """The watermark that applies: to who enters, while something is scheduled."""
    call, status = call_of(step), call_of(step).request.status
    enters = (status == Status.WAITING) | (status == Status.PREEMPTED)
    return if_else(enters & call.has_scheduled_reqs, step.before.config.watermark_blocks, 0)


# What was held, and what is.


def groups_of(step: Step) -> range:
    """The numbers of the groups."""
    return range(len(step.before.config.groups))


def table(snapshot: Snapshot, step: Step, number: int) -> Table:
    """The asking request's table in a group."""
    return snapshot.holding(call_of(step).request.request_id).tables[number]


def old(step: Step, number: int) -> Table:
    """Its table before."""
    return table(step.before, step, number)


def new(step: Step, number: int) -> Table:
    """Its table after."""
    return table(after(step), step, number)


def skipped(step: Step, number: int) -> Any:
    """Leading blocks that the next token does not read."""
    return behind_window(step.before.config.groups[number], computed(call_of(step)))


def released(step: Step, number: int) -> list[tuple[int, Any]]:
    """Each entry of the old table that names a block, with whether stage 1 gives it back."""
    behind = behind_window(step.before.config.groups[number], settled(call_of(step)))
    return [(block, place < behind) for place, block in enumerate(old(step, number).entries) if block != NULL_BLOCK]


def hits(step: Step) -> list[tuple[int, Any]]:
    """Each block of the hit, with whether it is adopted."""
    return [
        (block, skipped(step, number) <= place)
        for number in groups_of(step)
        for place, block in enumerate(call_of(step).hit.blocks[number])
        if block != NULL_BLOCK
    ]


def idle(step: Step) -> Any:
    """Adopted hits that stand in the free queue."""
    return total(count(adopted & (step.before.pool.ref(block) == 0)) for block, adopted in hits(step))


def num_released(step: Step) -> Any:
    """Blocks that stage 1 makes free."""
    ref = step.before.pool.ref
    return total(
        count(gone & (ref(block) == 1)) for number in groups_of(step) for block, gone in released(step, number)
    )


def free_then(step: Step) -> Any:
    """Free blocks after stage 1."""
    return step.before.pool.num_free() + num_released(step)


def missing(step: Step, required: Any) -> Any:
    """Sum over groups of max(required - max(skipped, held + hit), 0)."""
    present = [old(step, number).length + len(call_of(step).hit.blocks[number]) for number in groups_of(step)]
    return total(most(required(number) - most(skipped(step, number), present[number]), 0) for number in groups_of(step))


def step_missing(step: Step) -> Any:
    """What stage 2 counts, idle hits left out."""
    return missing(step, lambda number: blocks_for(slots(step), step.before.config.groups[number].block_size))


def prompt_missing(step: Step) -> Any:
    """What stage 0 charges, idle hits left out (ADMIT-1)."""
    config = step.before.config

    def charge(number: int) -> Any:
        group = config.groups[number]
        tokens = least(call_of(step).request.num_tokens, config.max_model_len)
        due = blocks_for(tokens, group.block_size)
        if not isinstance(group, SlidingWindow):
            return due
        reach = least(group.window - 1 + config.max_in_flight_tokens, config.max_model_len)
        return least(due, blocks_for(reach, group.block_size) + 1)

    return missing(step, charge)


def prompt_is_short(step: Step) -> Any:
    """The stage 0 inequality, where it is asked."""
    short = prompt_missing(step) + idle(step) + watermark(step) > step.before.pool.num_free()
    return call_of(step).full_sequence_must_fit & short


def step_is_short(step: Step) -> Any:
    """The stage 2 inequality."""
    return step_missing(step) + idle(step) + watermark(step) > free_then(step) - call_of(step).reserved_blocks


def adopted_length(step: Step, number: int) -> Any:
    """A table's length before anything is popped."""
    taken = most(skipped(step, number), len(call_of(step).hit.blocks[number]))
    return if_else(adopted_tokens(call_of(step)) > 0, taken, old(step, number).length)


def loaded_length(step: Step, number: int) -> Any:
    """A table's length with blocks for external tokens."""
    call = call_of(step)
    due = blocks_for(computed(call), step.before.config.groups[number].block_size)
    loads = if_else(call.num_external_computed_tokens > 0, due, 0)
    return most(adopted_length(step, number), loads)


def popped(step: Step) -> list[tuple[int, Any]]:
    """Each block of the new tables that the old ones and the hit do not name, with whether it was popped."""
    return [
        (block, adopted_length(step, number) <= place)
        for number in groups_of(step)
        for place, block in enumerate(new(step, number).entries)
        if block != NULL_BLOCK
    ]

"""S5: a recycling cap in the count only.

The old rule charges a sliding window for the whole prompt, so a prompt that would fit is never admitted. The change
caps the count of every step by what the window can hold, but the blocks are still taken one by one up to the table's
length: the count says 0, one block is popped, and the queue may be empty. (vLLM issue 39734, pull request 40027)
"""

from dataclasses import replace

from slotproof.conformance.scenarios.scenario import STEP, Scenario, arrive, pool, tokens
from slotproof.conformance.scheduler_model import World
from slotproof.spec.admission import (
    Allocation,
    Call,
    Refusal,
    admit,
    give_keys,
    new_blocks_needed,
    release_skipped,
    take_blocks,
)
from slotproof.spec.arithmetic import ceil_div
from slotproof.spec.groups import FullAttention, SlidingWindow
from slotproof.spec.scheduler import FCFS, Job, Scope
from slotproof.spec.snapshot import Snapshot


def window_charged_in_full(snapshot: Snapshot, call: Call) -> Allocation | Refusal:
    """Stage 0 charges as if a window could hold as many tokens as the model's length."""
    config = snapshot.config
    uncapped = replace(snapshot, config=replace(config, max_in_flight_tokens=config.max_model_len))
    answer = admit(uncapped, call)
    return replace(answer, snapshot=replace(answer.snapshot, config=config))


def count_capped_commit_not(snapshot: Snapshot, call: Call) -> Allocation | Refusal:
    """A step that the capped count lets pass takes its blocks, whatever the true count is."""
    config, released = snapshot.config, release_skipped(snapshot, call)
    blocks = ceil_div(call.num_computed_tokens + call.num_new_tokens, config.block_size)
    capped = [group.capped(blocks, config.max_in_flight_tokens, config.max_model_len) for group in config.groups]
    if new_blocks_needed(released, call, capped) > released.pool.num_free():
        return admit(snapshot, call)
    taken = take_blocks(released, call)
    return Allocation(taken.new_blocks, give_keys(taken.snapshot, call))


OLD = replace(FCFS, name="window charged in full", allocate=window_charged_in_full)
NEW = replace(FCFS, name="window capped in the count", allocate=count_capped_commit_not)

JOBS = (
    Job("R", tokens(16, first=1), outputs=(9,)),
    Job("Q", tokens(2, first=2), outputs=(9,) * 4),
)

SCENARIO = Scenario(
    id="S5",
    title="Recycling cap in the count only",
    old=OLD,
    new=NEW,
    law_id="COUNT-1",
    property="What is counted is popped; and what fits at its peak is admitted at some time.",
    world=World(
        "S5",
        Scope(pool(7, FullAttention(4), SlidingWindow(4, 4), max_in_flight=4), JOBS, token_budget=8, max_chunk=4),
        setup=(arrive("R"), arrive("Q"), *STEP * 3),
    ),
    by_hand=1,
)

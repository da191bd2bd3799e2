"""S2: a reservation strands the request it protects.

The change keeps free what parked loads will still need. A more urgent request is refused because of it, and the refusal
hides the very request the blocks are kept for. (vLLM pull request 45406)
"""

from dataclasses import replace

from slotproof.conformance.scenarios.scenario import Scenario, pool, tokens
from slotproof.conformance.scheduler_model import World
from slotproof.spec.admission import Call
from slotproof.spec.scheduler import PRIORITY, Job, SchedulerState, Scope
from slotproof.spec.scheduler.policy import blocks_to_come, by_priority, nothing_reserved


def reserved_for_parked(state: SchedulerState, call: Call) -> int:
    """What waiting requests that hold blocks will still need, whoever asks."""
    parked = {name for name in state.waiting if name in state.snapshot.holdings}
    return sum(blocks_to_come(state, name) for name in parked - {call.request.request_id})


OLD = replace(PRIORITY, name="nothing is reserved", order=by_priority, reserved=nothing_reserved)
NEW = replace(OLD, name="reserved for parked loads", reserved=reserved_for_parked)

JOBS = (
    Job("B", tokens(20, first=1), outputs=(9,), num_external_tokens=12, priority=1),
    Job("H", tokens(16, first=2), outputs=(9,), priority=0),
)

SCENARIO = Scenario(
    id="S2",
    title="Reservation gate strands the request it protects",
    old=OLD,
    new=NEW,
    law_id="SCHED-5",
    property="A reservation for a request never blocks the only step that would let it run.",
    world=World("S2", Scope(pool(8), JOBS, token_budget=32)),
    by_hand=2,
)

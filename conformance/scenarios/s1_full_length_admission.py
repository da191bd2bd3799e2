"""S1: full-length admission meets parked loads.

Before, a request that returned from an asynchronous load needed its next chunk only. Since the change all its tokens
must fit, but the load has taken the loaded part alone. Two loads can then take so much that neither request fits, and
the first refusal hides whoever would. (vLLM issue 45388)
"""

from dataclasses import replace

from slotproof.conformance.scenarios.scenario import Scenario, pool, tokens
from slotproof.conformance.scheduler_model import World
from slotproof.spec.scheduler import FCFS, Job, Scope
from slotproof.spec.scheduler.policy import in_queue_order, next_chunk, nothing_reserved, whole_prompt

OLD = replace(FCFS, name="next chunk must fit", order=in_queue_order, admission=next_chunk, reserved=nothing_reserved)
NEW = replace(OLD, name="whole prompt must fit", admission=whole_prompt)

JOBS = (
    Job("A", tokens(24, first=1), outputs=(9,), num_external_tokens=8),
    Job("B", tokens(20, first=2), outputs=(9,), num_external_tokens=12),
)

SCENARIO = Scenario(
    id="S1",
    title="Full-length admission meets parked loads",
    old=OLD,
    new=NEW,
    law_id="SCHED-5",
    property="While something waits, a token or an error comes within a bounded number of steps.",
    world=World("S1", Scope(pool(8, caching=False), JOBS, token_budget=12, max_chunk=8)),
    by_hand=2,
)

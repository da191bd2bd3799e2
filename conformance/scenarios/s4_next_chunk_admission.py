"""S4: from whole-prompt to next-chunk admission.

A long prompt used to wait until all of it fitted. Since the change its first chunk is enough, so it enters next to a
growing request, is thrown out at its next block, enters again, and so on. (vLLM issue 25538)
"""

from dataclasses import replace

from slotproof.conformance.scenarios.scenario import STEP, Scenario, arrive, pool, tokens
from slotproof.conformance.scheduler_model import World
from slotproof.spec.scheduler import FCFS, Job, Scope
from slotproof.spec.scheduler.policy import next_chunk

OLD = replace(FCFS, name="whole prompt must fit")
NEW = replace(OLD, name="next chunk must fit", admission=next_chunk)

JOBS = (
    Job("R1", tokens(16, first=1), outputs=(9,) * 7),
    Job("R2", tokens(16, first=2), outputs=(9,)),
)

SCENARIO = Scenario(
    id="S4",
    title="From whole-prompt to next-chunk admission",
    old=OLD,
    new=NEW,
    law_id="SCHED-2",
    property="No request is preempted twice without some request ending in between.",
    world=World(
        "S4",
        Scope(pool(6, caching=False), JOBS, token_budget=8, max_chunk=4),
        setup=(arrive("R1"), *STEP * 4, arrive("R2")),
    ),
    by_hand=4,
)

"""S6: skip instead of stop on refusal.

The first refusal used to end the waiting pass, which makes small requests wait behind a big one. The change looks at
the next one instead; as long as small requests keep coming, the big one never finds enough free blocks. (vLLM issue
31731)
"""

from dataclasses import replace

from slotproof.conformance.scenarios.scenario import Scenario, pool, tokens
from slotproof.conformance.scheduler_model import World
from slotproof.spec.scheduler import FCFS, Job, Scope
from slotproof.spec.scheduler.policy import skip

OLD = replace(FCFS, name="stop on refusal")
NEW = replace(OLD, name="skip on refusal", on_refusal=skip)

JOBS = (
    Job("Big", tokens(16, first=1), outputs=(9,)),
    Job("S", tokens(7, first=2), outputs=(9, 9), again=True),
    Job("T", tokens(7, first=3), outputs=(9, 9), again=True),
)

SCENARIO = Scenario(
    id="S6",
    title="Skip instead of stop on refusal",
    old=OLD,
    new=NEW,
    law_id="SCHED-6",
    property="At most so many later arrivals are admitted before a refused request.",
    world=World("S6", Scope(pool(4, caching=False), JOBS, token_budget=32)),
    by_hand=50,
)

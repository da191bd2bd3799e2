"""S7: the priority victim was already scheduled in the same step.

The victim used to be the last running request, which the pass has not visited yet. The change takes the lowest priority
wherever it stands; what the step had planned for it stays in the step. (vLLM issue 23347)
"""

from dataclasses import replace

from slotproof.conformance.scenarios.scenario import STEP, Scenario, arrive, pool, tokens
from slotproof.conformance.scheduler_model import World
from slotproof.spec.scheduler import FCFS, Job, Scope
from slotproof.spec.scheduler.policy import last_running, least_urgent
from slotproof.spec.scheduler.preemption import withdraw_nothing

OLD = replace(FCFS, name="last running is the victim", victim=last_running, withdraw=withdraw_nothing)
NEW = replace(OLD, name="lowest priority is the victim", victim=least_urgent)

JOBS = (
    Job("L", tokens(4, first=1), outputs=(9, 9), priority=1),
    Job("H", tokens(4, first=2), outputs=(9, 9), priority=0),
)

SCENARIO = Scenario(
    id="S7",
    title="Priority victim already scheduled in the same step",
    old=OLD,
    new=NEW,
    law_id="SCHED-1",
    property="What is scheduled is running; tokens, drafts and blocks of a victim are withdrawn from the step.",
    world=World("S7", Scope(pool(3), JOBS, token_budget=32), setup=(arrive("L"), arrive("H"), *STEP)),
    by_hand=1,
)

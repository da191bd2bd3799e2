"""S9: a side queue for parked requests.

Every step used to look at the parked requests. The change does so only when the waiting pass gets there, and it does
not while running requests use the whole budget of a step. (vLLM issue 53130)
"""

from dataclasses import replace

from slotproof.conformance.scenarios.scenario import Scenario, pool, tokens
from slotproof.conformance.scheduler_model import World
from slotproof.spec.scheduler import FCFS, Job, Scope

OLD = replace(FCFS, name="every step looks at parked requests")
NEW = replace(OLD, name="the waiting pass looks at them", promotes_each_step=False)

JOBS = (
    Job("P", tokens(6, first=1), outputs=(9,), num_external_tokens=4),
    Job("Hog", tokens(12, first=2), outputs=(9,)),
)

SCENARIO = Scenario(
    id="S9",
    title="Side queue for parked requests",
    old=OLD,
    new=NEW,
    law_id="SCHED-5",
    property="A parked request whose load is done is promoted, or ended, within one step.",
    world=World("S9", Scope(pool(8), JOBS, token_budget=4)),
    by_hand=2,
)

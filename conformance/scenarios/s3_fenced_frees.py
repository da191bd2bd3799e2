"""S3: deferred frees meet preempt-and-retry.

Blocks of a preempted request used to be free at once, so preempting always helped. Since steps run ahead they are free
only when the step in flight has been processed, and the retry loop preempts everybody for nothing. (vLLM issue 49674)
"""

from dataclasses import replace

from slotproof.conformance.scenarios.scenario import SCHEDULE, Scenario, arrive, pool, tokens
from slotproof.conformance.scheduler_model import World
from slotproof.spec.scheduler import FCFS, Job, Scope
from slotproof.spec.scheduler.ending import at_once, behind_fence
from slotproof.spec.scheduler.policy import always

OLD = replace(FCFS, name="frees at once", give_back=at_once, may_preempt=always)
NEW = replace(OLD, name="frees behind a fence", give_back=behind_fence)

JOBS = tuple(Job(name, tokens(8, first), outputs=(9, 9)) for first, name in enumerate("ABC"))

SCENARIO = Scenario(
    id="S3",
    title="Deferred free and preempt-and-retry",
    old=OLD,
    new=NEW,
    law_id="SCHED-2",
    property="Each preemption frees blocks for the retry, or the pass ends with everybody still running.",
    world=World(
        "S3",
        Scope(pool(6), JOBS, token_budget=32, max_steps_in_flight=2),
        setup=(arrive("A"), arrive("B"), arrive("C"), SCHEDULE),
    ),
    by_hand=1,
)

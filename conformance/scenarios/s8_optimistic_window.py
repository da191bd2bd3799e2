"""S8: a window gives blocks back while steps run ahead.

What a window has left behind used to be counted from the tokens that are really computed. The change counts the drafts
of the step in flight too; when they are rejected, the next token reads blocks that are gone. (vLLM pull request 47728)
"""

from dataclasses import replace

from slotproof.conformance.scenarios.scenario import SCHEDULE, STEP, Scenario, arrive, pool, tokens
from slotproof.conformance.scheduler_model import World
from slotproof.spec.admission import Allocation, Call, Refusal, admit
from slotproof.spec.groups import SlidingWindow
from slotproof.spec.scheduler import FCFS, Job, Scope
from slotproof.spec.snapshot import Snapshot


def optimistic(snapshot: Snapshot, call: Call) -> Allocation | Refusal:
    """The allocator is not told that tokens are in flight."""
    return admit(snapshot, replace(call, request=replace(call.request, flights=())))


OLD = replace(FCFS, name="window follows what is computed")
NEW = replace(OLD, name="window follows what is scheduled", allocate=optimistic)

JOBS = (Job("R", tokens(6, first=1), outputs=(9,) * 7, num_drafts=4),)

SCENARIO = Scenario(
    id="S8",
    title="Window freeing under run-ahead scheduling",
    old=OLD,
    new=NEW,
    law_id="SKIP-1",
    property="What is given back lies outside the window for every length the request may settle at.",
    world=World(
        "S8",
        Scope(pool(8, SlidingWindow(2, 4)), JOBS, token_budget=16, max_steps_in_flight=2),
        setup=(arrive("R"), *STEP, SCHEDULE),
    ),
    by_hand=1,
)

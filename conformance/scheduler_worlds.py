"""The small worlds that every policy is tried in: one plain world, each dimension of a scheduler alone, and all pairs.

Three requests whose blocks do not all fit, so everybody is refused at some time.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

from slotproof.conformance.scheduler_model import World
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention, Group, SlidingWindow
from slotproof.spec.scheduler.job import Job, Scope

Change = Callable[[Scope], Scope]


def plain() -> Scope:
    """Two requests with one beginning, then a short one; 4 usable blocks of 2 tokens."""
    jobs = Job("A", (1, 1, 1), (2, 2, 2)), Job("B", (1, 1, 2, 2, 1), (2,)), Job("C", (2, 2), (1, 1))
    return Scope(Config(5, (FullAttention(2),), 8, 8), jobs, token_budget=8)


def change_jobs(scope: Scope, change: Callable[[Job], Job]) -> Scope:
    """The scope with every job changed."""
    return replace(scope, jobs=tuple(change(job) for job in scope.jobs))


def with_groups(scope: Scope, *groups: Group, more: int = 0) -> Scope:
    """The scope with other groups, and so many more blocks."""
    return replace(scope, config=replace(scope.config, groups=groups, num_blocks=scope.config.num_blocks + more))


def with_window(scope: Scope) -> Scope:
    """A sliding window of 3 tokens, beside full attention if that is there in a hybrid."""
    if len(scope.config.groups) > 1:
        return scope
    return with_groups(scope, SlidingWindow(2, 3))


def hybrid(scope: Scope) -> Scope:
    """Full attention and a sliding window of 3 tokens in one pool."""
    return with_groups(scope, FullAttention(2), SlidingWindow(2, 3), more=3)


def with_config(**changes: Any) -> Change:
    """A change of the configuration."""
    return lambda scope: replace(scope, config=replace(scope.config, **changes))


def with_limits(**changes: Any) -> Change:
    """A change of the limits."""
    return lambda scope: replace(scope, **changes)


def with_loads(scope: Scope, names: str = "ABC", **changes: Any) -> Scope:
    """These jobs can have all but the last token of their prompt loaded; changed as said."""
    return change_jobs(
        scope,
        lambda job: replace(job, num_external_tokens=len(job.prompt) - 1, **changes) if job.name in names else job,
    )


def with_session(scope: Scope) -> Scope:
    """A and C are sessions of two turns."""
    return change_jobs(
        scope,
        lambda job: replace(job, outputs=job.outputs[:2], followups=(((1, 2), (1,)),)) if job.name in "AC" else job,
    )


DIMENSIONS: dict[str, Change] = {
    "chunks": with_limits(token_budget=2),
    "drafts": lambda scope: change_jobs(scope, lambda job: replace(job, num_drafts=2)),
    "ahead": with_limits(max_steps_in_flight=2),
    "loads": with_loads,
    "in-step": lambda scope: with_loads(scope, "AC", loads_in_step=True),
    "failing": lambda scope: with_loads(scope, load_may_fail=True),
    "fatal": lambda scope: replace(with_loads(scope, load_may_fail=True), fails_with_load=True),
    "sessions": with_session,
    "priority": lambda scope: change_jobs(scope, lambda job: replace(job, priority="BCA".index(job.name))),
    "window": with_window,
    "hybrid": hybrid,
    "watermark": with_config(watermark_blocks=1),
    "lookahead": with_limits(num_lookahead_tokens=1),
    "abort": with_limits(may_abort=("A", "C")),
    "reset": with_limits(may_reset=True),
    "reset-running": with_limits(may_reset_running=True),
    "uncached": with_config(caching=False),
    "never": lambda scope: replace(
        scope, jobs=(*scope.jobs[:2], Job("C", (2,) * 10, (1,))), config=longer(scope.config)
    ),
    "tight": with_config(num_blocks=4),
}
"""What a scheduler has to cope with, each as a change of the plain world."""


def longer(config: Config) -> Config:
    """The configuration for a model of greater length."""
    return replace(config, max_model_len=12, max_in_flight_tokens=12)


def world_of(*dimensions: str) -> World:
    """The plain world with these dimensions, in the order of the table."""
    scope = plain()
    for name, change in DIMENSIONS.items():
        scope = change(scope) if name in dimensions else scope
    return World("+".join(dimensions) or "plain", scope)


def same_step_victim() -> Scope:
    """6 blocks of 2 tokens, lookahead 1: a request fills its third block in the step in which a more urgent one needs
    another.

    Without lookahead the block in question would be the first to be popped again, and nobody could hit it.
    """
    jobs = Job("L", (1, 1, 1, 1), (2, 2, 2), priority=1), Job("H", (2, 2, 2), (1, 1))
    config = Config(7, (FullAttention(2),), 8, 8)
    return Scope(config, jobs, token_budget=8, num_lookahead_tokens=1)


def endless() -> Scope:
    """4 blocks of 2 tokens for a long prompt and two short requests that come again and again."""
    short = [Job(name, (first, first, first), (9, 9), again=True) for first, name in enumerate("ST")]
    return Scope(Config(5, (FullAttention(2),), 12, 12), (Job("L", (7,) * 7, (9,)), *short), token_budget=16)


WORLDS: dict[str, World] = {
    world.name: world
    for world in (
        world_of(),
        *(world_of(dimension) for dimension in DIMENSIONS),
        World("same-step-victim", same_step_victim()),
        World("endless", endless()),
    )
}
"""The plain world, each dimension alone, one in which a victim has been scheduled in the same step, and one in which
requests keep coming.
"""

PAIRS: dict[str, World] = {world.name: world for world in (world_of(*pair) for pair in combinations(DIMENSIONS, 2))}
"""Every two dimensions together."""

"""Which worlds a random walk over policies draws: larger than can be searched, with each dimension now and then."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from slotproof.conformance.actions import Chooser
from slotproof.conformance.adapter import Profile
from slotproof.conformance.settings import Settings, make_groups, parse_groups
from slotproof.spec.arithmetic import ceil_div
from slotproof.spec.config import Config
from slotproof.spec.scheduler.job import Job, Scope

MOST_JOBS = 7


def draw_scope(settings: Settings | Scope, chooser: Chooser, profile: Profile) -> Scope:
    """A world that is given stands for itself. Else that of one episode: a pool that holds a request of full length, as
    engines make sure of when they start, up to twice so; or one too small, without drafts and lookahead.

    In such a pool a step with drafts may never fit that fits without them, and no policy here drops them.
    """
    if isinstance(settings, Scope):
        return settings
    block_size = settings.block_size or chooser.pick((1, 2, 2, 3))
    groups = make_groups(parse_groups(settings.groups), block_size, chooser.integer(2, 3 * block_size + 1))
    jobs = draw_jobs(chooser, block_size)
    length = longest(jobs) + chooser.integer(0, 2)
    budget, ahead = chooser.integer(1, 3 * block_size + 3), chooser.pick((1, 1, 2, 3))
    lookahead = chooser.integer(1, block_size) if chooser.chance(20) else 0
    need = len(groups) * ceil_div(length, block_size)
    usable = settings.num_blocks - 1 if settings.num_blocks else need + chooser.integer(0, need)
    if not settings.num_blocks and need > 1 and chooser.chance(15):
        usable, lookahead, jobs = need - 1, 0, tuple(replace(job, num_drafts=0) for job in jobs)
    watermark = chooser.pick((0, 0, 1)) if settings.watermark_blocks is None else settings.watermark_blocks
    caching = settings.caching and not chooser.chance(10)
    return Scope(
        Config(usable + 1, groups, length, budget * ahead, min(watermark, usable - 1), caching),
        jobs,
        budget,
        max_running=chooser.pick((1, 2, 3, 8)),
        max_chunk=chooser.integer(1, 2 * block_size) if chooser.chance(20) else None,
        num_lookahead_tokens=lookahead,
        max_steps_in_flight=ahead,
        may_abort=tuple(job.name for job in jobs if chooser.chance(15)),
        may_reset=chooser.chance(20),
        may_reset_running=chooser.chance(10),
        fails_with_load=chooser.chance(30),
    )


def draw_jobs(chooser: Chooser, block_size: int) -> tuple[Job, ...]:
    """Requests over two tokens that extend each other; drafts, loads and priorities are those of the whole world."""
    drafts, loads, priorities, again, sessions = (chooser.chance(percent) for percent in (40, 30, 40, 20, 20))
    jobs: list[Job] = []
    for number in range(chooser.integer(3, MOST_JOBS)):
        prompt = draw_prompt(chooser, jobs, block_size)
        outputs = tuple(chooser.integer(1, 2) for _ in range(chooser.integer(1, 3 * block_size + 2)))
        jobs.append(
            Job(
                chr(ord("A") + number),
                prompt,
                outputs,
                priority=chooser.integer(0, 2) if priorities else 0,
                num_external_tokens=chooser.integer(0, len(prompt) - 1) if loads else 0,
                num_drafts=chooser.integer(0, 3) if drafts else 0,
                again=again and chooser.chance(50),
                loads_in_step=loads and chooser.chance(50),
                load_may_fail=loads and chooser.chance(30),
                followups=draw_followups(chooser, block_size) if sessions and chooser.chance(50) else (),
            )
        )
    return tuple(jobs)


def draw_followups(chooser: Chooser, block_size: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """One or two further turns of a session."""

    def tokens() -> tuple[int, ...]:
        return tuple(chooser.integer(1, 2) for _ in range(chooser.integer(1, block_size + 1)))

    return tuple((tokens(), tokens()) for _ in range(chooser.integer(1, 2)))


def longest(jobs: tuple[Job, ...]) -> int:
    """Tokens of the longest request when it ends."""
    return max(len(job.at_turn(len(job.followups)).token_ids) for job in jobs)


def draw_prompt(chooser: Chooser, earlier: list[Job], block_size: int) -> tuple[int, ...]:
    """A fresh prompt, or one that goes on where another request has been."""
    beginning: tuple[int, ...] = ()
    if earlier and chooser.chance(60):
        tokens = chooser.pick(earlier).token_ids
        beginning = tokens[: chooser.integer(1, len(tokens))]
    more = chooser.integer(0 if beginning else 1, 3 * block_size)
    return (beginning + tuple(chooser.integer(1, 2) for _ in range(more)))[: 5 * block_size]


# Simpler worlds.


def simpler_scopes(scope: Scope) -> Iterator[Scope]:
    """Worlds with less of something."""
    plain = Scope(scope.config, scope.jobs, scope.token_budget)
    for job in scope.jobs:
        yield from changed(scope, jobs=tuple(other for other in scope.jobs if other != job))
    for name in SWITCHES:
        yield from changed(scope, **{name: getattr(plain, name)})
    for job in scope.jobs:
        for simpler in simpler_jobs(job):
            yield from changed(scope, jobs=tuple(simpler if other == job else other for other in scope.jobs))
    yield from (replace(scope, config=config) for config in simpler_pools(scope))
    yield from changed(scope, token_budget=scope.token_budget - 1)


SWITCHES = (
    "max_steps_in_flight",
    "num_lookahead_tokens",
    "max_chunk",
    "may_abort",
    "may_reset",
    "may_reset_running",
    "fails_with_load",
    "max_running",
)
"""What a world can have and need not."""


def simpler_jobs(job: Job) -> Iterator[Job]:
    """Requests with less of something."""
    plain = Job(job.name, job.prompt, job.outputs)
    for name in (
        "num_drafts",
        "num_external_tokens",
        "priority",
        "again",
        "loads_in_step",
        "load_may_fail",
        "followups",
    ):
        yield replace(job, **{name: getattr(plain, name)})
    if job.num_drafts > 1:
        yield replace(job, num_drafts=job.num_drafts - 1)
    if len(job.outputs) > 1:
        yield replace(job, outputs=job.outputs[:-1])
    if len(job.prompt) > 1:
        external = min(job.num_external_tokens, len(job.prompt) - 2)
        yield replace(job, prompt=job.prompt[:-1], num_external_tokens=external)
        yield replace(job, prompt=job.prompt[1:], num_external_tokens=external)


def simpler_pools(scope: Scope) -> Iterator[Config]:
    """Pools with less of something."""
    config = scope.config
    if config.watermark_blocks:
        yield replace(config, watermark_blocks=0)
    if config.num_blocks > 2:
        yield replace(
            config,
            num_blocks=config.num_blocks - 1,
            watermark_blocks=min(config.watermark_blocks, config.num_blocks - 3),
        )
    if config.max_model_len > longest(scope.jobs):
        yield replace(config, max_model_len=config.max_model_len - 1)


def scope_with_fewer_blocks(scope: Scope, fewer: int) -> Scope | None:
    """The world with a smaller pool; None if there is none."""
    num_blocks = scope.config.num_blocks - fewer
    if num_blocks < 2:
        return None
    watermark = min(scope.config.watermark_blocks, num_blocks - 2)
    return replace(scope, config=replace(scope.config, num_blocks=num_blocks, watermark_blocks=watermark))


def changed(scope: Scope, **changes: Any) -> Iterator[Scope]:
    """The changed world, if there is such a world and it is another one."""
    try:
        other = replace(scope, **changes)
    except ValueError:
        return
    if other != scope and other.jobs:
        yield other

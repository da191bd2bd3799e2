"""Which engines a run draws from: pools barely above one full request, small budgets, and each feature now and then."""

from collections.abc import Iterator
from dataclasses import replace

from slotproof.conformance.actions import Chooser
from slotproof.conformance.adapter import Profile
from slotproof.conformance.scheduler_adapter import EngineConfig
from slotproof.conformance.settings import Settings, make_groups, parse_groups
from slotproof.spec.arithmetic import ceil_div
from slotproof.spec.config import Config
from slotproof.spec.groups import Group, SlidingWindow


def draw_engine(settings: Settings, chooser: Chooser, profile: Profile) -> EngineConfig:
    """The engine of one episode."""
    block_size = settings.block_size or chooser.pick((1, 2, 2, 3, 4, 4))
    groups = make_groups(parse_groups(settings.groups), block_size, chooser.integer(2, 3 * block_size + 1))
    asynchronous = chooser.chance(60)
    num_drafts = chooser.integer(1, 3) if chooser.chance(40) else 0
    max_num_seqs = chooser.pick((1, 2, 2, 3, 3, 4))
    budget = max(max_num_seqs, num_drafts + 2) + chooser.integer(0, 3 * block_size)
    max_model_len = chooser.integer(2 * block_size + 1, 7 * block_size)
    in_flight = budget * (2 if asynchronous else 1)
    need = sum(most_blocks(group, max_model_len, in_flight) for group in groups)
    usable = settings.num_blocks - 1 if settings.num_blocks else need + chooser.integer(0, 1 + need // 3)
    watermark = chooser.pick((0, 0, 1, 2)) if settings.watermark_blocks is None else settings.watermark_blocks
    pool = Config(usable + 1, groups, max_model_len, in_flight, min(watermark, usable - 1), settings.caching)
    return EngineConfig(
        pool,
        asynchronous,
        chooser.pick(("fcfs", "priority")),
        max_num_seqs,
        budget,
        chooser.integer(1, 2 * block_size) if chooser.chance(30) else 0,
        chooser.chance(60),
        num_drafts,
        bool(num_drafts) and chooser.chance(50),
        chooser.pick(("recompute", "fail")) if chooser.chance(50) else "",
    )


def most_blocks(group: Group, max_model_len: int, in_flight: int) -> int:
    """What an engine makes sure of at its start: that one request of full length fits."""
    if isinstance(group, SlidingWindow):
        return ceil_div(min(group.window - 1 + in_flight, max_model_len), group.block_size) + 1
    return ceil_div(max_model_len, group.block_size)


def simpler_engines(config: EngineConfig) -> Iterator[EngineConfig]:
    """Engines with less of something."""
    plain = EngineConfig(config.pool)
    for name in (
        "connector",
        "num_drafts",
        "long_prefill_token_threshold",
        "draft_lookahead",
        "asynchronous",
        "policy",
    ):
        if getattr(config, name) != getattr(plain, name):
            yield replace(config, **{name: getattr(plain, name)})
    if config.pool.watermark_blocks:
        yield replace(config, pool=replace(config.pool, watermark_blocks=0))
    if config.num_drafts > 1:
        yield replace(config, num_drafts=config.num_drafts - 1)
    if config.max_num_seqs > 1:
        yield replace(config, max_num_seqs=config.max_num_seqs - 1)
    for num_blocks, length in ((1, 0), (0, 1), (1, 1)):
        smaller = fitting(config, num_blocks, length)
        if smaller is not None:
            yield smaller


def engine_with_fewer_blocks(config: EngineConfig, fewer: int) -> EngineConfig | None:
    """The engine with a smaller pool, if one request of full length still fits."""
    return fitting(config, fewer, 0)


def fitting(config: EngineConfig, fewer_blocks: int, fewer_tokens: int) -> EngineConfig | None:
    """The engine with fewer blocks, and a shorter full length; None if no request of that length would fit."""
    pool = config.pool
    num_blocks, length = pool.num_blocks - fewer_blocks, pool.max_model_len - fewer_tokens
    need = sum(most_blocks(group, length, pool.max_in_flight_tokens) for group in pool.groups)
    if length < 2 or num_blocks <= max(need, 1):
        return None
    watermark = min(pool.watermark_blocks, num_blocks - 2)
    return replace(config, pool=replace(pool, num_blocks=num_blocks, max_model_len=length, watermark_blocks=watermark))

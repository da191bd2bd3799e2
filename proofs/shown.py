"""A concrete step in words: what a witness or a counterexample looks like."""

from dataclasses import MISSING, fields
from typing import Any

from slotproof.proofs.operations import Step
from slotproof.spec.admission import Allocation, Call, Refusal
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention, Group
from slotproof.spec.pool import NO_KEY
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Snapshot


def step_in_words(step: Step) -> str:
    """Configuration, pool and tables before, the call, and what came out, a line each."""
    asked = ", ".join(argument_in_words(argument) for argument in step.arguments)
    lines = [
        config_in_words(step.before.config),
        f"before: {snapshot_in_words(step.before)}",
        f"{step.operation.name}: {asked}",
        f"result: {result_in_words(step.result)}",
    ]
    return "\n  ".join(lines)


def config_in_words(config: Config) -> str:
    """The configuration."""
    groups = " + ".join(group_in_words(group) for group in config.groups)
    return (
        f"{config.num_blocks - 1} usable blocks of {config.block_size} tokens, {groups}, "
        f"max_model_len {config.max_model_len}, max_in_flight_tokens {config.max_in_flight_tokens}, "
        f"watermark {config.watermark_blocks}, caching {'on' if config.caching else 'off'}, {config.free_order.value}"
    )


def group_in_words(group: Group) -> str:
    """The kind of a group."""
    return "full" if isinstance(group, FullAttention) else f"window {group.window}"  # type: ignore[attr-defined]


def snapshot_in_words(snapshot: Snapshot) -> str:
    """Queue, tables, references and keys."""
    pool = snapshot.pool
    tables = "; ".join(
        f"{name} {' | '.join(str(list(table.entries)) for table in holding.tables)} cached {list(holding.cached)}"
        for name, holding in snapshot.holdings.items()
    )
    held = {block: pool.ref(block) for block in range(1, pool.num_blocks) if pool.ref(block)}
    keyed = {block: pool.key_of(block) for block in range(1, pool.num_blocks) if pool.key_of(block) != NO_KEY}
    return f"free {list(pool.queue)}; {tables}; references {held}; keys {keyed}"


def argument_in_words(argument: Any) -> str:
    """An argument, its fields where it has any."""
    if isinstance(argument, Call):
        named = [
            f"{field.name} {getattr(argument, field.name)}" for field in fields(Call)[3:] if is_set(argument, field)
        ]
        return "; ".join(
            [
                request_in_words(argument.request),
                f"num_new_tokens {argument.num_new_tokens}",
                f"hit {argument.hit.blocks}",
                *named,
            ]
        )
    return request_in_words(argument) if isinstance(argument, Request) else str(argument)


def is_set(call: Call, field: Any) -> bool:
    """Whether an argument is not the default."""
    return field.default is MISSING or getattr(call, field.name) != field.default


def request_in_words(request: Request) -> str:
    """What an admission reads of a request."""
    return (
        f"{request.status.value} request {request.request_id} of {request.num_tokens} tokens, "
        f"{request.num_computed_tokens} computed, {request.num_in_flight_tokens} in flight"
    )


def result_in_words(result: Any) -> str:
    """What came out."""
    if isinstance(result, Allocation):
        return f"new blocks {result.new_blocks}; {snapshot_in_words(result.snapshot)}"
    if isinstance(result, Refusal):
        never = "never" if result.never else "not now"
        sum_up = f"needs {result.needed} + {result.watermark} of {result.free} - {result.reserved}"
        return f"refused ({result.reason.value}, {never}): {sum_up}; {snapshot_in_words(result.snapshot)}"
    if isinstance(result, Snapshot):
        return snapshot_in_words(result)
    return str(result)

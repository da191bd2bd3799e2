"""Configurations and calls in words."""

from slotproof.conformance.actions import Action
from slotproof.conformance.vector import config_as_json
from slotproof.spec.config import Config

SHOWN_TOKENS = 16


def config_line(config: Config) -> str:
    """A configuration in one line."""
    fields = config_as_json(config)
    words = [
        f"groups {','.join(fields['groups'])}",
        f"block size {config.block_size}",
        f"{config.usable_blocks} usable blocks",
        f"max_model_len {config.max_model_len}",
        f"watermark {config.watermark_blocks}",
        config.free_order.value,
    ]
    return ", ".join(words if config.caching else [*words, "caching off"])


def abridged(action: Action) -> Action:
    """The action with long token lists cut short, for showing only."""
    return Action(
        action.verb,
        {
            name: _abridged_list(value) if isinstance(value, tuple) and len(value) > SHOWN_TOKENS else value
            for name, value in action.arguments.items()
        },
    )


def _abridged_list(values: tuple[object, ...]) -> str:
    beginning = " ".join(map(str, values[:4]))
    return f"[{beginning} … {len(values)} in all]"


def count_of(number: int, noun: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")

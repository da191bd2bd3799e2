"""What the shrinker tries on traces of an allocator: simpler actions, smaller configurations."""

from collections.abc import Iterator
from dataclasses import replace

from slotproof.conformance.actions import Action
from slotproof.spec.config import Config

MAY_LACK = ("new", "lookahead", "whole", "reserved", "alone", "drafts", "salt", "extra", "uncommitted", "external")
"""Arguments that an action may go without."""


def absorbed(actions: tuple[Action, ...], position: int) -> tuple[Action, ...]:
    """The trace without the output at `position` and the request's next call, its token in the prompt; or as it was."""
    output = actions[position]
    if output.verb != "output":
        return actions
    name = output.arguments["request"]
    mine = [index for index, action in enumerate(actions) if action.arguments.get("request") == name]
    call = next((index for index in mine if index > position and actions[index].verb == "extend"), None)
    longer = tuple(
        Action("admit", {**action.arguments, "prompt": (*action.arguments["prompt"], output.arguments["token"])})
        if action.verb == "admit" and index in mine
        else action
        for index, action in enumerate(actions)
    )
    return tuple(action for index, action in enumerate(longer) if index not in (position, call))


def simpler_actions(action: Action) -> Iterator[Action]:
    """The action without an argument it may lack, with a shorter tuple, or with a lower number."""
    for name, value in action.arguments.items():
        others = {key: other for key, other in action.arguments.items() if key != name}
        if name in MAY_LACK and (action.verb, name) != ("load", "external"):
            yield Action(action.verb, others)
        if isinstance(value, tuple):
            for index in reversed(range(len(value))):
                if len(value) > 1:
                    yield Action(action.verb, {**action.arguments, name: (*value[:index], *value[index + 1 :])})
                if value[index] == 2 and name != "blocks":
                    yield Action(action.verb, {**action.arguments, name: (*value[:index], 1, *value[index + 1 :])})
        elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
            yield Action(action.verb, {**action.arguments, name: value - 1})


def simpler_configs(config: Config) -> Iterator[Config]:
    """Configurations with less of something."""
    for fewer in (config.num_blocks - (config.num_blocks // 2 + 1), 1):
        smaller = with_fewer_blocks(config, fewer)
        if smaller is not None:
            yield smaller
    if config.watermark_blocks > 0:
        yield replace(config, watermark_blocks=0)
    if config.max_model_len > 1:
        yield replace(config, max_model_len=config.max_model_len - 1)


def with_fewer_blocks(config: Config, fewer: int) -> Config | None:
    """The configuration with a smaller pool, and a watermark that still fits; None if there is none."""
    num_blocks = config.num_blocks - fewer
    if not 2 <= num_blocks < config.num_blocks:
        return None
    return replace(config, num_blocks=num_blocks, watermark_blocks=min(config.watermark_blocks, num_blocks - 2))

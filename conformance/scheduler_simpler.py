"""What the shrinker tries on the actions of a scheduler's trace."""

from collections.abc import Iterator

from slotproof.conformance.actions import Action

NEEDED = ("request", "prompt", "max_tokens", "tokens")
"""Arguments that no action can go without."""


def simpler_scheduler_actions(action: Action) -> Iterator[Action]:
    """The action without an argument it may lack, with a shorter tuple, or with a lower number."""
    for name, value in action.arguments.items():
        others = {key: other for key, other in action.arguments.items() if key != name}
        if name not in NEEDED:
            yield Action(action.verb, others)
        if isinstance(value, tuple):
            for index in reversed(range(len(value))):
                if len(value) > 1:
                    yield Action(action.verb, {**action.arguments, name: (*value[:index], *value[index + 1 :])})
                if value[index] == 2:
                    yield Action(action.verb, {**action.arguments, name: (*value[:index], 1, *value[index + 1 :])})
        elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
            yield Action(action.verb, {**action.arguments, name: value - 1})

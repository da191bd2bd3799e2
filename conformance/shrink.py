"""The shrinker: the shortest trace it can find that still breaks the same law.

It deletes actions, drops and lowers arguments, shortens prompts and takes blocks out of the pool, as long as the target
still breaks the law. Any part of a trace is a trace, so deletion needs no repair.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

from slotproof.conformance.actions import Action
from slotproof.conformance.adapter import Adapter
from slotproof.conformance.deviations import Deviation
from slotproof.conformance.replay import Failure, replay
from slotproof.spec.config import Config

MAX_REPLAYS = 4000
"""A bound on the work, far above what a trace of a hundred actions needs."""


MAX_ACTIONS_FOR_PAIRS = 20

MAY_LACK = ("new", "lookahead", "whole", "reserved", "alone", "drafts", "salt", "extra", "uncommitted", "external")
"""Arguments that an action may go without."""


class Shrinker:
    """Keeps the best failure so far."""

    def __init__(
        self,
        adapter: Adapter,
        failure: Failure,
        law_ids: tuple[str, ...] = (),
        deviations: tuple[Deviation, ...] = (),
    ) -> None:
        self._adapter = adapter
        self._law_ids = law_ids
        self._deviations = deviations
        self._law_id = failure.violation.law_id
        self._replays = 0
        self.best = failure

    def run(self) -> Failure:
        """Shrink until nothing helps any more."""
        passes: tuple[Callable[[], bool], ...] = (
            self._delete_runs,
            self._absorb_outputs,
            self._simplify_actions,
            self._simplify_config,
            self._delete_pairs,
            self._delete_with_fewer_blocks,
        )
        improved = True
        while improved and self._replays < MAX_REPLAYS:
            improved = sum(attempt() for attempt in passes) > 0
        return self.best

    def _delete_runs(self) -> bool:
        """Try without each run of actions, long runs first, from the end."""
        improved = False
        length = max(1, len(self.best.actions) // 2)
        while length >= 1:
            start = len(self.best.actions) - length
            while start >= 0:
                actions = self.best.actions
                improved |= self._keep(self.best.config, actions[:start] + actions[start + length :])
                start = min(start - length, len(self.best.actions) - length)
            length //= 2
        return improved

    def _absorb_outputs(self) -> bool:
        """Try with a sampled token as part of the prompt, without the steps that computed and returned it."""
        improved = False
        position = len(self.best.actions) - 1
        while position >= 0:
            improved |= self._keep(self.best.config, absorbed(self.best.actions, position))
            position = min(position - 1, len(self.best.actions) - 1)
        return improved

    def _delete_pairs(self) -> bool:
        """Try without each two actions: an admission and its free often go only together."""
        if len(self.best.actions) > MAX_ACTIONS_FOR_PAIRS:
            return False
        for first, second in combinations(range(len(self.best.actions)), 2):
            kept = [action for index, action in enumerate(self.best.actions) if index not in (first, second)]
            if self._keep(self.best.config, tuple(kept)):
                return True
        return False

    def _delete_with_fewer_blocks(self) -> bool:
        """Try without an action and some blocks: a request may only be there to fill the pool."""
        for position in range(len(self.best.actions) if len(self.best.actions) <= MAX_ACTIONS_FOR_PAIRS else 0):
            kept = self.best.actions[:position] + self.best.actions[position + 1 :]
            for num_blocks in range(self.best.config.num_blocks - 1, max(1, self.best.config.num_blocks - 5), -1):
                smaller = with_fewer_blocks(self.best.config, num_blocks)
                if smaller is not None and self._keep(smaller, kept):
                    return True
        return False

    def _simplify_actions(self) -> bool:
        """Try each action with simpler arguments."""
        improved = False
        position = len(self.best.actions) - 1
        while position >= 0:
            for simpler in simpler_actions(self.best.actions[position]):
                actions = self.best.actions
                if self._keep(self.best.config, (*actions[:position], simpler, *actions[position + 1 :])):
                    improved = True
                    break
            position = min(position - 1, len(self.best.actions) - 1)
        return improved

    def _simplify_config(self) -> bool:
        """Try smaller pools and no watermark."""
        return any(self._keep(config, self.best.actions) for config in simpler_configs(self.best.config))

    def _keep(self, config: Config, actions: tuple[Action, ...]) -> bool:
        """Whether the target still breaks the law on these actions, which then are the best."""
        if self._replays >= MAX_REPLAYS or (actions == self.best.actions and config == self.best.config):
            return False
        self._replays += 1
        failure = replay(self._adapter, config, actions, law_ids=self._law_ids, deviations=self._deviations)
        if failure is None or self._law_id not in failure.violation.law_ids:
            return False
        self.best = failure
        return True


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
    for num_blocks in (config.num_blocks // 2 + 1, config.num_blocks - 1):
        smaller = with_fewer_blocks(config, num_blocks)
        if smaller is not None:
            yield smaller
    if config.watermark_blocks > 0:
        yield replace(config, watermark_blocks=0)
    if config.max_model_len > 1:
        yield replace(config, max_model_len=config.max_model_len - 1)


def with_fewer_blocks(config: Config, num_blocks: int) -> Config | None:
    """The configuration with a smaller pool, and a watermark that still fits; None if there is none."""
    if not 2 <= num_blocks < config.num_blocks:
        return None
    return replace(config, num_blocks=num_blocks, watermark_blocks=min(config.watermark_blocks, num_blocks - 2))

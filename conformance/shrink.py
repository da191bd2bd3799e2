"""The shrinker: the shortest trace it can find that still breaks the same law.

It deletes actions, drops and lowers arguments, shortens prompts and takes blocks out of the pool, as long as the target
still breaks the law. Any part of a trace is a trace, so deletion needs no repair.
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any

from slotproof.conformance.actions import Action
from slotproof.conformance.deviations import Deviation
from slotproof.conformance.replay import Failure, replay
from slotproof.conformance.subject import subject_of

MAX_REPLAYS = 4000
"""A bound on the work, far above what a trace of a hundred actions needs."""


MAX_ACTIONS_FOR_PAIRS = 20


class Shrinker:
    """Keeps the best failure so far."""

    def __init__(
        self,
        adapter: Any,
        failure: Failure,
        law_ids: tuple[str, ...] = (),
        deviations: tuple[Deviation, ...] = (),
    ) -> None:
        self._adapter = adapter
        self._subject = subject_of(adapter)
        self._law_ids = law_ids
        self._deviations = deviations
        self._found = failure.violation
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
            improved |= self._keep(self.best.config, self._subject.absorbed(self.best.actions, position))
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
            for fewer in range(1, 5):
                smaller = self._subject.with_fewer_blocks(self.best.config, fewer)
                if smaller is not None and self._keep(smaller, kept):
                    return True
        return False

    def _simplify_actions(self) -> bool:
        """Try each action with simpler arguments."""
        improved = False
        position = len(self.best.actions) - 1
        while position >= 0:
            for simpler in self._subject.simpler_actions(self.best.actions[position]):
                actions = self.best.actions
                if self._keep(self.best.config, (*actions[:position], simpler, *actions[position + 1 :])):
                    improved = True
                    break
            position = min(position - 1, len(self.best.actions) - 1)
        return improved

    def _simplify_config(self) -> bool:
        """Try smaller pools and no watermark."""
        return any(self._keep(config, self.best.actions) for config in self._subject.simpler_configs(self.best.config))

    def _keep(self, config: Any, actions: tuple[Action, ...]) -> bool:
        """Whether the target still breaks the law on these actions, which then are the best."""
        if self._replays >= MAX_REPLAYS or (actions == self.best.actions and config == self.best.config):
            return False
        self._replays += 1
        failure = replay(self._adapter, config, actions, law_ids=self._law_ids, deviations=self._deviations)
        if failure is None or not self._subject.same(self._found, failure.violation):
            return False
        self.best = failure
        return True

"""The random driver: volume. It walks episode after episode of a seeded walk, each in a fresh pool of a configuration
of its own.
"""

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from slotproof.conformance.actions import Action
from slotproof.conformance.deviations import Deviation
from slotproof.conformance.replay import Failure
from slotproof.conformance.session import Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.subject import subject_of
from slotproof.conformance.violation import EpisodeOver, Violation

Item = TypeVar("Item")

EPISODE_STEPS = 250


class SeededChooser:
    """Choices of a seeded generator; the same seed makes the same choices on every platform."""

    ways = 9

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def integer(self, low: int, high: int) -> int:
        """An integer of the closed range."""
        return low + int(self._random() * (high - low + 1))

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[int(self._random() * len(items))]

    def chance(self, percent: int) -> bool:
        """True so many times in a hundred."""
        return self._random() * 100 < percent


def walk_episode(
    adapter: Any,
    settings: Settings,
    seed: str,
    steps: int,
    tally: Tally,
    *,
    law_ids: Sequence[str] = (),
    deviations: Sequence[Deviation] = (),
) -> Failure | None:
    """One episode of `steps` actions."""
    chooser, subject = SeededChooser(seed), subject_of(adapter)
    config = subject.draw(settings, chooser, adapter.profile)
    session = subject.begin(adapter, config, tally, law_ids=law_ids, deviations=deviations)
    deck, actions = subject.deck(config), list[Action]()
    while len(actions) < steps:
        verb = chooser.pick(deck)
        arguments = verb.propose(session, chooser)
        if arguments is None:
            continue
        actions.append(Action(verb.name, arguments))
        try:
            verb.run(session, arguments)
        except Violation as violation:
            return Failure(config, tuple(actions), violation)
        except EpisodeOver:
            return None
    return None

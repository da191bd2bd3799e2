"""Carrying a fixed list of actions out on a target: what vectors, counterexamples and the shrinker do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slotproof.conformance.actions import Action
from slotproof.conformance.deviations import Deviation
from slotproof.conformance.session import Tally
from slotproof.conformance.subject import subject_of
from slotproof.conformance.violation import EpisodeOver, Violation


@dataclass(slots=True)
class Failure:
    """A run that ended in a violation: the configuration and every action up to the one that broke a law."""

    config: Any
    actions: tuple[Action, ...]
    violation: Violation


def replay(
    adapter: Any,
    config: Any,
    actions: Sequence[Action],
    *,
    tally: Tally | None = None,
    law_ids: Sequence[str] = (),
    deviations: Sequence[Deviation] = (),
) -> Failure | None:
    """Carry the actions out on a fresh pool; the failure ends with the action that broke a law."""
    subject = subject_of(adapter)
    session = subject.begin(adapter, config, tally or Tally.fresh(), law_ids=law_ids, deviations=deviations)
    for position, action in enumerate(actions):
        try:
            subject.perform(session, action)
        except Violation as violation:
            return Failure(config, tuple(actions[: position + 1]), violation)
        except EpisodeOver:
            return None
    return None

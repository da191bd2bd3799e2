"""Carrying a fixed list of actions out on a target: what vectors, counterexamples and the shrinker do."""

from collections.abc import Sequence
from dataclasses import dataclass

from slotproof.conformance.actions import Action, perform
from slotproof.conformance.adapter import Adapter
from slotproof.conformance.deviations import Deviation
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.violation import Violation
from slotproof.spec.config import Config


@dataclass(slots=True)
class Failure:
    """A run that ended in a violation: the configuration and every action up to the one that broke a law."""

    config: Config
    actions: tuple[Action, ...]
    violation: Violation


def replay(
    adapter: Adapter,
    config: Config,
    actions: Sequence[Action],
    *,
    tally: Tally | None = None,
    law_ids: Sequence[str] = (),
    deviations: Sequence[Deviation] = (),
) -> Failure | None:
    """Carry the actions out on a fresh pool; the failure ends with the action that broke a law."""
    session = Session(adapter, config, tally or Tally.fresh(), law_ids=law_ids, deviations=deviations)
    for position, action in enumerate(actions):
        try:
            perform(session, action)
        except Violation as violation:
            return Failure(config, tuple(actions[: position + 1]), violation)
    return None

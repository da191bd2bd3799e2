"""The two kinds of target, and what walking, replaying and shrinking need to know of each: its action table, how an
episode over it begins, and how its traces are made simpler.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from slotproof.conformance.actions import VERBS, Action, Verb
from slotproof.conformance.engine import Engine
from slotproof.conformance.scheduler_actions import SCHEDULER_VERBS
from slotproof.conformance.scheduler_laws import kind_of
from slotproof.conformance.scheduler_settings import draw_engine, engine_with_fewer_blocks, simpler_engines
from slotproof.conformance.scheduler_simpler import simpler_scheduler_actions
from slotproof.conformance.session import Session
from slotproof.conformance.settings import Settings
from slotproof.conformance.simpler import absorbed, simpler_actions, simpler_configs, with_fewer_blocks
from slotproof.conformance.violation import Violation


@dataclass(frozen=True, slots=True)
class Subject:
    """One kind of target."""

    verbs: tuple[Verb[Any], ...]
    begin: Callable[..., Any]
    """Adapter, configuration and tally; selected laws and known deviations by name."""
    draw: Callable[..., Any]
    """Settings, chooser and profile to a configuration."""
    simpler_actions: Callable[[Action], Iterator[Action]]
    simpler_configs: Callable[[Any], Iterator[Any]]
    with_fewer_blocks: Callable[[Any, int], Any]
    absorbed: Callable[[tuple[Action, ...], int], tuple[Action, ...]]
    same: Callable[[Violation, Violation], bool]
    """Whether the second violation is still the first."""
    small: Callable[[Settings, Any, int], Any]
    """What short walks draw from that look for the same violation as a configuration, apart by a number."""
    named_by: tuple[str, ...] = ("request", "abort")
    """Arguments that name a request by a name of the trace's own."""

    def deck(self, config: Any) -> tuple[Verb[Any], ...]:
        """Each verb as often as it is to be tried in a configuration."""
        return tuple(verb for verb in self.verbs if verb.applies(config) for _ in range(verb.weight))

    def perform(self, session: Any, action: Action) -> None:
        """Carry an action out; it does nothing where the episode has no use for it."""
        next(verb for verb in self.verbs if verb.name == action.verb).run(session, action.arguments)


ALLOCATOR = Subject(
    VERBS,
    Session,
    lambda settings, chooser, profile: settings.draw(chooser, profile),
    simpler_actions,
    simpler_configs,
    with_fewer_blocks,
    absorbed,
    lambda first, second: first.law_id in second.law_ids,
    lambda settings, config, number: replace(
        settings, num_blocks=settings.num_blocks or 2 + len(config.groups) + number % 3
    ),
)

SCHEDULER = Subject(
    SCHEDULER_VERBS,
    Engine,
    draw_engine,
    simpler_scheduler_actions,
    simpler_engines,
    engine_with_fewer_blocks,
    lambda actions, position: actions,
    lambda first, second: (first.law_id, kind_of(first.objection)) == (second.law_id, kind_of(second.objection)),
    lambda settings, config, number: settings,
)


def is_scheduler(adapter: object) -> bool:
    """Whether it is a scheduler that is to be verified, not an allocator."""
    return callable(getattr(adapter, "schedule", None))


def subject_of(adapter: object) -> Subject:
    """The kind of target an adapter stands for; what is walked like a target may bring a kind of its own."""
    own = getattr(adapter, "subject", None)
    if isinstance(own, Subject):
        return own
    return SCHEDULER if is_scheduler(adapter) else ALLOCATOR

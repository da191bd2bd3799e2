"""From the first violation of a walk to the trace worth showing: short walks in small pools often break the same law in
fewer calls.
"""

from typing import Any

from slotproof.conformance.actions import Action
from slotproof.conformance.deviations import Deviation
from slotproof.conformance.driver import walk_episode
from slotproof.conformance.replay import Failure, replay
from slotproof.conformance.session import Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.shrink import Shrinker
from slotproof.conformance.subject import subject_of

SHORT_WALKS = 300
SHORT_STEPS = 40
ENOUGH = 4


def shortest_failure(
    adapter: Any,
    settings: Settings,
    found: Failure,
    seed: str,
    law_ids: tuple[str, ...] = (),
    deviations: tuple[Deviation, ...] = (),
) -> Failure:
    """The shortest trace, of the one found and of some found in short walks, that breaks the law that was broken."""
    failures = [Shrinker(adapter, found, law_ids, deviations).run()]
    subject = subject_of(adapter)
    for number in range(SHORT_WALKS):
        if len(failures) > ENOUGH:
            break
        small = subject.small(settings, found.config, number)
        walk = f"{seed}/short/{number}"
        failure = walk_episode(adapter, small, walk, SHORT_STEPS, Tally.fresh(), law_ids=law_ids, deviations=deviations)
        if failure is not None and subject.same(found.violation, failure.violation):
            failures.append(Shrinker(adapter, failure, law_ids, deviations).run())
    return renamed(adapter, min(failures, key=length), law_ids, deviations)


def renamed(adapter: Any, failure: Failure, law_ids: tuple[str, ...], deviations: tuple[Deviation, ...]) -> Failure:
    """The same trace with its requests called A, B, C in the order in which they appear."""
    names: dict[str, str] = {}
    actions = []
    for action in failure.actions:
        arguments = dict(action.arguments)
        for named in subject_of(adapter).named_by:
            if named in arguments:
                arguments[named] = names.setdefault(arguments[named], chr(ord("A") + len(names)))
        if "requests" in arguments:
            arguments["requests"] = tuple(
                names.setdefault(name, chr(ord("A") + len(names))) for name in arguments["requests"]
            )
        actions.append(Action(action.verb, arguments))
    return replay(adapter, failure.config, actions, law_ids=law_ids, deviations=deviations) or failure


def length(failure: Failure) -> tuple[int, int, int]:
    """Fewer actions first, then fewer blocks, then fewer letters."""
    return len(failure.actions), failure.config.num_blocks, len("".join(map(str, failure.actions)))

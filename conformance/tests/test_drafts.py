"""HASH-3, the half that one run cannot show: what a rejected draft was makes no difference to anything."""

import pytest

from slotproof.conformance.actions import Action, perform
from slotproof.conformance.adapter import Adapter
from slotproof.conformance.driver import SeededChooser
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.subject import ALLOCATOR
from slotproof.conformance.targets.impl import ImplAdapter
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.spec.config import Config
from slotproof.spec.request import Request


def walk(adapter: Adapter, groups: str, seed: int) -> tuple[Config, list[Action], dict[int, int]]:
    """A seeded walk, and for each call with drafts how many of them were accepted (all, if it was never processed)."""
    chooser = SeededChooser(f"drafts/{seed}")
    config = Settings(groups).draw(chooser, adapter.profile)
    session = Session(adapter, config, Tally.fresh())
    actions: list[Action] = []
    pending: dict[str, list[tuple[int, int]]] = {}
    accepted: dict[int, int] = {}
    while len(actions) < 200:
        verb = chooser.pick(ALLOCATOR.deck(session.config))
        arguments = verb.propose(session, chooser)
        if arguments is None:
            continue
        name = str(arguments.get("request"))
        before, earlier = session.world.requests.get(name), session.world.requests
        verb.run(session, arguments)
        after = session.world.requests.get(name)
        for row in arguments.get("requests", ()):
            if gained_a_flight(earlier[row], session.world.requests[row]):
                pending.setdefault(row, []).append((len(actions), 0))
        if verb.name in ("admit", "retry", "extend") and gained_a_flight(before, after):
            assert after is not None
            pending.setdefault(name, []).append((len(actions), len(after.flights[-1].drafts)))
        elif verb.name == "output" and before and after and len(after.flights) < len(before.flights):
            call, num_drafts = pending[name].pop(0)
            accepted[call] = num_drafts - (before.num_computed_tokens - after.num_computed_tokens)
        elif verb.name in ("preempt", "free", "defer"):
            for call, _ in pending.pop(name, []):
                accepted[call] = 0
        actions.append(Action(verb.name, arguments))
    return config, actions, accepted


def gained_a_flight(before: Request | None, after: Request | None) -> bool:
    return after is not None and len(after.flights) > (len(before.flights) if before else 0)


def with_other_rejected_drafts(actions: list[Action], accepted: dict[int, int]) -> tuple[list[Action], int]:
    """The same calls with every rejected draft replaced by the other token id, and how many were."""
    others, changed = [], 0
    for index, action in enumerate(actions):
        drafts = action.arguments.get("drafts")
        if drafts and index in accepted:
            kept = drafts[: accepted[index]]
            swapped = tuple(3 - token for token in drafts[accepted[index] :])
            changed += len(swapped)
            action = Action(action.verb, {**action.arguments, "drafts": kept + swapped})
        others.append(action)
    return others, changed


def outcome(adapter: Adapter, config: Config, actions: list[Action]) -> list[object]:
    """Every answer, then everything the allocator knows."""
    session = Session(adapter, config, Tally.fresh())
    for action in actions:
        perform(session, action)
    answers = [getattr(event, "answer", None) for event in session.answers]
    return [*answers, session.snapshot.key(), adapter.snapshot()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("make", [ReferenceAdapter, ImplAdapter])
@pytest.mark.parametrize("groups", ["full", "window", "full,window", "partial"])
def test_runs_that_differ_in_rejected_drafts_only_end_alike(make: type[Adapter], groups: str) -> None:
    changed = 0
    for seed in range(6):
        config, actions, accepted = walk(make(), groups, seed)
        others, swapped = with_other_rejected_drafts(actions, accepted)
        changed += swapped
        assert outcome(make(), config, others) == outcome(make(), config, actions), f"seed {seed}"
    assert changed > 10


def test_the_comparison_sees_a_single_token() -> None:
    config, actions, _ = walk(ImplAdapter(), "full", 0)
    first = next(index for index, action in enumerate(actions) if action.verb == "admit")
    prompt = actions[first].arguments["prompt"]
    other = Action("admit", {**actions[first].arguments, "prompt": (3 - prompt[0], *prompt[1:])})
    changed = [*actions[:first], other, *actions[first + 1 :]]
    assert outcome(ImplAdapter(), config, changed) != outcome(ImplAdapter(), config, actions)

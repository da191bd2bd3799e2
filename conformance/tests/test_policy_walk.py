"""Policies on random turns: the references keep every law, planted faults are found and shrunk, seeds decide."""

from dataclasses import replace

import pytest

from slotproof.conformance.plan import Plan
from slotproof.conformance.policy_actions import action_of
from slotproof.conformance.policy_diff import Relation
from slotproof.conformance.policy_run import PolicyTarget
from slotproof.conformance.policy_walk import Walk, Walked, trace_of, walk_diff
from slotproof.conformance.scheduler_judge import LAW_IDS
from slotproof.conformance.verify import settings_for
from slotproof.spec.scheduler import FCFS, PRIORITY, VLLM_PRIORITY, Policy

from .planted_policies import PLANTED

BY_NAME = {planted.name: planted for planted in PLANTED}


def walked(old: Policy, new: Policy, steps: int, seed: int = 0, groups: tuple[str, ...] = ("full",)) -> Walked:
    return walk_diff(old, new, Plan("", settings_for(groups), seed=seed, steps=steps))


@pytest.mark.parametrize("policy", [FCFS, PRIORITY], ids=lambda policy: policy.name)
def test_the_references_keep_every_law_in_larger_worlds(policy: Policy) -> None:
    again = replace(policy, name="again")
    result = walked(policy, again, 1500, groups=("full", "window", "full,window"))
    assert (result.relation, result.old_breaks, result.trace) == (Relation.EQUAL, frozenset(), None)
    assert result.turns >= 1500


@pytest.mark.slow
@pytest.mark.parametrize("policy", [FCFS, PRIORITY], ids=lambda policy: policy.name)
def test_the_references_keep_every_law_on_a_long_walk(policy: Policy) -> None:
    walk = Walk(Plan("", settings_for(["full", "window", "full,window"]), steps=100_000, seed=1), lambda _: None)
    assert walk.laws_broken(PolicyTarget(policy)) == frozenset()


@pytest.mark.parametrize(
    ("name", "law_id", "most_turns"),
    [
        ("livelock", "SCHED-2", 5),
        ("livelock of what never fits", "SCHED-2", 14),
        pytest.param("starvation", "SCHED-5", 12, marks=pytest.mark.slow),
        ("giving up", "SCHED-5", 4),
        ("leak on abort", "FREE-1", 3),
        pytest.param("budget counted twice", "SCHED-1", 16, marks=pytest.mark.slow),
    ],
)
def test_a_planted_fault_is_found_and_shrunk(name: str, law_id: str, most_turns: int) -> None:
    target = PolicyTarget(BY_NAME[name].policy)
    walk = Walk(Plan("", settings_for(["full"]), steps=20_000, seed=2), lambda _: None)
    failure = walk.first_failure(target, (law_id,))
    assert failure is not None
    found = trace_of(target, failure)
    assert [objecting for objecting, _ in found.objections] == [law_id]
    assert len(found.turns) <= most_turns
    assert (found.repeats_from is not None) == (name == "starvation")


def test_what_old_breaks_is_not_held_against_new() -> None:
    result = walked(VLLM_PRIORITY, replace(VLLM_PRIORITY, name="again"), 2500)
    assert "SCHED-5" in result.old_breaks
    assert (result.relation, result.trace) == (Relation.EQUAL, None)


def test_the_first_other_decision_is_shrunk() -> None:
    result = walked(FCFS, PRIORITY, 1000, seed=2)
    assert result.relation == Relation.DIFFERENT
    assert result.trace is not None
    assert result.instead is not None
    assert len(result.trace.turns) <= 4
    assert result.instead.decisions != result.trace.turns[-1].decisions


def test_the_same_seed_makes_the_same_trace() -> None:
    first, second = (walked(FCFS, BY_NAME["giving up"].policy, 200, seed=7) for _ in range(2))
    assert first.trace is not None
    assert second.trace is not None
    assert [action_of(turn.event) for turn in first.trace.turns] == [
        action_of(turn.event) for turn in second.trace.turns
    ]
    assert first.trace.objections == second.trace.objections


def test_laws_that_are_not_asked_for_are_not_judged() -> None:
    target = PolicyTarget(BY_NAME["leak on abort"].policy)
    others = tuple(law_id for law_id in LAW_IDS if not law_id.startswith(("FREE", "POOL", "LEAK", "COMMIT")))
    walk = Walk(Plan("", settings_for(["full"]), steps=300), lambda _: None)
    failure = walk.first_failure(target, others)
    assert failure is None or failure.violation.law_id in others

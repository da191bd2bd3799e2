"""Planted faults in a scheduling policy: each is found, with the shortest trace, and the right law names it."""

import pytest

from slotproof.conformance.policy_actions import action_of
from slotproof.conformance.scheduler_search import explore_policy
from slotproof.spec.scheduler import FCFS

from .planted_policies import PLANTED, Planted


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_fault_is_found_by_the_shortest_trace_and_named(planted: Planted) -> None:
    explored = explore_policy(planted.policy, planted.world, (planted.law_id,), first_only=True)
    (found,) = explored.found
    assert found.objections[0][0] == planted.law_id
    assert tuple(str(action_of(turn.event)) for turn in found.turns) == planted.actions
    assert found.repeats_from == planted.repeats_from


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_the_reference_keeps_every_law_in_the_same_world(planted: Planted) -> None:
    explored = explore_policy(FCFS, planted.world)
    assert (explored.found, explored.exhausted) == ((), True)

"""Two policies: equal, refining, different, or breaking a law; and what to say when the time is up."""

from dataclasses import replace

import pytest

from slotproof.conformance.policy_diff import Relation, diff
from slotproof.conformance.scheduler_worlds import WORLDS
from slotproof.spec.admission import Call
from slotproof.spec.scheduler import FCFS, PRIORITY, VLLM_PRIORITY, Policy, SchedulerState
from slotproof.spec.scheduler.ending import at_once
from slotproof.spec.scheduler.policy import skip


def one_more(state: SchedulerState, call: Call) -> int:
    """Keeps a block free beside what others need."""
    return FCFS.reserved(state, call) + (1 if state.running else 0)


@pytest.mark.parametrize("world", ["plain", "chunks", "window"])
def test_a_policy_is_equal_to_itself(world: str) -> None:
    result = diff(FCFS, replace(FCFS, name="again"), WORLDS[world])
    assert (result.relation, result.trace, result.is_fine) == (Relation.EQUAL, None, True)
    assert result.new_explored.states > 50


def test_what_only_admits_less_refines() -> None:
    result = diff(FCFS, replace(FCFS, name="careful", reserved=one_more), WORLDS["plain"])
    assert (result.relation, result.is_fine) == (Relation.REFINES, True)


def test_refining_is_not_symmetric() -> None:
    result = diff(replace(FCFS, name="careful", reserved=one_more), FCFS, WORLDS["plain"])
    assert result.relation == Relation.DIFFERENT


def test_a_different_decision_ends_the_shortest_trace() -> None:
    result = diff(FCFS, PRIORITY, WORLDS["priority"])
    assert result.relation == Relation.DIFFERENT
    assert result.trace is not None
    assert result.instead is not None
    events = [type(turn.event).__name__ for turn in result.trace.turns]
    assert events == ["Arrived", "Arrived", "Scheduled"]
    assert [entry.request_id for entry in result.trace.turns[-1].entries] != [
        entry.request_id for entry in result.instead.entries
    ]


def test_when_blocks_come_back_is_a_difference() -> None:
    result = diff(FCFS, replace(FCFS, name="at once", give_back=at_once), WORLDS["ahead"])
    assert result.relation == Relation.DIFFERENT


def test_a_law_that_old_keeps_and_new_breaks_comes_first() -> None:
    result = diff(PRIORITY, VLLM_PRIORITY, WORLDS["same-step-victim"])
    assert result.relation == Relation.BREAKS
    assert result.trace is not None
    assert [law_id for law_id, _ in result.trace.objections] == ["SCHED-4"]


def test_a_law_that_both_break_is_not_held_against_new() -> None:
    policy: Policy = replace(VLLM_PRIORITY, name="the same")
    result = diff(VLLM_PRIORITY, policy, WORLDS["same-step-victim"])
    assert result.old_explored.broken == {"SCHED-4"}
    assert result.relation == Relation.EQUAL


def test_an_unfinished_search_says_nothing() -> None:
    result = diff(FCFS, replace(FCFS, name="again"), WORLDS["abort"], seconds=0.001)
    assert (result.relation, result.is_fine) == (Relation.UNKNOWN, False)


def test_skipping_is_more_than_refining() -> None:
    assert diff(FCFS, replace(FCFS, on_refusal=skip), WORLDS["plain"]).relation in (
        Relation.DIFFERENT,
        Relation.BREAKS,
    )

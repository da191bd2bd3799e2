"""Lassos in graphs drawn by hand: which cycle is fair, which is the nearest, and who waits on it."""

from types import MappingProxyType
from typing import Any

import pytest

from slotproof.conformance.lasso import Graph, components, find_lasso, without
from slotproof.spec import Config, FullAttention
from slotproof.spec.scheduler import FCFS, Job, SchedulerState, Scope, start, take_turn
from slotproof.spec.scheduler.turn import Aborted, Arrived, Happening, LoadDone, Processed, Scheduled

SCOPE = Scope(Config(4, (FullAttention(2),), 8, 8), (Job("A", (1,), (1,)), Job("U", (2,), (1,), priority=-1)), 4)
STEP = Scheduled()


def state_with(*names: str, **parts: Any) -> SchedulerState:
    """A state in which these requests are there."""
    state = start(SCOPE)
    for name in names:
        state = take_turn(FCFS, state, Arrived(name)).after
    return SchedulerState(state.scope, state.keys, state.snapshot, state.memory, state.requests, **parts)


def graph_of(states: dict[str, SchedulerState], *turns: tuple[str, Happening, str]) -> Graph:
    graph = Graph()
    for name, state in states.items():
        graph.states[name], graph.edges[name] = state, []
    for before, event, after in turns:
        graph.add(before, states[before], event, after)
    return graph


A, NOBODY = state_with("A"), state_with()


def test_a_step_that_changes_nothing_is_a_lasso() -> None:
    graph = graph_of({"0": NOBODY, "1": A}, ("0", Arrived("A"), "1"), ("1", STEP, "1"))
    lasso = find_lasso(graph, ["A"])
    assert lasso is not None
    assert lasso.cycle == ("1", "1")


def test_the_nearest_cycle_is_taken() -> None:
    states = dict.fromkeys("0123", A)
    graph = graph_of(states, ("0", STEP, "1"), ("1", STEP, "2"), ("2", STEP, "1"), ("2", STEP, "3"), ("3", STEP, "3"))
    lasso = find_lasso(graph, ["A"])
    assert lasso is not None
    assert lasso.cycle == ("1", "2", "1")


@pytest.mark.parametrize(
    "turns",
    [
        (("0", Arrived("A"), "1"), ("1", STEP, "0")),
        (("1", Arrived("U"), "1"),),
        (("1", STEP, "2"), ("2", Aborted("U"), "1")),
        (("1", STEP, "2"),),
    ],
    ids=["A is not there all the time", "nothing is scheduled", "an abort", "no cycle"],
)
def test_no_lasso(turns: tuple[tuple[str, Happening, str], ...]) -> None:
    graph = graph_of({"0": NOBODY, "1": A, "2": A}, *turns)
    assert find_lasso(graph, ["A"]) is None


def test_a_more_urgent_newcomer_excuses_the_wait() -> None:
    turns = ("1", Arrived("U"), "2"), ("2", STEP, "1")
    states = {"1": state_with("A"), "2": state_with("A", "U")}
    assert find_lasso(graph_of(states, *turns), ["A"]) is None
    assert find_lasso(graph_of(states, ("1", STEP, "2"), ("2", STEP, "1")), ["A"]) is not None


def test_a_step_in_flight_must_end_on_the_cycle() -> None:
    flying = state_with("A", steps=((),))
    states = {"1": flying, "2": flying}
    there_and_back = ("1", STEP, "2"), ("2", STEP, "1")
    assert find_lasso(graph_of(states, *there_and_back), ["A"]) is None
    lasso = find_lasso(graph_of(states, *there_and_back, ("1", Processed(MappingProxyType({})), "1")), ["A"])
    assert lasso is not None
    assert len(lasso.cycle) == 4


def test_a_load_must_end_on_the_cycle() -> None:
    loading = state_with("A", loading=("A",))
    states = {"1": loading, "2": loading, "3": A}
    assert find_lasso(graph_of(states, ("1", STEP, "2"), ("2", STEP, "1")), ["A"]) is None
    graph = graph_of(states, ("1", STEP, "2"), ("2", LoadDone("A"), "3"), ("3", STEP, "1"))
    assert find_lasso(graph, ["A"]) is not None


def test_components_are_found_without_recursion() -> None:
    names = [str(number) for number in range(3000)]
    ring = [(one, STEP, other) for one, other in zip(names, [*names[1:], names[0]], strict=True)]
    graph = graph_of(dict.fromkeys(names, A), *ring)
    assert [len(component) for component in components(without(graph, "A"))] == [3000]

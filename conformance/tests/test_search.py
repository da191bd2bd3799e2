"""The search on worlds whose numbers of states, steps and shortest ways can be counted by hand."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import pytest

from slotproof.conformance.search import BATCH, Model, Outcome, Progress, UnsoundRenaming, search, walk

Jugs = tuple[int, int]


@dataclass(frozen=True)
class WaterJugs(Model[Jugs, str]):
    """Two jugs, of 3 and 5 litres, and the way to 4 litres, which takes 6 steps. 16 states can be reached."""

    forbidden: Jugs | None = None
    forbidden_step: str | None = None
    forbidden_content: int | None = None

    def initial(self) -> Jugs:
        return 0, 0

    def successors(self, state: Jugs) -> Iterator[tuple[str, Jugs]]:
        small, large = state
        yield "fill small", (3, large)
        yield "fill large", (small, 5)
        yield "empty small", (0, large)
        yield "empty large", (small, 0)
        poured = min(small, 5 - large)
        yield "pour into large", (small - poured, large + poured)
        poured = min(large, 3 - small)
        yield "pour into small", (small + poured, large - poured)

    def canonical(self, state: Jugs) -> Hashable:
        return state

    def objection_to_step(self, before: Jugs, action: str, after: Jugs) -> str | None:
        return f"{before} may not {action}" if action == self.forbidden_step and before[0] == 2 else None

    def objection_to_state(self, state: Jugs) -> str | None:
        if state == self.forbidden:
            return f"{state} is forbidden"
        return "that much is forbidden" if self.forbidden_content in state else None


Lights = tuple[bool, ...]


@dataclass(frozen=True)
class AlikeLights(Model[Lights, int]):
    """Lights in a row, each of which can be switched; they differ by their places only."""

    number: int
    renaming: bool

    def initial(self) -> Lights:
        return (False,) * self.number

    def successors(self, state: Lights) -> Iterator[tuple[int, Lights]]:
        for place in range(self.number):
            yield place, (*state[:place], not state[place], *state[place + 1 :])

    def canonical(self, state: Lights) -> Hashable:
        return sum(state) if self.renaming else state

    def objection_to_state(self, state: Lights) -> str | None:
        return "all lights are on" if all(state) else None


@dataclass(frozen=True)
class Tracks(Model[tuple[str, int], str]):
    """Two tracks, of which the one on the right is a dead end; wrongly taken for alike."""

    def initial(self) -> tuple[str, int]:
        return "right", 0

    def successors(self, state: tuple[str, int]) -> Iterator[tuple[str, tuple[str, int]]]:
        track, place = state
        if track == "left" or place == 0:
            yield "on", (track, place + 1)

    def canonical(self, state: tuple[str, int]) -> Hashable:
        return state[1]

    def objection_to_state(self, state: tuple[str, int]) -> str | None:
        return "the end" if state[1] == 3 else None

    def unpack(self, packed: bytes) -> tuple[str, int]:
        return "left", super().unpack(packed)[1]


def test_everything_is_visited_once_and_every_step_counted() -> None:
    outcome = search(WaterJugs())
    assert (outcome.states, outcome.transitions, outcome.exhausted) == (16, 16 * 6, True)
    assert outcome.violation is None
    assert outcome.depth == 7
    assert len(set(outcome.keys)) == 16
    assert outcome.parents[0] == -1
    assert all(parent < number for number, parent in enumerate(outcome.parents))


def test_the_first_objection_to_a_state_ends_the_shortest_trace() -> None:
    outcome = search(WaterJugs(forbidden_content=4))
    assert outcome.violation is not None
    assert outcome.violation.objection == "that much is forbidden"
    assert outcome.violation.actions == (
        "fill large",
        "pour into small",
        "empty small",
        "pour into small",
        "fill large",
        "pour into small",
    )
    assert outcome.violation.states[0] == (0, 0)
    assert outcome.violation.states[-1] == (3, 4)
    assert not outcome.exhausted


def test_an_objection_to_a_step_names_the_step() -> None:
    outcome = search(WaterJugs(forbidden_step="fill large"))
    assert outcome.violation is not None
    assert outcome.violation.objection == "(2, 0) may not fill large"
    assert len(outcome.violation.actions) == 5


def test_the_initial_state_is_judged_too() -> None:
    outcome = search(WaterJugs(forbidden=(0, 0)))
    assert outcome.violation is not None
    assert outcome.violation.actions == ()
    assert (outcome.states, outcome.transitions) == (1, 0)


def test_states_that_differ_by_names_only_are_visited_once() -> None:
    plain, renamed = (search(AlikeLights(5, renaming)) for renaming in (False, True))
    assert (plain.violation is None, renamed.violation is None) == (False, False)
    assert (plain.states, renamed.states) == (31, 5)
    assert {sum(key) for key in plain.keys} == set(renamed.keys)  # type: ignore[arg-type]
    assert renamed.violation is not None
    assert len(renamed.violation.actions) == 5
    assert renamed.violation.states[-1] == (True,) * 5


def facts(outcome: Outcome[Lights, int]) -> tuple[object, ...]:
    trace = outcome.violation
    found = None if trace is None else (trace.actions, trace.objection)
    counts = outcome.states, outcome.transitions, outcome.depth, outcome.exhausted
    return (*counts, found, outcome.keys, list(outcome.parents))


@pytest.mark.parametrize("max_states", [None, 700])
def test_the_number_of_processes_changes_nothing(max_states: int | None) -> None:
    """1,023 states, in levels of up to 252, which is more than a batch."""
    model = AlikeLights(10, renaming=False)
    alone, shared = (search(model, workers=workers, max_states=max_states) for workers in (1, 2))
    assert facts(shared) == facts(alone)
    assert alone.exhausted is False
    assert alone.states == (1023 if max_states is None else 700)


def test_a_limit_on_states_stops_a_prefix_of_the_same_search() -> None:
    whole, part = search(WaterJugs()), search(WaterJugs(), max_states=9)
    assert (part.states, part.exhausted) == (9, False)
    assert part.keys == whole.keys[:9]
    assert search(WaterJugs(), max_states=16).exhausted
    assert search(WaterJugs(), max_states=15).exhausted is False


def test_a_time_limit_stops_after_a_batch() -> None:
    outcome = search(AlikeLights(10, renaming=False), seconds=0.0)
    assert (outcome.states, outcome.transitions, outcome.exhausted) == (11, 10, False)


def test_progress_is_told_after_every_batch() -> None:
    told: list[Progress] = []
    outcome = search(AlikeLights(9, renaming=False), on_progress=told.append)
    assert [progress.states for progress in told] == sorted(progress.states for progress in told)
    assert told[-1].states <= outcome.states
    assert len(told) >= outcome.states / BATCH
    assert max(progress.waiting for progress in told) == 126


def test_a_path_leads_from_the_initial_state_to_any_other() -> None:
    outcome = search(WaterJugs())
    for number in range(outcome.states):
        way = walk(WaterJugs(), outcome.path_to(number))
        assert way.states[0] == (0, 0)
        assert way.states[-1] == outcome.keys[number]
        assert len(way.actions) <= outcome.depth


def test_a_renaming_that_is_no_symmetry_is_noticed_when_the_trace_is_walked() -> None:
    with pytest.raises(UnsoundRenaming, match="two states have the same key, but only one of them can take a step"):
        search(Tracks())

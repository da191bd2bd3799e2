"""A policy as something to search: names of blocks do not count, packing loses nothing, setups are played."""

from dataclasses import replace

import pytest

from slotproof.conformance.actions import Action
from slotproof.conformance.policy_actions import POLICY_VERBS, action_of, happening_of
from slotproof.conformance.scheduler_model import Reached, SchedulerModel, World, canonical, laws_check
from slotproof.conformance.scheduler_worlds import WORLDS, world_of
from slotproof.conformance.search import search
from slotproof.spec.scheduler import FCFS, SchedulerState, happenings, start, take_turn
from slotproof.spec.scheduler.turn import Arrived, Scheduled
from slotproof.spec.snapshot import Holding, Snapshot, Table


def reachable(world: World, number: int) -> list[SchedulerState]:
    """The first states of a world, breadth first."""
    states = [world.begin()]
    for state in states:
        states += [take_turn(FCFS, state, event).after for event in happenings(state)]
        if len(states) > number:
            break
    return states


def renamed(state: SchedulerState) -> SchedulerState:
    """The state with its blocks numbered backwards."""
    number = state.scope.config.num_blocks

    def name(block: int) -> int:
        return number - block if block else 0

    def names(blocks: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(name, blocks))

    old = state.snapshot
    order = names(tuple(range(number)))
    pool = replace(
        old.pool,
        refs=tuple(old.pool.refs[block] for block in order),
        keys=tuple(old.pool.keys[block] for block in order),
        queue=names(old.pool.queue),
        keyed=names(old.pool.keyed),
    )
    snapshot = Snapshot(old.config, pool, {}, tuple(map(names, old.waiting_frees)))
    for request, holding in old.holdings.items():
        tables = tuple(Table(names(table.entries)) for table in holding.tables)
        snapshot = snapshot.with_holding(request, Holding(tables, holding.cached))
    steps = tuple(
        tuple(replace(entry, tables=tuple(map(names, entry.tables))) for entry in step) for step in state.steps
    )
    return replace(state, snapshot=snapshot, memory=tuple(state.memory[block] for block in order), steps=steps)


@pytest.mark.parametrize("world", ["ahead", "loads", "hybrid"])
def test_states_that_differ_in_the_names_of_blocks_have_one_key(world: str) -> None:
    states = reachable(WORLDS[world], 150)
    assert all(canonical(state) == canonical(renamed(state)) for state in states)
    assert len({state.key() for state in states}) > 20
    assert any(state.key() != renamed(state).key() for state in states)


@pytest.mark.parametrize("world", ["plain", "loads"])
def test_renaming_visits_fewer_states_and_the_same_up_to_names(world: str) -> None:
    class Unrenamed(SchedulerModel):
        def canonical(self, state: Reached) -> tuple[object, object]:
            return state.state.key(), super().canonical(state)

    plain, quotient = (search(model(FCFS, WORLDS[world], laws_check())) for model in (Unrenamed, SchedulerModel))
    assert plain.exhausted
    assert quotient.exhausted
    assert quotient.states < plain.states
    assert {key[1] for key in plain.keys if isinstance(key, tuple)} == set(quotient.keys)


@pytest.mark.parametrize("world", ["ahead", "loads"])
def test_packing_keeps_everything_but_the_turn(world: str) -> None:
    model = SchedulerModel(FCFS, WORLDS[world], laws_check())
    for state in reachable(WORLDS[world], 60):
        again = model.unpack(model.pack(Reached(state))).state
        assert again.key() == state.key()
        assert again.scope is model.initial().state.scope


def test_a_setup_is_played_under_the_reference() -> None:
    world = WORLDS["plain"]
    begun = replace(world, setup=(Action("arrive", {"request": "A"}), Action("schedule"))).begin()
    assert begun.running == ("A",)


def test_every_happening_is_an_action_and_back() -> None:
    seen = set()
    worlds = [WORLDS[name] for name in ("drafts", "failing", "sessions", "reset", "reset-running")]
    for state in [state for world in (*worlds, world_of("in-step", "failing")) for state in reachable(world, 300)]:
        for event in happenings(state):
            action = action_of(event)
            assert happening_of(Action.from_json(action.as_json())) == event
            seen.add(action.verb)
    assert seen | {"abort"} == {verb.name for verb in POLICY_VERBS}


def test_the_start_is_empty() -> None:
    state = start(WORLDS["plain"].scope)
    turn = take_turn(FCFS, take_turn(FCFS, state, Arrived("A")).after, Scheduled())
    assert (state.requests, turn.after.running) == ({}, ("A",))

"""A scheduling policy in a small world, as something that can be searched."""

import copyreg
import pickle
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from slotproof.conformance.actions import Action
from slotproof.conformance.policy_actions import action_of, happening_of
from slotproof.conformance.scheduler_judge import LAW_IDS, Objection, objections, objections_to_cycle
from slotproof.conformance.search import Model
from slotproof.spec.pool import NULL_BLOCK
from slotproof.spec.scheduler.job import Scope
from slotproof.spec.scheduler.policy import FCFS, Policy
from slotproof.spec.scheduler.schedule import AllocatorRaised
from slotproof.spec.scheduler.state import Entry, SchedulerState, start
from slotproof.spec.scheduler.turn import Happening, Scheduled, Turn, happenings, take_turn


def read_only(entries: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    """The entries as a mapping that cannot be changed; it has a name, so it can be pickled."""
    return MappingProxyType(entries)


copyreg.pickle(MappingProxyType, lambda mapping: (read_only, (dict(mapping),)))

FIXED = ("scope", "keys")
"""Parts of a state that are the same in all states of one search."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A state and the turn that led to it: None at the start; `raised` says that the turn could not be taken."""

    state: SchedulerState
    turn: Turn | None = None
    raised: str | None = None


@dataclass(frozen=True, slots=True)
class World:
    """A scope, and what has happened in it, under the reference policy, before the search starts."""

    name: str
    scope: Scope
    setup: tuple[Action, ...] = ()

    def begin(self) -> SchedulerState:
        """The state from which the search starts."""
        state = start(self.scope)
        for action in self.setup:
            state = take_turn(FCFS, state, happening_of(action)).after
        return state


Check = Callable[[Reached], object | None]
"""What is wrong with the turn that led somewhere, or None."""


class SchedulerModel(Model[Reached, Action]):
    """Every turn that a world allows under a policy; `check` judges each one."""

    def __init__(self, policy: Policy, world: World, check: Check) -> None:
        self._policy = policy
        self._begin = world.begin()
        self._check = check

    def initial(self) -> Reached:
        """The world's beginning."""
        return Reached(self._begin)

    def successors(self, state: Reached) -> Iterator[tuple[Action, Reached]]:
        """Every turn that is possible now; none behind one that raised."""
        if state.raised is not None:
            return
        for event in happenings(state.state):
            yield action_of(event), self._reach(state.state, event)

    def _reach(self, state: SchedulerState, event: Happening) -> Reached:
        try:
            turn = take_turn(self._policy, state, event)
        except AllocatorRaised as error:
            return Reached(state, Turn(state, event, state, raised=str(error)), str(error))
        return Reached(turn.after, turn)

    def canonical(self, state: Reached) -> Hashable:
        """The state with its blocks named in the order of the free queue and of the tables."""
        return canonical(state.state), state.raised

    def objection_to_step(self, before: Reached, action: Action, after: Reached) -> object | None:
        """What the check says."""
        return self._check(after)

    def pack(self, state: Reached) -> bytes:
        """The state without what all states share and without the turn."""
        parts = {field.name: getattr(state.state, field.name) for field in fields(state.state)}
        kept = {name: part for name, part in parts.items() if name not in FIXED}
        return pickle.dumps((kept, state.raised), pickle.HIGHEST_PROTOCOL)

    def unpack(self, packed: bytes) -> Reached:
        """The state that was packed."""
        kept, raised = pickle.loads(packed)
        return Reached(replace(self._begin, **kept), None, raised)


def laws_check(law_ids: tuple[str, ...] = LAW_IDS) -> Check:
    """Objects to what breaks one of these laws: the list of objections, or None."""

    def check(reached: Reached) -> list[Objection] | None:
        turn = reached.turn
        assert turn is not None
        if reached.raised is not None:
            return [("COUNT-1", reached.raised)] if "COUNT-1" in law_ids else None
        found = objections(turn, law_ids)
        if not found and isinstance(turn.event, Scheduled) and not turn.entries and is_idle(turn):
            found = objections_to_cycle([turn], law_ids)
        return found or None

    return check


def is_idle(turn: Turn) -> bool:
    """Whether the turn leads back to where it began."""
    return canonical(turn.before) == canonical(turn.after)


# Names of blocks.


def canonical(state: SchedulerState) -> Hashable:
    """The state's key with its blocks renamed: equal for states that differ in the names of blocks only."""
    names = block_names(state)
    pool, renamed = state.snapshot.pool, [0] * state.scope.config.num_blocks
    for block, name in names.items():
        renamed[name] = block
    holdings = tuple(
        (request, tuple(_named(table.entries, names) for table in holding.tables), holding.cached)
        for request, holding in sorted(state.snapshot.holdings.items())
    )
    requests = tuple(
        (name, request.num_tokens, request.num_computed_tokens, request.flights, request.status)
        for name, request in state.requests.items()
    )
    return (
        tuple((pool.ref(block), pool.key_of(block), state.memory[block]) for block in renamed),
        len(pool.queue),
        _named(pool.keyed, names),
        holdings,
        tuple(_named(run, names) for run in state.snapshot.waiting_frees),
        requests,
        (state.waiting, state.running, state.paused, state.fences),
        (state.loading, state.loaded, state.spoiled, state.unloadable),
        tuple(tuple(_named_entry(entry, names) for entry in step) for step in state.steps),
        tuple(tuple(sorted(kept.items())) for kept in (state.ended, state.overtaken, state.preempted, state.inputs)),
    )


def block_names(state: SchedulerState) -> dict[int, int]:
    """A new name for each block: the free queue from the front, then tables and deferred frees; every block has one."""
    names = {NULL_BLOCK: NULL_BLOCK}
    tables = [table.entries for _, holding in sorted(state.snapshot.holdings.items()) for table in holding.tables]
    for run in (state.snapshot.pool.queue, *tables, *state.snapshot.waiting_frees):
        for block in run:
            names.setdefault(block, len(names))
    for block in range(state.scope.config.num_blocks):
        names.setdefault(block, len(names))
    return names


def _named(blocks: tuple[int, ...], names: dict[int, int]) -> tuple[int, ...]:
    return tuple(names[block] for block in blocks)


def _named_entry(entry: Entry, names: dict[int, int]) -> tuple[Any, ...]:
    tables = tuple(_named(table, names) for table in entry.tables)
    counts = entry.start, entry.num_tokens, entry.num_drafts, entry.num_final, entry.num_loaded
    return (entry.request_id, counts, entry.stale, tables)

"""Loads that fail: whose tokens were computed from nothing, and how those requests begin anew or end.

A load beside the steps has given no key and nobody has read it. One in a step is found by others at once, so everything
computed from it goes: in every request that names one of its blocks, from that block on.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.release import evict_blocks
from slotproof.spec.request import withdraw
from slotproof.spec.scheduler.ending import Why, end, gave_back
from slotproof.spec.scheduler.move import Move
from slotproof.spec.scheduler.policy import Policy
from slotproof.spec.scheduler.preemption import set_back
from slotproof.spec.scheduler.state import Outcome, SchedulerState, Step, without_name
from slotproof.spec.transition import Evicted

Tables = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Spoilt:
    """Blocks without the content that they should have, and the requests that name one of them."""

    blocks: frozenset[int]
    names: frozenset[str]


def spoilt_by(state: SchedulerState, failed: Collection[str]) -> Spoilt:
    """What is wrong when the loads of these requests in the oldest step have failed."""
    block_size = state.scope.config.block_size
    blocks: frozenset[int] = frozenset()
    for entry in state.steps[0] if failed else ():
        if entry.request_id in failed and entry.num_loaded:
            blocks |= blocks_from(entry.tables, (entry.start - entry.num_loaded) // block_size)
    while True:
        reached = [(name, blocks_from(tables, first)) for name, tables, first in readers(state, blocks)]
        wider = blocks.union(*(behind for _, behind in reached))
        if wider == blocks:
            return Spoilt(blocks, frozenset(name for name, _ in reached))
        blocks = wider


def readers(state: SchedulerState, blocks: frozenset[int]) -> Iterator[tuple[str, Tables, int]]:
    """Every table, held or in flight, that names one of the blocks, and the first place where it does."""
    held = [
        (name, tuple(table.entries for table in holding.tables)) for name, holding in state.snapshot.holdings.items()
    ]
    flying = [(entry.request_id, entry.tables) for step in state.steps for entry in step]
    for name, tables in (*held, *flying):
        places = [index for table in tables for index, block in enumerate(table) if block in blocks]
        if places:
            yield name, tables, min(places)


def blocks_from(tables: Tables, first: int) -> frozenset[int]:
    """The blocks from a place on, of all groups: what is computed behind it depends on it."""
    return frozenset(block for table in tables for block in table[first:] if block != NULL_BLOCK)


def distrusted(steps: tuple[Step, ...], names: Collection[str]) -> tuple[Step, ...]:
    """The steps with nothing known of what these requests compute in them."""
    return tuple(
        tuple(replace(entry, stale=True, num_final=0) if entry.request_id in names else entry for entry in step)
        for step in steps
    )


def clear_away(policy: Policy, move: Move, spoilt: Spoilt, failed: Collection[str]) -> Move:
    """The spoilt blocks lose their keys, and all who name them begin anew, or end if that is the rule."""
    keyed = tuple(sorted(block for block in spoilt.blocks if move.state.snapshot.pool.key_of(block) != NO_KEY))
    if keyed:
        move = move.called(Evicted(keyed), evict_blocks(move.state.snapshot, keyed))
    # The last running request first, so that the first one waits in front.
    known = [*reversed(move.state.running), *move.state.waiting]
    for name in known:
        if name in spoilt.names:
            move = without_load(policy, move, name) if name in failed else begin_anew(policy, move, name)
    return move


def without_load(policy: Policy, move: Move, name: str) -> Move:
    """The request whose load failed ends with an error, or is computed from its first token."""
    state = move.state
    if state.scope.fails_with_load:
        return end(move, name, Outcome.FAILED, policy.give_back(state, name, Why.FAILED))
    move = move.with_state(replace(state, unloadable=(*without_name(state.unloadable, name), name)))
    return begin_anew(policy, move, name)


def begin_anew(policy: Policy, move: Move, name: str) -> Move:
    """The request gives everything back and waits; one whose load is under way does so when that has ended."""
    state = move.state
    if name in state.loading:
        return move.with_state(replace(state, spoiled=(*without_name(state.spoiled, name), name)))
    given = policy.give_back(state, name, Why.PREEMPTED)
    if name in state.running:
        return set_back(move, name, given)
    move = gave_back(move, name, given)
    loaded = without_name(move.state.loaded, name)
    state = replace(move.state.with_request(withdraw(move.state.requests[name])), loaded=loaded)
    return move.with_state(state)

"""Preemption: a running request loses its blocks and waits in front, and what this step had planned for it is
withdrawn.
"""

from dataclasses import replace

from slotproof.spec.arithmetic import imin
from slotproof.spec.pool import NO_KEY
from slotproof.spec.release import evict_blocks
from slotproof.spec.request import withdraw
from slotproof.spec.scheduler.ending import Given, disowned, gave_back
from slotproof.spec.scheduler.move import Kind, Move
from slotproof.spec.scheduler.state import with_entry, without_name
from slotproof.spec.transition import Allocated, Evicted


def preempt(move: Move, victim: str, given: Given) -> Move:
    """A refused request takes the victim's blocks; it is counted how often that happens to it (SCHED-2)."""
    move = set_back(move, victim, given)
    state = move.state
    count = imin(state.preempted.get(victim, 0) + 1, state.scope.max_preemptions + 1)
    return move.with_state(replace(state, preempted=with_entry(state.preempted, victim, count)))


def set_back(move: Move, victim: str, given: Given) -> Move:
    """A running request waits in front of all others, with nothing computed."""
    move = gave_back(move, victim, given).decided(Kind.PREEMPT, victim, of_call=True)
    state = move.state
    state = replace(
        state.with_request(withdraw(state.requests[victim])),
        running=without_name(state.running, victim),
        waiting=(victim, *state.waiting),
        steps=disowned(state.steps, victim),
    )
    return move.with_state(state)


def withdraw_nothing(move: Move, victim: str) -> Move:
    """What the step had planned for the victim stays in it: right only if no victim has been visited yet."""
    return move


def withdraw_tokens(move: Move, victim: str) -> Move:
    """The victim's entry leaves the step, and its tokens return to the budget (SCHED-1)."""
    entries = tuple(entry for entry in move.entries if entry.request_id != victim)
    returned = sum(entry.num_tokens for entry in move.entries if entry.request_id == victim)
    return replace(move, entries=entries, budget=move.budget + returned)


def withdraw_tokens_and_keys(move: Move, victim: str) -> Move:
    """So does the promise of its blocks: keys that this step gave for tokens it will not compute (SCHED-4)."""
    keyed = keys_given(move, victim)
    move = withdraw_tokens(move, victim)
    return move.called(Evicted(keyed), evict_blocks(move.state.snapshot, keyed)) if keyed else move


def keys_given(move: Move, victim: str) -> tuple[int, ...]:
    """The blocks that got a key in this step because the victim was scheduled."""
    given: tuple[int, ...] = ()
    for transition in move.transitions:
        if isinstance(transition.event, Allocated) and transition.event.call.request.request_id == victim:
            before, after = transition.before.pool, transition.after.pool
            given += tuple(block for block in after.keyed if before.key_of(block) != after.key_of(block))
    return tuple(block for block in dict.fromkeys(given) if move.state.snapshot.pool.key_of(block) != NO_KEY)

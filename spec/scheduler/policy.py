"""A scheduling policy: everything about a scheduler that a change may touch, as one small value.

A scheduler change is a few lines: `replace(FCFS, on_refusal=skip)`, or a function of your own in a field. Every field
is a pure function or a flag; `slotproof diff` compares two policies.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from slotproof.spec.admission import Allocation, Call, Refusal, admit
from slotproof.spec.arithmetic import ceil_div, imax, imin
from slotproof.spec.scheduler.ending import Given, Why, behind_fence, fence_of
from slotproof.spec.scheduler.move import Move
from slotproof.spec.scheduler.preemption import withdraw_tokens, withdraw_tokens_and_keys
from slotproof.spec.scheduler.state import SchedulerState
from slotproof.spec.snapshot import Snapshot


class Next(StrEnum):
    """What follows a refusal in the waiting pass."""

    STOP = "stop"
    """Nobody behind it is looked at: head-of-line blocking."""
    SKIP = "skip"
    """The one behind it is looked at."""
    FAIL = "fail"
    """It ends with an error."""


# Order: in which waiting requests are looked at.


def in_queue_order(state: SchedulerState) -> tuple[str, ...]:
    """As they arrived; preempted ones in front."""
    return state.waiting


def by_priority(state: SchedulerState) -> tuple[str, ...]:
    """The smallest priority value first; of equal ones the one that arrived first."""
    return tuple(sorted(state.waiting, key=lambda name: urgency(state, name)))


def holders_first(state: SchedulerState) -> tuple[str, ...]:
    """Requests that hold blocks already, then the others, both in queue order.

    In queue order alone a refused request could hide one whose load is done and which needs nothing more (SCHED-5).
    """
    return tuple(sorted(state.waiting, key=lambda name: name not in state.snapshot.holdings))


def holders_then_priority(state: SchedulerState) -> tuple[str, ...]:
    """Requests that hold blocks already, then the others, both by priority."""
    return tuple(sorted(by_priority(state), key=lambda name: name not in state.snapshot.holdings))


def urgency(state: SchedulerState, name: str) -> tuple[int, int]:
    """Priority, then arrival; smaller is more urgent."""
    return state.job(name).priority, state.arrival(name)


# Victim: who loses its blocks when a running request is refused.


def last_running(move: Move, name: str) -> str | None:
    """Who started last; perhaps the refused request itself."""
    return move.state.running[-1]


def least_urgent(move: Move, name: str) -> str | None:
    """The lowest priority, wherever it stands, even if this step has scheduled it already."""
    return max(move.state.running, key=lambda other: urgency(move.state, other))


def nobody(move: Move, name: str) -> str | None:
    """The refused request waits."""
    return None


def reclaimable_now(state: SchedulerState, victim: str) -> bool:
    """Preempt only if the blocks come back at once, and no others are about to."""
    return fence_of(state, victim) == 0 and not state.snapshot.waiting_frees


def worthwhile(state: SchedulerState, victim: str) -> bool:
    """Nor the only running request while a load is under way: it would come back into the same squeeze (SCHED-2)."""
    return reclaimable_now(state, victim) and not (state.running == (victim,) and state.loading)


def always(state: SchedulerState, victim: str) -> bool:
    """Preempt whatever is in flight."""
    return True


# Admission: what a waiting request asks for, and what is left for others.


def whole_prompt(state: SchedulerState, call: Call) -> Call:
    """All known tokens must fit, not only the next chunk."""
    return replace(call, full_sequence_must_fit=True)


def next_chunk(state: SchedulerState, call: Call) -> Call:
    """Only what is scheduled now must fit."""
    return call


def nothing_reserved(state: SchedulerState, call: Call) -> int:
    """Every free block may be taken."""
    return 0


def reserved_from_loads(state: SchedulerState, call: Call) -> int:
    """A load, which computes nothing now, leaves the blocks that admitted prompts and other loads still need."""
    if call.num_new_tokens > 0:
        return 0
    names = {*state.running, *(name for name in state.waiting if name in state.snapshot.holdings)}
    return sum(blocks_to_come(state, name) for name in names - {call.request.request_id})


def blocks_to_come(state: SchedulerState, name: str) -> int:
    """Blocks that a request's known tokens and one speculative step need beyond those it holds, over all groups."""
    request, holding = state.requests[name], state.snapshot.holding(name)
    ahead = imax(state.scope.num_lookahead_tokens, state.job(name).num_drafts)
    required = ceil_div(
        imin(request.num_tokens + ahead, state.scope.config.max_model_len), state.scope.config.block_size
    )
    return sum(imax(required - table.length, 0) for table in holding.tables)


def stop(state: SchedulerState, name: str, refusal: Refusal) -> Next:
    """Wait, and everybody behind waits too."""
    return Next.STOP


def skip(state: SchedulerState, name: str, refusal: Refusal) -> Next:
    """Wait, and look at who is behind."""
    return Next.SKIP


def fail_if_never(state: SchedulerState, name: str, refusal: Refusal) -> Next:
    """End what can never fit with an error; else wait."""
    return Next.FAIL if refusal.never else Next.STOP


# Sessions: what a turn leaves behind.


def give_turn_back(state: SchedulerState, name: str) -> Given | None:
    """The blocks of a session between two turns are free; their keys stay, so the next turn hits what is left."""
    return behind_fence(state, name, Why.FINISHED)


def keep_turn(state: SchedulerState, name: str) -> Given | None:
    """A session holds its blocks until its next input comes."""
    return None


@dataclass(frozen=True, slots=True)
class Policy:
    """A scheduler's decisions. The default is the reference: first come, first served, and safe when steps run ahead.

    `order`: in which waiting requests are looked at.
    `victim`: who is preempted when a running request is refused; None for nobody.
    `may_preempt`: whether that victim is preempted now; if not, the running pass ends.
    `withdraw`: what leaves the step when the victim had been scheduled in it.
    `admission`: what a waiting request's call asks for.
    `reserved`: blocks that such a call leaves free for others.
    `on_refusal`: what follows when it is refused.
    `give_back`: when the blocks of a request that ends or is preempted are free again.
    `between_turns`: what becomes of a session's blocks while it waits for input; None if it keeps them.
    `promotes_each_step`: whether every step looks for loads that are done, or only the waiting pass when it gets there.
    `allocate`: the allocator.
    """

    name: str
    order: Callable[[SchedulerState], tuple[str, ...]] = holders_first
    victim: Callable[[Move, str], str | None] = last_running
    may_preempt: Callable[[SchedulerState, str], bool] = worthwhile
    withdraw: Callable[[Move, str], Move] = withdraw_tokens_and_keys
    admission: Callable[[SchedulerState, Call], Call] = whole_prompt
    reserved: Callable[[SchedulerState, Call], int] = reserved_from_loads
    on_refusal: Callable[[SchedulerState, str, Refusal], Next] = fail_if_never
    give_back: Callable[[SchedulerState, str, Why], Given] = behind_fence
    between_turns: Callable[[SchedulerState, str], Given | None] = give_turn_back
    promotes_each_step: bool = True
    allocate: Callable[[Snapshot, Call], Allocation | Refusal] = admit


FCFS = Policy("fcfs")
"""The reference, first come, first served."""

PRIORITY = replace(FCFS, name="priority", order=holders_then_priority, victim=least_urgent)
"""The reference, by priority."""

VLLM_FCFS = replace(
    FCFS,
    name="vllm-fcfs",
    may_preempt=reclaimable_now,
    withdraw=withdraw_tokens,
    on_refusal=stop,
    between_turns=keep_turn,
    promotes_each_step=False,
)
"""vLLM 0.31.0 and 0.33.0, policy `fcfs`."""

VLLM_PRIORITY = replace(VLLM_FCFS, name="vllm-priority", order=by_priority, victim=least_urgent)
"""vLLM 0.33.0, policy `priority`; in 0.31.0 a request that preempts itself also ends the running pass."""

SHIPPED: dict[str, Policy] = {policy.name: policy for policy in (FCFS, PRIORITY, VLLM_FCFS, VLLM_PRIORITY)}

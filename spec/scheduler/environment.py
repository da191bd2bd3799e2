"""What happens around a scheduler: requests arrive, are aborted and get their outputs, loads end, caches are reset."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from slotproof.spec.admission import commit
from slotproof.spec.arithmetic import imin
from slotproof.spec.release import reset_prefix_cache
from slotproof.spec.request import Request, new_request, settle
from slotproof.spec.scheduler.ending import Why, end, gave_back, pass_fences, pause
from slotproof.spec.scheduler.failing import begin_anew, clear_away, distrusted, spoilt_by, without_load
from slotproof.spec.scheduler.move import Move
from slotproof.spec.scheduler.policy import Policy
from slotproof.spec.scheduler.preemption import set_back
from slotproof.spec.scheduler.state import (
    Entry,
    Outcome,
    SchedulerState,
    Step,
    with_entry,
    without_entry,
    without_name,
)
from slotproof.spec.scheduler.worker import execute, load
from slotproof.spec.transition import Committed, Reset


def arrive(state: SchedulerState, name: str) -> Move:
    """A job's request joins the end of the queue."""
    state = replace(state, inputs=without_entry(state.inputs, name))
    _, request = new_request(state.keys, name, state.job(name).prompt, state.scope.config.block_size)
    return Move(replace(state.with_request(request), waiting=(*state.waiting, name)))


def more_input(state: SchedulerState, name: str) -> Move:
    """A session goes on, its last token dropped; what it has kept of its blocks is computed."""
    num_kept = len(state.job(name).token_ids) - 1
    inputs = with_entry(state.inputs, name, state.inputs.get(name, 0) + 1)
    state = replace(state, inputs=inputs, paused=without_name(state.paused, name))
    _, request = new_request(state.keys, name, state.job(name).prompt, state.scope.config.block_size)
    if name in state.snapshot.holdings:
        request = replace(request, num_computed_tokens=num_kept)
    return Move(replace(state.with_request(request), waiting=(*state.waiting, name)))


def abort(policy: Policy, state: SchedulerState, name: str) -> Move:
    """The user gives a request up. A load under way still writes its blocks, so they come back when it is done."""
    if name in state.loading:
        return end(Move(state), name, Outcome.ABORTED, None)
    return end(Move(state), name, Outcome.ABORTED, policy.give_back(state, name, Why.ABORTED))


def finish_load(policy: Policy, state: SchedulerState, name: str, failed: bool = False) -> Move:
    """A connector has written its tokens, or failed to; the scheduler has not noticed yet what was written."""
    spoiled = name in state.spoiled
    rest = replace(state, loading=without_name(state.loading, name), spoiled=without_name(state.spoiled, name))
    if name not in state.requests:
        return gave_back(Move(rest), name, policy.give_back(rest, name, Why.ABORTED))
    if failed:
        return without_load(policy, Move(rest), name)
    if spoiled:
        return begin_anew(policy, Move(rest), name)
    memory = load(state, name, state.requests[name].num_computed_tokens)
    return Move(replace(rest, loaded=(*state.loaded, name), memory=memory), written=memory)


def reset(policy: Policy, state: SchedulerState, preempt_running: bool) -> Move:
    """The prefix cache is to be emptied, whoever runs set back first; refused while anything is held (RESET-1)."""
    move = Move(state)
    for name in reversed(state.running) if preempt_running else ():
        move = set_back(move, name, policy.give_back(move.state, name, Why.PREEMPTED))
    snapshot, succeeded = reset_prefix_cache(move.state.snapshot)
    return move.called(Reset(succeeded), snapshot)


def process(policy: Policy, state: SchedulerState, accepted: Mapping[str, int], failed: Collection[str] = ()) -> Move:
    """The output of the oldest step arrives: of each request's drafts so many are accepted, and these loads failed."""
    spoilt = spoilt_by(state, failed)
    step, *later = distrusted(state.steps, spoilt.names)
    memory = execute(state, step, dict(accepted))
    move = Move(replace(state, memory=memory, steps=tuple(later)), written=memory)
    move = clear_away(policy, pass_fences(move), spoilt, failed)
    for entry in step:
        if not entry.stale:
            move = output(policy, move, entry, accepted.get(entry.request_id, 0))
    return move


def output(policy: Policy, move: Move, entry: Entry, num_accepted: int) -> Move:
    """One request's tokens become final; it ends with its last one, else its full blocks get their keys."""
    name, job, request = entry.request_id, move.state.job(entry.request_id), move.state.requests[entry.request_id]
    flight, *later = request.flights
    left = len(job.token_ids) - request.num_tokens
    num_accepted = imin(num_accepted, left - 1)
    truth = job.token_ids[request.num_tokens :] + (0,) * len(flight.drafts)
    request = replace(request, flights=(replace(flight, drafts=truth[: len(flight.drafts)]), *later))
    sampled = truth[num_accepted] if flight.samples else 0
    keys, settled = settle(move.state.keys, request, num_accepted, sampled, move.state.scope.config.block_size)
    rejected = request.num_computed_tokens - settled.num_computed_tokens
    steps = corrected(move.state.steps, settled, rejected)
    state = replace(move.state.with_request(settled), keys=keys, steps=steps)
    if settled.num_tokens == len(job.token_ids) and job.followups:
        return pause(move.with_state(state), name, policy.between_turns(state, name))
    if settled.num_tokens == len(job.token_ids):
        return end(move.with_state(state), name, Outcome.FINISHED, policy.give_back(state, name, Why.FINISHED))
    final = imin(settled.num_computed_tokens - settled.num_in_flight_tokens, settled.num_tokens)
    move = move.with_state(state)
    return move.called(Committed(settled, final), commit(state.snapshot, settled, final))


def corrected(steps: tuple[Step, ...], request: Request, rejected: int) -> tuple[Step, ...]:
    """The later steps of a request now that its tokens are known: rejected drafts move them towards the start."""

    def correct(entry: Entry) -> Entry:
        if entry.request_id != request.request_id or entry.stale:
            return entry
        return replace(entry, start=entry.start - rejected, num_final=request.num_tokens)

    return tuple(tuple(correct(entry) for entry in step) for step in steps)

"""One `schedule` call: notice loads that are done, serve the running requests, then admit waiting ones.

A running request that is refused preempts until it fits; a waiting one that is refused ends the pass. Nobody is
admitted in a step in which somebody was preempted.
"""

from dataclasses import replace

from slotproof.spec.admission import Allocation, Call, Refusal, commit
from slotproof.spec.arithmetic import imax, imin
from slotproof.spec.lookup import Hit, get_computed_blocks, no_hit
from slotproof.spec.request import Request, await_load, propose, schedule
from slotproof.spec.scheduler.ending import Why, end
from slotproof.spec.scheduler.move import Kind, Move
from slotproof.spec.scheduler.policy import Next, Policy
from slotproof.spec.scheduler.preemption import preempt
from slotproof.spec.scheduler.state import Entry, Outcome, SchedulerState, with_entry, without_entry, without_name
from slotproof.spec.transition import Allocated, Committed, LookedUp


class AllocatorRaised(Exception):
    """`allocate_slots` raised half-way, so nobody knows what it has done (COUNT-1)."""

    def __init__(self, call: Call, error: Exception) -> None:
        super().__init__(f"allocate_slots for request {call.request.request_id} raised {type(error).__name__}: {error}")


def schedule_step(policy: Policy, state: SchedulerState) -> Move:
    """Decide what the next step computes."""
    move = Move(state, state.scope.token_budget)
    if policy.promotes_each_step:
        move = promote_loaded(move)
    move = running_pass(policy, move)
    if not move.is_preempting:
        move = waiting_pass(policy, replace(move, stopped=False))
    return dispatch(move)


def dispatch(move: Move) -> Move:
    """Hand the step to the worker; an empty step is none. Who does not run any more gets no output."""
    if not move.entries:
        return move
    running = move.state.running
    step = tuple(entry if entry.request_id in running else replace(entry, stale=True) for entry in move.entries)
    return replace(move, state=replace(move.state, steps=(*move.state.steps, step)), entries=step)


def tables_of(state: SchedulerState, name: str) -> tuple[tuple[int, ...], ...]:
    """The request's block tables, a group."""
    return tuple(table.entries for table in state.snapshot.holding(name).tables)


# Loads that are done.


def promote_loaded(move: Move) -> Move:
    """Every request whose load is done waits for its first step (SCHED-5)."""
    for name in move.state.loaded:
        move = promote(move, name)
    return move


def promote(move: Move, name: str) -> Move:
    """The loaded blocks get their keys."""
    request = move.state.requests[name]
    state = replace(move.state, loaded=without_name(move.state.loaded, name))
    num_computed = request.num_computed_tokens
    move = move.with_state(state).called(
        Committed(request, num_computed), commit(state.snapshot, request, num_computed)
    )
    return move.decided(Kind.PROMOTE, name)


# The running pass.


def running_pass(policy: Policy, move: Move) -> Move:
    """Serve the running requests in order, as far as the budget goes."""
    for name in move.state.running:
        if move.stopped or move.budget == 0:
            break
        if name in move.state.running:
            move = run_request(policy, move, name)
    return move


def run_request(policy: Policy, move: Move, name: str) -> Move:
    """Ask for a running request's next tokens, and preempt until it gets them, is preempted, or nobody may be
    (SCHED-2).
    """
    request, num_new = next_tokens(move, name)
    if num_new == 0:
        return move
    while name in move.state.running:
        call = Call(request, num_new, no_hit(move.state.snapshot), move.state.scope.num_lookahead_tokens)
        move, answer = ask(policy, move, call)
        if isinstance(answer, Allocation):
            return scheduled(move, Kind.RUN, request, 0, num_new)
        move = move.decided(Kind.RUN_REFUSED, name, of_call=True)
        victim = chosen_victim(policy, move, name)
        if victim is None or not policy.may_preempt(move.state, victim):
            return replace(move, stopped=True)
        move = policy.withdraw(preempt(move, victim, policy.give_back(move.state, victim, Why.PREEMPTED)), victim)
    return move


def chosen_victim(policy: Policy, move: Move, name: str) -> str | None:
    """Whom the policy would preempt, or None.

    Raises:
        ValueError: for one that is not running.
    """
    victim = policy.victim(move, name)
    if victim is not None and victim not in move.state.running:
        raise ValueError(f"the victim {victim!r} is not running; name one of {', '.join(move.state.running)}, or None")
    return victim


def next_tokens(move: Move, name: str) -> tuple[Request, int]:
    """A running request with the drafts of its next step, and how many tokens that has, drafts included."""
    scope, request = move.state.scope, move.state.requests[name]
    room = imin(move.budget, scope.config.max_model_len - request.num_computed_tokens)
    known = request.num_uncomputed_tokens
    if known != 1 or request.num_computed_tokens < request.num_prompt_tokens:
        return request, imax(imin(imin(known, room), scope.max_chunk or known), 0)
    num_drafts = imax(imin(move.state.job(name).num_drafts, room - 1), 0)
    return propose(request, (0,) * num_drafts), imax(imin(1 + num_drafts, room), 0)


def ask(policy: Policy, move: Move, call: Call) -> tuple[Move, Allocation | Refusal]:
    """One call of the allocator.

    Raises:
        AllocatorRaised: when it raises.
    """
    try:
        answer = policy.allocate(move.state.snapshot, call)
    except Exception as error:
        raise AllocatorRaised(call, error) from error
    given, never = (answer.new_blocks, None) if isinstance(answer, Allocation) else (None, answer.never)
    return move.called(Allocated(call, given, never), answer.snapshot), answer


def scheduled(move: Move, kind: Kind, request: Request, num_adopted: int, num_new: int, num_loaded: int = 0) -> Move:
    """The move after a yes: the request's tokens are in the step, and off the budget. Of the adopted tokens the step
    loads the last.
    """
    state = move.state
    after = schedule(request, num_adopted, num_new)
    start = request.num_computed_tokens + num_adopted
    drafts = len(request.draft_token_ids)
    samples = after.flights[-1].samples
    tables = tables_of(state, request.request_id)
    entry = Entry(
        request.request_id, start, num_new, drafts, request.num_tokens, samples, tables, num_loaded=num_loaded
    )
    move = move.with_state(state.with_request(after)).decided(kind, request.request_id, num_new, of_call=True)
    return replace(move, budget=move.budget - num_new, entries=(*move.entries, entry))


# The waiting pass.


def waiting_pass(policy: Policy, move: Move) -> Move:
    """Admit waiting requests in the policy's order, as far as budget and slots go, up to the first refusal."""
    for name in policy.order(move.state):
        full = len(move.state.running) >= move.state.scope.max_running
        if move.stopped or move.budget == 0 or full:
            break
        if name in move.state.loading:
            continue
        if name in move.state.loaded:
            move = promote(move, name)
        move = admit_request(policy, move, name)
    return move


def admit_request(policy: Policy, move: Move, name: str) -> Move:
    """Look up if nothing is computed, then ask for the first tokens, or for the blocks of a load."""
    request = move.state.requests[name]
    hit = no_hit(move.state.snapshot)
    if request.num_computed_tokens == 0:
        hit = get_computed_blocks(move.state.snapshot, request)
        move = move.called(LookedUp(request, hit), move.state.snapshot)
    call = entering_call(policy, move, request, hit)
    if call is None:
        return replace(move, stopped=True)
    move, answer = ask(policy, move, call)
    if isinstance(answer, Refusal):
        return refused(policy, move, name, answer)
    return parked(move, call) if call.num_new_tokens == 0 else admitted(move, call)


def entering_call(policy: Policy, move: Move, request: Request, hit: Hit) -> Call | None:
    """What a waiting request asks for; None if its prompt may not be cut and is more than the budget."""
    state, scope = move.state, move.state.scope
    external = external_tokens(state, request, hit)
    parks = external > 0 and not state.job(request.request_id).loads_in_step
    rest = request.num_uncomputed_tokens - hit.num_tokens - external
    num_new = 0 if parks else imin(imin(rest, scope.max_chunk or rest), move.budget)
    if not parks and not scope.chunked_prefill and num_new < rest:
        return None
    call = Call(
        request,
        num_new,
        hit,
        0 if parks else scope.num_lookahead_tokens,
        external,
        delay_cache_blocks=parks,
        has_scheduled_reqs=bool(state.running),
    )
    call = policy.admission(state, call)
    return replace(call, reserved_blocks=policy.reserved(state, call))


def external_tokens(state: SchedulerState, request: Request, hit: Hit) -> int:
    """Tokens behind the hit that a connector loads; a load that has failed once is not tried again."""
    if request.num_computed_tokens > 0 or request.request_id in state.unloadable:
        return 0
    return imax(state.job(request.request_id).num_external_tokens - hit.num_tokens, 0)


def refused(policy: Policy, move: Move, name: str, refusal: Refusal) -> Move:
    """The request stays as it is (SCHED-3), or ends with an error; the pass ends unless the policy goes on."""
    following = policy.on_refusal(move.state, name, refusal)
    move = move.decided(Kind.REFUSE, name, of_call=True, stops=following == Next.STOP)
    if following == Next.FAIL:
        return end(move, name, Outcome.FAILED, policy.give_back(move.state, name, Why.FAILED))
    return replace(move, stopped=following == Next.STOP)


def parked(move: Move, call: Call) -> Move:
    """The request holds the blocks that its load fills, and waits."""
    name = call.request.request_id
    request = await_load(call.request, call.hit.num_tokens + call.num_external_computed_tokens)
    state = replace(
        move.state.with_request(request),
        loading=(*move.state.loading, name),
        overtaken=without_entry(move.state.overtaken, name),
    )
    return move.with_state(state).decided(Kind.PARK, name, of_call=True)


def admitted(move: Move, call: Call) -> Move:
    """The request runs; those that were refused just before it have been overtaken (SCHED-6)."""
    name, state = call.request.request_id, move.state
    most, overtaken = state.scope.max_overtakes + 1, state.overtaken
    for decision in move.decisions:
        if decision.kind == Kind.REFUSE and decision.request_id in state.requests:
            count = imin(overtaken.get(decision.request_id, 0) + 1, most)
            overtaken = with_entry(overtaken, decision.request_id, count)
    state = replace(
        state,
        waiting=without_name(state.waiting, name),
        running=(*state.running, name),
        overtaken=without_entry(overtaken, name),
    )
    loaded = call.num_external_computed_tokens
    adopted = call.hit.num_tokens + loaded
    return scheduled(move.with_state(state), Kind.ADMIT, call.request, adopted, call.num_new_tokens, loaded)

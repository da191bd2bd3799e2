"""SCHED and MEM: what a scheduler owes in each of its turns."""

from slotproof.spec.groups import Group, SlidingWindow
from slotproof.spec.keys import ROOT_KEY, KeyTable
from slotproof.spec.pool import NULL_BLOCK
from slotproof.spec.predicates.admission import is_refused_alone
from slotproof.spec.predicates.facts import tables_of
from slotproof.spec.scheduler.move import Decision, Kind
from slotproof.spec.scheduler.state import Content, Entry, Outcome, SchedulerState
from slotproof.spec.scheduler.turn import Processed, Turn


def step_is_within_its_limits(turn: Turn) -> str | None:
    """SCHED-1."""
    scope, names = turn.after.scope, [entry.request_id for entry in turn.entries]
    tokens = sum(entry.num_tokens for entry in turn.entries)
    if tokens > scope.token_budget:
        return f"{tokens} tokens are scheduled; the budget is {scope.token_budget}"
    if len(turn.after.running) > scope.max_running:
        return f"{len(turn.after.running)} requests run; {scope.max_running} may"
    victims = {decision.request_id for decision in turn.decisions if decision.kind == Kind.PREEMPT}
    for name in names:
        if name not in turn.after.running:
            state = "was preempted in the same step" if name in victims else "is not running"
            return f"request {name} is scheduled and {state}"
        if names.count(name) > 1:
            return f"request {name} is scheduled {names.count(name)} times"
    return None


def refusals_preempt_and_retry_or_stop(turn: Turn) -> str | None:
    """SCHED-2."""
    victims = [decision for decision in turn.decisions if decision.kind == Kind.PREEMPT]
    if len(victims) > len(turn.before.running):
        return f"{len(victims)} preemptions in one step, with {len(turn.before.running)} requests running before it"
    for victim in victims:
        kept = _kept_back(victim)
        if kept:
            return f"request {victim.request_id} is preempted, and blocks {kept} that only it held are not free"
    return _out_of_turn(turn.decisions) or _wasted_work(turn)


def _wasted_work(turn: Turn) -> str | None:
    """A request that is thrown out, comes back and is thrown out again while nobody gets anywhere."""
    for name, count in turn.after.preempted.items():
        if count > turn.after.scope.max_preemptions:
            return f"request {name} was preempted {count} times, and no request has ended in between"
    return None


def _kept_back(victim: Decision) -> list[int]:
    """Blocks that only the victim held and that its preemption did not free."""
    assert victim.transition is not None
    before, after = victim.transition.before, victim.transition.after
    held = {block for entries in tables_of(before, victim.request_id) for block in entries if block != NULL_BLOCK}
    return sorted(block for block in held if before.pool.ref(block) == 1 and block not in after.pool.queue)


def _out_of_turn(decisions: tuple[Decision, ...]) -> str | None:
    """A running request that is scheduled although one before it was refused and neither retried nor preempted."""
    waiting_for: str | None = None
    for decision in decisions:
        if decision.kind == Kind.RUN_REFUSED:
            waiting_for = decision.request_id
        elif decision.kind == Kind.PREEMPT and decision.request_id == waiting_for:
            waiting_for = None
        elif decision.kind == Kind.RUN:
            if waiting_for not in (None, decision.request_id):
                return f"request {decision.request_id} is scheduled past the refused request {waiting_for}"
            waiting_for = None
    return None


def refused_requests_stay_as_they_are(turn: Turn) -> str | None:
    """SCHED-3."""
    stopped_by: str | None = None
    for decision in turn.decisions:
        if decision.kind in (Kind.ADMIT, Kind.PARK) and stopped_by is not None:
            return f"request {decision.request_id} is admitted behind the refused request {stopped_by}"
        if decision.kind == Kind.REFUSE:
            stopped_by = decision.request_id if decision.stops else stopped_by
            change = _change_of_refused(turn, decision)
            if change is not None:
                return f"request {decision.request_id} was refused, and {change}"
    left = [name for name in turn.before.waiting if name in turn.after.waiting]
    kept = [name for name in turn.after.waiting if name in left]
    return None if left == kept or _preempts(turn) else f"the queue's order changed from {left} to {kept}"


def _change_of_refused(turn: Turn, decision: Decision) -> str | None:
    assert decision.transition is not None
    name = decision.request_id
    if name not in turn.after.requests:
        return None
    old, new = turn.before.requests[name], turn.after.requests[name]
    if (old.status, old.num_computed_tokens) != (new.status, new.num_computed_tokens):
        return f"went from {old.status}, {old.num_computed_tokens} computed, to {new.status}, {new.num_computed_tokens}"
    due, tables = decision.transition.allocation.released_tables, tables_of(turn.after.snapshot, name)
    return None if due == tables else f"its table went to {tables}; {due} is due"


def _preempts(turn: Turn) -> bool:
    return any(decision.kind == Kind.PREEMPT for decision in turn.decisions)


def findable_blocks_are_computed_or_owed(turn: Turn) -> str | None:
    """SCHED-4."""
    state = turn.after
    config, prefixes = state.scope.config, prefixes_of(state.keys)
    for block in state.snapshot.pool.keyed:
        group, key = state.snapshot.pool.key_of(block) % len(config.groups), state.snapshot.pool.key_of(block)
        prefix = prefixes[key // len(config.groups)]
        for slot in range(config.block_size):
            due = prefix[: len(prefix) - config.block_size + slot + 1]
            if state.memory[block][slot] != due and not is_owed(state, group, block, due):
                held = holds(state.memory[block][slot])
                return f"block {block} is offered for {_shown(prefix)}; its slot {slot} {held}, and no step owes it"
    return None


def is_owed(state: SchedulerState, group: int, block: int, due: tuple[int, ...]) -> bool:
    """Whether a step in flight writes this prefix into the block."""
    position = len(due) - 1
    return any(
        entry.start - entry.num_loaded <= position < min(entry.start + entry.num_tokens, entry.num_final)
        and entry.tables[group][position // state.scope.config.block_size] == block
        and state.job(entry.request_id).token_ids[: position + 1] == due
        for step in state.steps
        for entry in step
    )


def prefixes_of(keys: KeyTable) -> dict[int, tuple[int, ...]]:
    """The tokens that each key stands for, from the first on."""
    prefixes: dict[int, tuple[int, ...]] = {ROOT_KEY: ()}
    for (parent, tokens, _), key in keys.entries.items():
        prefixes[key] = prefixes[parent] + tokens
    return prefixes


def refused_heads_are_overtaken_seldom(turn: Turn) -> str | None:
    """SCHED-6."""
    bound = turn.after.scope.max_overtakes
    for name, count in turn.after.overtaken.items():
        if count > bound:
            return f"request {name} was refused, and {count} requests that come after it were admitted since"
    return None


def loads_are_noticed_and_errors_are_due(turn: Turn) -> str | None:
    """SCHED-5, as far as one turn shows it."""
    for name in turn.before.loaded:
        if name in turn.after.loaded:
            return f"the load of request {name} is done, and the step does not notice it"
    due = {decision.request_id for decision in turn.decisions if _can_never_run(decision)}
    for decision in turn.decisions:
        name = decision.request_id
        if decision.kind == Kind.END and turn.after.ended[name] == Outcome.FAILED and name not in due:
            return f"request {name} ends with an error, and would fit with the others gone"
    return None


def _can_never_run(decision: Decision) -> bool:
    return decision.kind == Kind.REFUSE and decision.transition is not None and is_refused_alone(decision.transition)


def steps_read_what_was_computed(turn: Turn) -> str | None:
    """MEM-1."""
    assert isinstance(turn.event, Processed)
    thrown_away = {decision.request_id for decision in turn.decisions if decision.kind in (Kind.PREEMPT, Kind.END)}
    for entry in turn.before.steps[0]:
        if not entry.stale and (not turn.event.failed or entry.request_id not in thrown_away):
            objection = _misread(turn, entry)
            if objection is not None:
                return objection
    return None


def _misread(turn: Turn, entry: Entry) -> str | None:
    """The first token that an entry reads and that is not what its request has there."""
    assert turn.written is not None
    assert isinstance(turn.event, Processed)
    request, tokens = turn.before.requests[entry.request_id], turn.before.job(entry.request_id).token_ids
    first = request.num_computed_tokens - sum(flight.num_tokens for flight in request.flights)
    accepted = turn.event.accepted.get(entry.request_id, 0)
    end = first + entry.num_tokens - entry.num_drafts + accepted
    for group, table in zip(turn.before.scope.config.groups, entry.tables, strict=True):
        for position in range(first_read(group, first), end):
            block, slot = table[position // group.block_size], position % group.block_size
            found = None if block == NULL_BLOCK else turn.written[block][slot]
            if found != tokens[: position + 1]:
                where = "a null entry" if block == NULL_BLOCK else f"block {block}, whose slot {slot} {holds(found)}"
                return f"request {entry.request_id} reads its token {position} from {where}"
    return None


def live_tokens_have_slots_of_their_own(turn: Turn) -> str | None:
    """MEM-3."""
    owners: dict[tuple[int, int], str] = {}
    block_size = turn.after.scope.config.block_size
    for entry in turn.entries:
        for table in entry.tables if not entry.stale else ():
            for position in range(entry.start - entry.num_loaded, entry.start + entry.num_tokens):
                block, slot = table[position // block_size], position % block_size
                who = f"token {position} of request {entry.request_id}"
                if block != NULL_BLOCK and owners.setdefault((block, slot), who) != who:
                    return f"slot {slot} of block {block} is written for {owners[block, slot]} and for {who}"
    return None


def first_read(group: Group, position: int) -> int:
    """The first token that the token at `position` attends to."""
    return max(0, position - group.window + 1) if isinstance(group, SlidingWindow) else 0


def holds(content: Content) -> str:
    """A slot's content in words."""
    return "holds nothing yet" if content is None else f"holds {_shown(content)}"


def _shown(tokens: tuple[int, ...]) -> str:
    return f"[{' '.join(map(str, tokens))}]"

"""A scheduler's trace for people: each turn in a line, the state in strips, the law and what it objects to."""

from slotproof.conformance.counterexample import config_words, pool_strip
from slotproof.conformance.policy_actions import action_of
from slotproof.conformance.scheduler_model import World
from slotproof.conformance.scheduler_search import Found
from slotproof.spec.predicates.facts import AllocationFacts
from slotproof.spec.scheduler.job import Job
from slotproof.spec.scheduler.move import Decision, Kind
from slotproof.spec.scheduler.state import SchedulerState
from slotproof.spec.scheduler.turn import Arrived, Processed, Scheduled, Turn


def trace_lines(world: World, trace: Found) -> list[str]:
    """The world, then numbered turns, then the state around the last one."""
    lines = [f"  {line}" for line in world_lines(world)]
    for number, turn in enumerate(trace.turns, start=1):
        if trace.repeats_from == number - 1:
            lines.append("     then, for ever:")
        lines.append(f"  {number}. {turn_words(turn)}")
    last = trace.turns[-1]
    return [*lines, f"  before  {state_strip(last.before)}", f"  after   {state_strip(last.after)}"]


def world_lines(world: World) -> list[str]:
    """The pool, the limits of a step, the jobs, and what has happened before the trace begins."""
    scope = world.scope
    limits = f"{scope.token_budget} tokens a step, {scope.max_steps_in_flight} in flight"
    if scope.max_chunk is not None:
        limits += f", prompts in chunks of {scope.max_chunk}"
    if scope.num_lookahead_tokens:
        limits += f", lookahead {scope.num_lookahead_tokens}"
    if scope.fails_with_load:
        limits += ", a request ends with an error if its load fails"
    lines = [config_words(scope.config), limits, *(job_words(job) for job in scope.jobs)]
    if world.setup:
        lines.append(f"begins after: {', '.join(map(str, world.setup))}")
    return lines


def job_words(job: Job) -> str:
    """A job in a line."""
    words = f"{job.name}: {_count(len(job.prompt), 'token')} of prompt, {_count(len(job.outputs), 'token')} of output"
    if job.num_external_tokens:
        words += f", {job.num_external_tokens} of the prompt can be loaded"
        words += " in the step" if job.loads_in_step else ""
        words += " or fail to" if job.load_may_fail else ""
    if job.num_drafts:
        words += f", {_count(job.num_drafts, 'draft')} a step"
    if job.priority:
        words += f", priority {job.priority}"
    for tokens, outputs in job.followups:
        words += f", then {_count(len(tokens), 'token')} of input and {_count(len(outputs), 'token')} of output"
    return words + (", comes again and again" if job.again else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def turn_words(turn: Turn) -> str:
    """What happens in a turn and what comes of it."""
    if isinstance(turn.event, Arrived):
        return str(action_of(turn.event))
    if turn.raised is not None:
        return f"{action_words(turn)}  ->  {turn.raised}"
    said = [decision_words(turn, decision) for decision in turn.decisions]
    if isinstance(turn.event, Processed):
        said = [*output_words(turn), *said]
    if isinstance(turn.event, Scheduled) and not turn.entries:
        said.append("nothing is scheduled")
    free = f"{turn.after.snapshot.pool.num_free()} free"
    return f"{action_words(turn)}  ->  {'; '.join([*said, free])}"


def action_words(turn: Turn) -> str:
    """The action, its arguments in words."""
    if not isinstance(turn.event, Processed):
        return str(action_of(turn.event))
    words, accepted, failed = ["process"], turn.event.accepted, turn.event.failed
    if accepted:
        words.append(f"accepting {', '.join(f'{count} of {name}' for name, count in accepted.items())}")
    if failed:
        words.append(f"the load of {' and '.join(failed)} failed")
    return ", ".join(words)


def output_words(turn: Turn) -> list[str]:
    """The tokens that the processed step gave."""
    words = []
    for entry in turn.before.steps[0]:
        before, after = turn.before.requests.get(entry.request_id), turn.after.requests.get(entry.request_id)
        if not entry.stale and before is not None and after is not None and after.num_tokens > before.num_tokens:
            words.append(f"{entry.request_id} has {after.num_tokens} tokens")
    return words


def decision_words(turn: Turn, decision: Decision) -> str:
    """One decision in words, with the numbers it rests on."""
    words = f"{decision.request_id} {decision.kind.value}"
    if decision.kind in (Kind.RUN, Kind.ADMIT):
        words += f" with {_count(decision.num_tokens, 'token')}"
    elif decision.kind in (Kind.REFUSE, Kind.RUN_REFUSED) and decision.transition is not None:
        words += f" ({shortage_words(decision.transition.allocation)})"
    elif decision.kind == Kind.PREEMPT and decision.transition is not None:
        gained = decision.transition.after.pool.num_free() - decision.transition.before.pool.num_free()
        lost = decision.transition.requests[decision.request_id].num_computed_tokens
        words += f" ({_count(gained, 'block')} gained, {_count(lost, 'token')} to compute again)"
    elif decision.kind == Kind.END:
        words += f" ({turn.after.ended[decision.request_id].value})"
    return words


def shortage_words(facts: AllocationFacts) -> str:
    """Why a call was refused: the whole prompt or this step, and the numbers."""
    watermark = f" + {facts.watermark} watermark" if facts.watermark else ""
    if facts.prompt_is_short(facts.watermark):
        needed, what, free, reserved = facts.prompt_missing, "all its tokens need", facts.before.pool.num_free(), 0
    else:
        needed, what, free, reserved = facts.step_missing, "needs", facts.free, facts.call.reserved_blocks
    kept = f" - {reserved} reserved" if reserved else ""
    return f"{what} {needed + facts.num_idle}{watermark}, {free} free{kept}"


def state_strip(state: SchedulerState) -> str:
    """The pool, then the queues and what is in flight."""
    return f"{pool_strip(state.snapshot)} | {queues_words(state)}"


def queues_words(state: SchedulerState) -> str:
    """Who runs, who waits in which order, which sessions wait for input, and the tokens of the steps in flight."""
    marks = {**dict.fromkeys(state.loading, " (loading)"), **dict.fromkeys(state.loaded, " (loaded)")}
    waiting = " ".join(f"{name}{marks.get(name, '')}" for name in state.waiting) or "-"
    flight = " then ".join(" ".join(f"{entry.request_id}:{entry.num_tokens}" for entry in step) for step in state.steps)
    queues = f"running: {' '.join(state.running) or '-'} | waiting: {waiting}"
    queues += f" | between turns: {' '.join(state.paused)}" if state.paused else ""
    return queues + (f" | in flight: {flight}" if flight else "")

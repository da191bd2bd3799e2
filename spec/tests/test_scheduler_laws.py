"""Every law about a scheduler can object: a real turn, the same turn broken by hand, and what the law says about it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MappingProxyType

import pytest

from slotproof.spec import Config, FullAttention, SlidingWindow
from slotproof.spec.laws import BY_ID, LAWS, SCHEDULER_LAWS
from slotproof.spec.scheduler import FCFS, Job, Policy, Scope, Turn, start, take_turn
from slotproof.spec.scheduler.move import Kind
from slotproof.spec.scheduler.policy import nobody, skip
from slotproof.spec.scheduler.turn import Aborted, Arrived, Happening, LoadDone, Processed, Scheduled

Break = Callable[[Turn], Turn]
STEP = (Scheduled(), Processed())
GREEDY = replace(FCFS, name="greedy", on_refusal=skip)


def play(policy: Policy, scope: Scope, *events: Happening) -> Turn:
    """The last of these turns."""
    state = start(scope)
    for event in events:
        turn = take_turn(policy, state, event)
        state = turn.after
    return turn


def scope_of(usable: int, *jobs: Job, window: int = 0, budget: int = 16, in_flight: int = 1) -> Scope:
    """Blocks of 2 tokens."""
    group = SlidingWindow(2, window) if window else FullAttention(2)
    return Scope(Config(usable + 1, (group,), 16, 16), jobs, budget, max_steps_in_flight=in_flight)


# Real turns.


def admission() -> Turn:
    """A and B are admitted, 3 and 2 tokens."""
    scope = scope_of(6, Job("A", (1, 1, 1), (2,)), Job("B", (2, 2), (2,)), budget=5)
    return play(FCFS, scope, Arrived("A"), Arrived("B"), Scheduled())


def preemption() -> Turn:
    """A, B and C hold 1 of 3 blocks each; A needs a second, and C is preempted."""
    jobs = [Job(name, (first, first), (9, 9)) for first, name in enumerate("ABC")]
    scope = scope_of(3, *jobs)
    return play(FCFS, scope, *(Arrived(name) for name in "ABC"), *STEP, Scheduled())


def refusal() -> Turn:
    """Big needs 3 of 2 free blocks; Small behind it is not looked at."""
    scope = scope_of(4, Job("A", (1, 1, 1), (2, 2)), Job("Big", (3,) * 5, (2,)), Job("Small", (2,), (2,)))
    return play(FCFS, scope, Arrived("A"), Arrived("Big"), Arrived("Small"), Scheduled())


def skipped_refusal() -> Turn:
    """Big is refused, and Small behind it is admitted by a policy that skips."""
    scope = scope_of(4, Job("A", (1, 1, 1), (2, 2)), Job("Big", (3,) * 5, (2,)), Job("Small", (2,), (2,)))
    return play(GREEDY, scope, Arrived("A"), Arrived("Big"), Arrived("Small"), Scheduled())


def load() -> Turn:
    """The load of A's first 2 tokens is noticed, and A is admitted."""
    scope = scope_of(4, Job("A", (1, 1, 1), (2,), num_external_tokens=2))
    return play(FCFS, scope, Arrived("A"), Scheduled(), LoadDone("A"), Scheduled())


def output() -> Turn:
    """A reads its 3 tokens, the first two from blocks that B's step filled."""
    scope = scope_of(4, Job("B", (1, 1, 2), (2,)), Job("A", (1, 1, 1), (2,)))
    return play(FCFS, scope, Arrived("B"), Arrived("A"), Scheduled(), Processed())


def output_of_a_window() -> Turn:
    """A reads its tokens 2, 3 and 4."""
    scope = scope_of(4, Job("A", (1, 1, 1, 1), (2, 2)), window=3)
    return play(FCFS, scope, Arrived("A"), *STEP, *STEP)


def error() -> Turn:
    """Long can never fit and ends with an error."""
    scope = scope_of(2, Job("Long", (1,) * 6, (2,)))
    return play(FCFS, scope, Arrived("Long"), Scheduled())


def stuck() -> Turn:
    """Nobody is preempted by a policy that never preempts: A and B wait for each other."""
    jobs = [Job(name, (first, first), (9, 9)) for first, name in enumerate("AB")]
    policy = replace(FCFS, victim=nobody)
    return play(policy, scope_of(2, *jobs), Arrived("A"), Arrived("B"), *STEP, Scheduled())


# Breaking them.


def after(**changes: object) -> Break:
    """Other parts of the state behind the turn."""
    return lambda turn: replace(turn, after=replace(turn.after, **changes))  # type: ignore[arg-type]


def counts(part: str, **values: int) -> Break:
    return after(**{part: MappingProxyType(values)})


def without_entries_of(name: str) -> Break:
    """The step does not run this request after all."""

    def broken(turn: Turn) -> Turn:
        steps = tuple(tuple(entry for entry in step if entry.request_id != name) for step in turn.after.steps)
        return after(steps=steps)(turn)

    return broken


def forgetting_slot(block: int) -> Break:
    """A block loses what its slots hold."""

    def broken(turn: Turn) -> Turn:
        def blank(memory: tuple[object, ...]) -> tuple[object, ...]:
            return (*memory[:block], (None, None), *memory[block + 1 :])

        written = blank(turn.written) if turn.written is not None else None
        changed = replace(turn, written=written)  # type: ignore[arg-type]
        return after(memory=blank(turn.after.memory))(changed)

    return broken


def decisions(change: Callable[[list[object]], list[object]]) -> Break:
    return lambda turn: replace(turn, decisions=tuple(change(list(turn.decisions))))  # type: ignore[arg-type]


def victim_keeps_its_blocks(turn: Turn) -> Turn:
    """The preemption frees nothing."""

    def kept(decision: object) -> object:
        if getattr(decision, "kind", None) != Kind.PREEMPT:
            return decision
        transition = decision.transition  # type: ignore[attr-defined]
        return replace(decision, transition=replace(transition, after=transition.before))  # type: ignore[type-var]

    return decisions(lambda made: [kept(decision) for decision in made])(turn)


def of_kind(kind: Kind) -> Callable[[object], bool]:
    return lambda decision: getattr(decision, "kind", None) == kind


def with_null_table(turn: Turn) -> Turn:
    """The window had moved on too far when the step was scheduled."""
    (entry,) = turn.before.steps[0]
    broken = replace(entry, tables=((0, 0, *entry.tables[0][2:]),))
    return replace(turn, before=replace(turn.before, steps=((broken,),)))


@dataclass(frozen=True)
class Case:
    law_id: str
    turn: Callable[[], Turn]
    broken: Break
    objection: str


def with_budget(budget: int) -> Break:
    return lambda turn: after(scope=replace(turn.after.scope, token_budget=budget))(turn)


def with_slots(number: int) -> Break:
    return lambda turn: after(scope=replace(turn.after.scope, max_running=number))(turn)


CASES = [
    Case("SCHED-1", admission, with_budget(4), "5 tokens are scheduled; the budget is 4"),
    Case("SCHED-1", admission, with_slots(1), "2 requests run; 1 may"),
    Case("SCHED-1", admission, after(running=("A",)), "request B is scheduled and is not running"),
    Case(
        "SCHED-1",
        preemption,
        lambda turn: replace(turn, entries=(*turn.entries, replace(turn.entries[0], request_id="C"))),
        "request C is scheduled and was preempted in the same step",
    ),
    Case(
        "SCHED-1",
        admission,
        lambda turn: replace(turn, entries=(turn.entries[1], turn.entries[1])),
        "request B is scheduled 2 times",
    ),
    Case(
        "SCHED-2",
        preemption,
        victim_keeps_its_blocks,
        "request C is preempted, and blocks [3] that only it held are not free",
    ),
    Case(
        "SCHED-2",
        preemption,
        lambda turn: replace(turn, before=replace(turn.before, running=())),
        "2 preemptions in one step, with 0 requests running before it",
    ),
    Case(
        "SCHED-2",
        preemption,
        decisions(lambda made: [*made[:1], replace(made[2], request_id="X")]),  # type: ignore[type-var]
        "request X is scheduled past the refused request A",
    ),
    Case(
        "SCHED-2",
        preemption,
        counts("preempted", C=3),
        "request C was preempted 3 times, and no request has ended in between",
    ),
    Case(
        "SCHED-3",
        refusal,
        after(waiting=("Small", "Big")),
        "the queue's order changed from ['Big', 'Small'] to ['Small', 'Big']",
    ),
    Case(
        "SCHED-3",
        refusal,
        lambda turn: after(
            requests=MappingProxyType(
                {**turn.after.requests, "Big": replace(turn.after.requests["Big"], num_computed_tokens=2)}
            )
        )(turn),
        "request Big was refused, and went from waiting, 0 computed, to waiting, 2",
    ),
    Case(
        "SCHED-3",
        refusal,
        lambda turn: after(
            snapshot=turn.after.snapshot.with_holding("Big", turn.after.snapshot.holding("A")),
        )(turn),
        "request Big was refused, and its table went to ((1, 2),); ((),) is due",
    ),
    Case(
        "SCHED-3",
        skipped_refusal,
        decisions(lambda made: [replace(one, stops=of_kind(Kind.REFUSE)(one)) for one in made]),  # type: ignore[type-var]
        "request Small is admitted behind the refused request Big",
    ),
    Case(
        "SCHED-4",
        admission,
        without_entries_of("B"),
        "block 3 is offered for [2 2]; its slot 0 holds nothing yet, and no step owes it",
    ),
    Case(
        "SCHED-4",
        load,
        forgetting_slot(1),
        "block 1 is offered for [1 1]; its slot 0 holds nothing yet, and no step owes it",
    ),
    Case(
        "SCHED-5",
        load,
        after(loaded=("A",)),
        "the load of request A is done, and the step does not notice it",
    ),
    Case(
        "SCHED-5",
        error,
        decisions(lambda made: [one for one in made if not of_kind(Kind.REFUSE)(one)]),
        "request Long ends with an error, and would fit with the others gone",
    ),
    Case(
        "SCHED-6",
        skipped_refusal,
        counts("overtaken", Big=3),
        "request Big was refused, and 3 requests that come after it were admitted since",
    ),
    Case(
        "MEM-1",
        output,
        forgetting_slot(1),
        "request B reads its token 0 from block 1, whose slot 0 holds nothing yet",
    ),
    Case("MEM-1", output_of_a_window, with_null_table, "request A reads its token 2 from a null entry"),
    Case(
        "MEM-3",
        admission,
        lambda turn: replace(turn, entries=(turn.entries[0], replace(turn.entries[1], tables=turn.entries[0].tables))),
        "slot 0 of block 1 is written for token 0 of request A and for token 0 of request B",
    ),
]


def objections(turn: Turn) -> dict[str, str]:
    """What the laws object to in a turn."""
    said = {law.id: law.objection(turn) for law in SCHEDULER_LAWS}
    for transition in turn.transitions:
        said |= {law.id: law.objection(transition) for law in LAWS if law.speaks_about(transition)}
    return {law_id: objection for law_id, objection in said.items() if objection is not None}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.law_id}-{case.turn.__name__}")
def test_a_law_objects_to_a_broken_turn_and_no_law_to_the_real_one(case: Case) -> None:
    real = case.turn()
    assert objections(real) == {}
    assert objections(case.broken(real))[case.law_id] == case.objection


def test_every_law_about_schedulers_objects_to_something() -> None:
    assert {case.law_id for case in CASES} == {law.id for law in SCHEDULER_LAWS}


def test_a_law_is_silent_about_turns_it_does_not_speak_of() -> None:
    turn = replace(output(), event=Aborted("A"))
    assert BY_ID["MEM-1"].objection(forgetting_slot(1)(turn)) is None  # type: ignore[arg-type]


# Cycles.


def of_cycle(*turns: Turn) -> str | None:
    (law,) = [law for law in SCHEDULER_LAWS if law.of_cycle is not None]
    assert law.of_cycle is not None
    return law.of_cycle(turns)


def test_a_cycle_in_which_nothing_is_scheduled_starves_everybody() -> None:
    assert of_cycle(stuck()) == "requests A, B can wait for ever: nothing is scheduled any more"


def test_a_cycle_without_a_step_is_not_fair() -> None:
    assert of_cycle(replace(stuck(), event=Arrived("C"))) is None


@pytest.mark.parametrize("part", ["steps", "loading"])
def test_a_cycle_on_which_a_step_or_a_load_never_ends_is_not_fair(part: str) -> None:
    turn = stuck()
    unending = {"steps": (admission().entries,), "loading": ("A",)}[part]
    assert of_cycle(replace(turn, before=replace(turn.before, **{part: unending}))) is None  # type: ignore[arg-type]


def test_who_ends_on_a_cycle_does_not_starve() -> None:
    turn = stuck()
    alone = replace(turn.before, requests=MappingProxyType({"B": turn.before.requests["B"]}))
    assert of_cycle(turn, replace(turn, before=alone)) == "request B can wait for ever: nothing is scheduled any more"


def test_who_waits_for_more_urgent_newcomers_does_not_starve() -> None:
    turn = stuck()
    urgent = replace(turn.before.scope, jobs=(*turn.before.scope.jobs, Job("U", (1,), (1,), priority=-1)))
    again = replace(turn, before=replace(turn.before, scope=urgent))
    assert of_cycle(again, replace(again, event=Arrived("U"))) is None
    assert of_cycle(turn, replace(turn, event=Arrived("A"))) is not None

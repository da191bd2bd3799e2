"""Policies with a planted fault, each with the smallest world we know that shows it, and the law that must name it."""

from dataclasses import dataclass, replace

from slotproof.conformance.scheduler_model import World
from slotproof.spec.admission import Refusal
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention
from slotproof.spec.scheduler import FCFS, Job, Policy, SchedulerState, Scope
from slotproof.spec.scheduler.ending import Given, Why, behind_fence
from slotproof.spec.scheduler.move import Move
from slotproof.spec.scheduler.policy import Next, always, fail_if_never, next_chunk
from slotproof.spec.scheduler.preemption import withdraw_tokens_and_keys


@dataclass(frozen=True)
class Planted:
    name: str
    policy: Policy
    world: World
    law_id: str
    actions: tuple[str, ...]
    """The shortest trace."""
    repeats_from: int | None = None


def newest_first(state: SchedulerState) -> tuple[str, ...]:
    return state.waiting[::-1]


def gives_up(state: SchedulerState, name: str, refusal: Refusal) -> Next:
    return Next.FAIL


def leaks_on_abort(state: SchedulerState, name: str, why: Why) -> Given:
    return (state.snapshot, state.fences) if why == Why.ABORTED else behind_fence(state, name, why)


def first_running(move: Move, name: str) -> str:
    return move.state.running[0]


def returns_tokens_twice(move: Move, victim: str) -> Move:
    once = withdraw_tokens_and_keys(move, victim)
    return replace(once, budget=once.budget + (once.budget - move.budget))


def pool(usable: int, caching: bool = True) -> Config:
    return Config(usable + 1, (FullAttention(2),), 16, 16, caching=caching)


def job(name: str, prompt: int, outputs: int, **more: object) -> Job:
    return Job(name, (ord(name), *((0,) * (prompt - 1))), (9,) * outputs, **more)  # type: ignore[arg-type]


PLANTED = (
    Planted(
        "livelock",
        replace(FCFS, name="preempts although nothing comes back", may_preempt=always),
        World("livelock", Scope(pool(2), (job("A", 2, 2), job("B", 2, 2)), 8, max_steps_in_flight=2)),
        "SCHED-5",
        ("arrive A", "arrive B", *("schedule", "schedule", "process") * 2, "schedule", "schedule"),
        7,
    ),
    Planted(
        "livelock of what never fits",
        replace(FCFS, name="admits by the chunk", admission=next_chunk, on_refusal=fail_if_never),
        World("too long", Scope(pool(2, caching=False), (job("A", 6, 1),), 2)),
        "SCHED-5",
        ("arrive A", *("schedule", "process", "schedule", "process", "schedule") * 3),
        11,
    ),
    Planted(
        "starvation",
        replace(FCFS, name="newest first", order=newest_first),
        World(
            "starvation",
            Scope(pool(2), (job("O", 4, 1), job("S", 2, 1, again=True), job("T", 2, 1, again=True)), 4),
        ),
        "SCHED-5",
        ("arrive O", *("arrive S", "arrive T", "schedule", "process") * 2),
        5,
    ),
    Planted(
        "giving up",
        replace(FCFS, name="ends whoever is refused", on_refusal=gives_up),
        World("giving up", Scope(pool(2), (job("A", 3, 2), job("B", 2, 2)), 4)),
        "SCHED-5",
        ("arrive A", "arrive B", "schedule"),
    ),
    Planted(
        "leak on abort",
        replace(FCFS, name="leaks on abort", give_back=leaks_on_abort),
        World("leak", Scope(pool(2), (job("A", 2, 2),), 4, may_abort=("A",))),
        "FREE-1",
        ("arrive A", "schedule", "abort A"),
    ),
    Planted(
        "budget counted twice",
        replace(FCFS, name="returns tokens twice", victim=first_running, withdraw=returns_tokens_twice),
        World("twice", Scope(pool(5), (job("L", 5, 2), job("H", 2, 2), job("X", 1, 5, num_drafts=3)), 4)),
        "SCHED-1",
        ("arrive L", "schedule", "process", "arrive H", "arrive X", "schedule", "process", "schedule"),
    ),
)

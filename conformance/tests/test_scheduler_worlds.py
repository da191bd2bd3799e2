"""The shipped policies in the shipped worlds: how many states there are, what is reached, and which laws are kept."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from slotproof.conformance.policy_status import BREACHES
from slotproof.conformance.scheduler_judge import LAW_IDS
from slotproof.conformance.scheduler_model import Reached, SchedulerModel
from slotproof.conformance.scheduler_search import Explored, explore_policy
from slotproof.conformance.scheduler_worlds import DIMENSIONS, PAIRS, WORLDS, world_of
from slotproof.conformance.search import search
from slotproof.spec.laws import BY_ID
from slotproof.spec.scheduler import FCFS, SHIPPED, Policy, environment, failing
from slotproof.spec.scheduler.ending import at_once
from slotproof.spec.scheduler.failing import readers
from slotproof.spec.scheduler.move import Kind, Move
from slotproof.spec.scheduler.preemption import preempt
from slotproof.spec.scheduler.state import Outcome, SchedulerState
from slotproof.spec.snapshot import Snapshot

COUNTS = {
    "plain": (250, 341, 14),
    "chunks": (302, 433, 18),
    "drafts": (246, 357, 13),
    "ahead": (573, 1012, 16),
    "loads": (825, 1345, 20),
    "in-step": (250, 341, 14),
    "failing": (1867, 3283, 20),
    "fatal": (1185, 2135, 20),
    "sessions": (667, 1015, 18),
    "priority": (250, 341, 14),
    "window": (252, 340, 14),
    "hybrid": (205, 295, 15),
    "watermark": (187, 270, 15),
    "lookahead": (206, 291, 15),
    "abort": (823, 1511, 15),
    "reset": (366, 805, 15),
    "reset-running": (1921, 3501, 25),
    "uncached": (173, 264, 12),
    "never": (119, 180, 11),
    "tight": (187, 275, 14),
    "same-step-victim": (55, 61, 10),
    "endless": (1609, 2615, 24),
}
"""States, transitions and depth of the reference in each world."""


def kept_everything(explored: Explored) -> bool:
    return explored.exhausted and not explored.found


@pytest.mark.parametrize("name", WORLDS)
def test_the_reference_keeps_every_law_with_each_dimension_alone(name: str) -> None:
    explored = explore_policy(FCFS, WORLDS[name])
    assert kept_everything(explored)
    assert (explored.states, explored.transitions, explored.depth) == COUNTS[name]


@pytest.mark.parametrize("name", ["loads", "priority", "same-step-victim"])
def test_the_reference_by_priority_keeps_every_law_where_it_differs(name: str) -> None:
    assert kept_everything(explore_policy(SHIPPED["priority"], WORLDS[name]))


@pytest.mark.parametrize(
    "name", ["drafts+ahead", "drafts+window", "ahead+window", "ahead+hybrid", "in-step+fatal", "ahead+sessions"]
)
def test_the_reference_keeps_every_law_where_drafts_windows_and_steps_ahead_meet(name: str) -> None:
    assert kept_everything(explore_policy(FCFS, PAIRS[name]))


def sharers_forgotten(state: SchedulerState, blocks: frozenset[int]) -> Iterator[tuple[str, Any, int]]:
    owners = {entry.request_id for entry in state.steps[0] if entry.num_loaded}
    yield from (reader for reader in readers(state, blocks) if reader[0] in owners)


def keeps_keys(snapshot: Snapshot, blocks: tuple[int, ...]) -> Snapshot:
    return snapshot


def trusts(policy: Policy, move: Move, name: str) -> Move:
    return move.with_state(replace(move.state, loaded=(*move.state.loaded, name)))


@pytest.mark.parametrize(
    ("module", "function", "fault", "world", "law_id"),
    [
        (failing, "readers", sharers_forgotten, ("in-step", "failing"), "MEM-1"),
        (failing, "evict_blocks", keeps_keys, ("in-step", "failing"), "SCHED-4"),
        (environment, "begin_anew", trusts, ("loads", "in-step", "failing"), "SCHED-4"),
        (environment, "set_back", preempt, ("reset-running",), "SCHED-2"),
    ],
    ids=["sharers", "keys", "spoiled loads", "resets count"],
)
def test_what_a_failed_load_or_a_reset_owes_is_missed_when_it_is_left_out(
    module: Any, function: str, fault: Any, world: tuple[str, ...], law_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, function, fault)
    assert explore_policy(FCFS, world_of(*world), (law_id,), first_only=True).broken == {law_id}


def test_a_load_leaves_room_for_a_speculative_step_too() -> None:
    """Three dimensions at once: with known tokens alone reserved, two parked requests lock each other out."""
    assert kept_everything(explore_policy(FCFS, world_of("loads", "lookahead", "uncached")))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["fcfs", pytest.param("priority", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", [*WORLDS, *PAIRS])
def test_both_references_keep_every_law_with_all_pairs_of_dimensions(policy: str, name: str) -> None:
    assert kept_everything(explore_policy(SHIPPED[policy], {**WORLDS, **PAIRS}[name]))


def test_there_is_a_world_for_each_dimension_and_each_pair() -> None:
    assert set(WORLDS) == {"plain", *DIMENSIONS, "same-step-victim", "endless"}
    assert len(PAIRS) == len(DIMENSIONS) * (len(DIMENSIONS) - 1) // 2


def test_everything_a_scheduler_decides_is_reached() -> None:
    kinds, outcomes = set[Kind](), set[Outcome]()
    rejected, ahead, spoiled = False, False, False
    together = world_of("loads", "in-step", "failing")
    for world in (
        *(WORLDS[name] for name in ("plain", "drafts", "ahead", "loads", "abort", "never", "sessions")),
        together,
    ):

        def note(reached: Reached) -> None:
            nonlocal rejected, ahead, spoiled
            turn = reached.turn
            assert turn is not None
            kinds.update(decision.kind for decision in turn.decisions)
            outcomes.update(turn.after.ended.values())
            rejected |= any(count == 1 for count in getattr(turn.event, "accepted", {}).values())
            ahead |= len(turn.after.steps) > 1 and bool(turn.after.fences)
            spoiled |= bool(turn.after.spoiled)

        search(SchedulerModel(FCFS, world, note))
    assert (kinds, outcomes) == (set(Kind), set(Outcome))
    assert rejected
    assert ahead
    assert spoiled


# Where the policies of vLLM break a law.


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: f"{breach.policy}-{breach.law_id}-{breach.world}")
def test_a_known_breach_still_shows(breach: object) -> None:
    policy, law_id, world = (getattr(breach, part) for part in ("policy", "law_id", "world"))
    assert law_id in BY_ID
    explored = explore_policy(SHIPPED[policy], WORLDS[world], (law_id,), first_only=True)
    assert explored.broken == {law_id}
    assert explore_policy(SHIPPED[policy.replace("vllm-", "")], WORLDS[world], (law_id,)).found == ()


def test_behind_the_late_notice_stands_a_deadlock_by_priority() -> None:
    """Patch and continue: what the frequent finding hides."""
    patched = replace(SHIPPED["vllm-priority"], name="notices loads", promotes_each_step=True)
    (found,) = explore_policy(patched, WORLDS["loads"], ("SCHED-5",), first_only=True).found
    assert found.objections == (("SCHED-5", "requests A, B can wait for ever: nothing is scheduled any more"),)
    repaired = replace(patched, order=SHIPPED["priority"].order)
    assert explore_policy(repaired, WORLDS["loads"], ("SCHED-5",)).found == ()


@pytest.mark.slow
@pytest.mark.parametrize("policy", [policy for policy in SHIPPED if policy.startswith("vllm")])
def test_what_is_not_a_known_breach_is_kept(policy: str) -> None:
    broken = {(name, law_id) for name, world in WORLDS.items() for law_id in broken_laws(SHIPPED[policy], name)}
    assert broken == {(breach.world, breach.law_id) for breach in BREACHES if breach.policy == policy}


def broken_laws(policy: Policy, world: str) -> set[str]:
    return explore_policy(policy, WORLDS[world], LAW_IDS).broken


def test_blocks_that_come_back_before_the_step_in_flight_is_done_are_written_by_it() -> None:
    """Why frees are deferred: a load fills the blocks, then the step of the aborted request writes them."""
    early = Policy("frees at once", give_back=at_once)
    explored = explore_policy(early, PAIRS["ahead+loads"], ("SCHED-4", "MEM-1"), first_only=True)
    (found,) = explored.found
    assert found.objections == (
        ("SCHED-4", "block 2 is offered for [1 1]; its slot 1 holds [2 2 1 1], and no step owes it"),
    )

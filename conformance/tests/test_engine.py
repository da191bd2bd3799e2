"""The engine around a scheduler, its verbs, the laws and the shrinker, on a small scheduler with planted faults."""

from dataclasses import replace

import pytest

from slotproof.conformance.actions import Action
from slotproof.conformance.driver import SeededChooser, walk_episode
from slotproof.conformance.find import shortest_failure
from slotproof.conformance.replay import Failure, replay
from slotproof.conformance.scheduler_adapter import EngineConfig
from slotproof.conformance.scheduler_laws import LAW_IDS, kind_of
from slotproof.conformance.scheduler_settings import draw_engine, most_blocks, simpler_engines
from slotproof.conformance.session import Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.subject import SCHEDULER, subject_of
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention

from .tiny_scheduler import TinyScheduler

GROUPS = ("full", "window", "full,window")


def walk(fault: str, episodes: int = 40, groups: tuple[str, ...] = ("full",)) -> tuple[Failure | None, Settings, Tally]:
    tally = Tally.fresh()
    for number in range(episodes):
        settings = Settings(groups=groups[number % len(groups)])
        failure = walk_episode(TinyScheduler(fault), settings, f"tiny/{number}", 120, tally)
        if failure is not None:
            return failure, settings, tally
    return None, settings, tally


def test_a_right_scheduler_breaks_no_law() -> None:
    failure, _, tally = walk("")
    assert failure is None
    assert {law_id for law_id in LAW_IDS if not tally.checks[law_id]} == set()
    met = {situation for situation, _, _ in tally.situations}
    assert {
        "step",
        "preemption",
        "resumed",
        "admitted with a hit",
        "session goes on",
        "reset",
        "abort in flight",
    } <= met


@pytest.mark.parametrize(
    ("fault", "law_id"),
    [
        ("one token over the budget", "SCHED-1"),
        ("a victim stays in the step", "SCHED-1"),
        ("the first is preempted", ""),
        ("a victim is forgotten", "SCHED-5"),
        ("a refusal keeps the hit", "SCHED-3"),
        ("a refused head goes to the end", "SCHED-3"),
        ("keys before they are computed", "SCHED-4"),
        ("an abort leaks a block", "POOL-2"),
        ("an end keeps the blocks", "POOL-2"),
        ("a token is told twice", "MEM-1"),
        ("a session keeps its last token", "MEM-1"),
        ("a removal is not announced", "EVENT-1"),
    ],
)
def test_a_planted_fault_is_found_and_its_law_named(fault: str, law_id: str) -> None:
    failure, _, _ = walk(fault)
    if not law_id:
        # A policy of its own is no fault.
        assert failure is None
        return
    assert failure is not None
    assert law_id in failure.violation.law_ids


def test_a_failure_shrinks_to_a_trace_that_still_shows_it() -> None:
    failure, settings, _ = walk("one token over the budget")
    assert failure is not None
    adapter = TinyScheduler("one token over the budget")
    shortest = shortest_failure(adapter, settings, failure, "seed")
    assert [action.verb for action in shortest.actions] == ["add", "step"]
    assert shortest.actions[0].arguments["request"] == "A"
    assert set(shortest.actions[0].arguments) == {"request", "prompt", "max_tokens"}
    again = replay(adapter, shortest.config, shortest.actions)
    assert again is not None
    assert again.violation.law_id == "SCHED-1"
    assert replay(TinyScheduler(), shortest.config, shortest.actions) is None


def test_the_same_seed_takes_the_same_walk() -> None:
    first, second = walk("a token is told twice")[0], walk("a token is told twice")[0]
    assert first is not None
    assert second is not None
    assert (first.config, first.actions) == (second.config, second.actions)


def test_any_part_of_a_trace_is_a_trace() -> None:
    failure, _, _ = walk("an abort leaks a block")
    assert failure is not None
    for position in range(len(failure.actions)):
        replay(TinyScheduler(), failure.config, failure.actions[:position] + failure.actions[position + 1 :])


def test_a_law_that_is_not_asked_for_is_not_judged() -> None:
    failure, _, _ = walk("a token is told twice")
    assert failure is not None
    tally = Tally.fresh()
    adapter = TinyScheduler("a token is told twice")
    assert replay(adapter, failure.config, failure.actions, tally=tally, law_ids=("SCHED-1",)) is None
    assert set(tally.checks) == {"SCHED-1"}


def test_an_exception_of_the_scheduler_breaks_progress() -> None:
    class Dying(TinyScheduler):
        def update(self, number: int, result: object) -> list[object]:
            raise RuntimeError("out of blocks")

    config = EngineConfig(Config(5, (FullAttention(2),), 8, 16))
    actions = (Action("add", {"request": "A", "prompt": (1,), "max_tokens": 1}), Action("step"))
    failure = replay(Dying(), config, actions)
    assert failure is not None
    assert failure.violation.law_id == "SCHED-5"
    assert failure.violation.objection == "the scheduler raised RuntimeError: out of blocks"


def test_a_scheduler_and_an_allocator_are_told_apart() -> None:
    assert subject_of(TinyScheduler()) is SCHEDULER


def test_every_engine_drawn_holds_one_request_of_full_length() -> None:
    for number in range(300):
        config = draw_engine(Settings(groups=GROUPS[number % 3]), SeededChooser(str(number)), TinyScheduler.profile)
        pool = config.pool
        need = sum(most_blocks(group, pool.max_model_len, pool.max_in_flight_tokens) for group in pool.groups)
        assert need <= pool.usable_blocks
        assert config.max_num_batched_tokens >= max(config.max_num_seqs, config.num_drafts + 2)
        for simpler in simpler_engines(config):
            assert simpler != config
            assert simpler.pool.usable_blocks >= sum(
                most_blocks(group, simpler.pool.max_model_len, simpler.pool.max_in_flight_tokens)
                for group in simpler.pool.groups
            )


def test_every_feature_is_drawn_alone_and_with_others() -> None:
    drawn = [draw_engine(Settings(), SeededChooser(str(number)), TinyScheduler.profile) for number in range(300)]
    for asynchronous in (False, True):
        for policy in ("fcfs", "priority"):
            for connector in ("", "recompute", "fail"):
                assert any(
                    (one.asynchronous, one.policy, one.connector) == (asynchronous, policy, connector) for one in drawn
                )
    assert {one.num_drafts for one in drawn} == {0, 1, 2, 3}
    assert {bool(one.pool.watermark_blocks) for one in drawn} == {False, True}
    assert {bool(one.long_prefill_token_threshold) for one in drawn} == {False, True}


def test_the_kind_of_an_objection_leaves_names_and_numbers_out() -> None:
    first = "A reads position 3 in block 2: [1 2] is due, it holds [2]"
    assert kind_of(first) == kind_of("B1 reads position 11 in block 7: [1] is due, it holds [1 1]")
    assert kind_of(first) != kind_of("A reads position 3, which has no slot in [0, 1]")
    assert kind_of("nothing moves, 1 blocks are free: WAITING (A, B)") == kind_of(
        "nothing moves, 2 blocks are free: WAITING (C)"
    )


def test_an_abort_inside_a_step_comes_before_its_output() -> None:
    config = EngineConfig(Config(5, (FullAttention(2),), 8, 16))
    actions = [
        Action("add", {"request": "A", "prompt": (1, 2), "max_tokens": 3}),
        Action("step", {"abort": "A"}),
        Action("drain"),
    ]
    tally = Tally.fresh()
    assert replay(TinyScheduler(), config, actions, tally=tally) is None
    assert tally.situations["abort in flight", "sync", "fcfs"] == 1
    assert tally.situations["abort", "sync", "fcfs"] == 0
    assert replay(TinyScheduler(), replace(config, asynchronous=True), actions) is None

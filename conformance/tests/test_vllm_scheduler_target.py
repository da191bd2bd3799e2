"""The target on vLLM's real scheduler: point SLOTPROOF_VLLM_PYTHON to a Python that has vLLM."""

import os
from pathlib import Path
from typing import Any

import pytest

from slotproof.conformance.actions import Action
from slotproof.conformance.errors import SetupError
from slotproof.conformance.replay import replay
from slotproof.conformance.scheduler_adapter import EngineConfig
from slotproof.conformance.scheduler_trace import read_trace
from slotproof.conformance.session import Tally
from slotproof.conformance.targets.registry import load_target
from slotproof.conformance.targets.vllm_patches import PATCHES
from slotproof.conformance.targets.vllm_scheduler import chosen_patches
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention, SlidingWindow

FULL, WINDOW = FullAttention(2), SlidingWindow(2, 4)
TRACES = sorted((Path(__file__).parents[1] / "traces").glob("*.json"))


@pytest.fixture(scope="module")
def scheduler() -> Any:
    """Importing vLLM takes seconds, so one adapter serves all tests."""
    python = os.environ.get("SLOTPROOF_VLLM_PYTHON")
    if not python:
        pytest.skip("vLLM is not here: run .ci/vllm-env VERSION DIR and set SLOTPROOF_VLLM_PYTHON=DIR/python-VERSION")
    return load_target(f"vllm-scheduler@{python}")


def test_the_sentence_for_an_unknown_repair() -> None:
    assert chosen_patches("pad-whole,withdraw-keys") == ("pad-whole", "withdraw-keys")
    with pytest.raises(SetupError, match=r"knows no repair 'luck'; there are: " + ", ".join(PATCHES)):
        chosen_patches("pad-whole,luck")


def two_requests(**transfers: Any) -> list[Action]:
    prompt = (1, 2, 1, 2, 1)
    return [
        Action("add", {"request": "A", "prompt": prompt, "max_tokens": 5, "miss": 50, **transfers}),
        Action("add", {"request": "B", "prompt": prompt, "max_tokens": 4, "miss": 50}),
        *[Action("step")] * 3,
        Action("add", {"request": "C", "prompt": (*prompt, 1, 1), "max_tokens": 3, "miss": 50}),
        Action("drain"),
    ]


@pytest.mark.thirdparty
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("groups", [(FULL,), (WINDOW,), (FULL, WINDOW)], ids=["full", "window", "hybrid"])
@pytest.mark.parametrize(
    ("feature", "transfers", "situation"),
    [
        ({}, {}, "admitted with a hit"),
        ({"num_drafts": 2}, {}, "draft rejected"),
        ({"num_drafts": 2, "draft_lookahead": True}, {}, "draft accepted"),
        ({"connector": "fail"}, {"load": 4}, "load in the step"),
        ({"connector": "recompute"}, {"load": 4, "beside": True, "latency": 2}, "load beside the steps"),
        ({"connector": "fail"}, {"load": 4, "unsure": 2, "sends": True, "latency": 2}, "ended: length"),
    ],
    ids=["plain", "drafts", "lookahead", "load", "asynchronous load", "send"],
)
def test_every_dimension_runs_to_its_end(
    scheduler: Any,
    asynchronous: bool,
    policy: str,
    groups: Any,
    feature: dict[str, Any],
    transfers: dict[str, Any],
    situation: str,
) -> None:
    tally = Tally.fresh()
    pool = Config(30, groups, 16, 32 if asynchronous else 16)
    config = EngineConfig(pool, asynchronous, policy, 3, 16, **feature)
    assert replay(scheduler, config, two_requests(**transfers), tally=tally) is None
    assert tally.situations[situation, "async" if asynchronous else "sync", policy]
    assert tally.situations["ended: length", "async" if asynchronous else "sync", policy] == 3


@pytest.mark.thirdparty
def test_a_pool_for_one_preempts_and_resumes(scheduler: Any) -> None:
    tally = Tally.fresh()
    config = EngineConfig(Config(5, (FULL,), 8, 16), max_num_seqs=2, reserve_whole_prompt=False)
    actions = [
        Action("add", {"request": "A", "prompt": (1, 1), "max_tokens": 6}),
        Action("add", {"request": "B", "prompt": (2, 2), "max_tokens": 6}),
        Action("drain"),
    ]
    assert replay(scheduler, config, actions, tally=tally) is None
    assert tally.situations["preemption", "sync", "fcfs"]
    assert tally.situations["resumed", "sync", "fcfs"]


@pytest.mark.thirdparty
def test_a_session_goes_on_without_its_last_token(scheduler: Any) -> None:
    tally = Tally.fresh()
    actions = [
        Action("add", {"request": "A", "prompt": (1, 2), "max_tokens": 2, "session": True}),
        Action("input", {"request": "A", "tokens": (2, 2), "max_tokens": 1}),
        Action("drain"),
    ]
    assert replay(scheduler, EngineConfig(Config(9, (FullAttention(16),), 32, 16)), actions, tally=tally) is None
    assert tally.situations["session goes on", "sync", "fcfs"] == 1


@pytest.mark.thirdparty
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_shipped_trace_still_shows_its_finding(scheduler: Any, path: Path) -> None:
    trace = read_trace(path)
    failure = replay(scheduler, trace.config, trace.actions)
    assert failure is not None
    assert trace.violates is not None
    assert (failure.violation.law_id, failure.violation.objection) == (
        trace.violates["law"],
        trace.violates["objection"],
    )

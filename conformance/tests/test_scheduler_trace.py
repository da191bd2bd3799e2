"""Traces of schedulers as files, and carrying them out again."""

import json
from pathlib import Path

import pytest

from slotproof.conformance import check_vector
from slotproof.conformance.actions import Action
from slotproof.conformance.errors import SetupError
from slotproof.conformance.scheduler_adapter import EngineConfig
from slotproof.conformance.scheduler_trace import SchedulerTrace, engine_words, is_trace, parse_trace, read_trace
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention, SlidingWindow

CONFIG = EngineConfig(
    Config(7, (FullAttention(2), SlidingWindow(2, 4)), 9, 16, watermark_blocks=1),
    asynchronous=True,
    policy="priority",
    num_drafts=2,
    connector="recompute",
)
ACTIONS = (
    Action("add", {"request": "A", "prompt": (1, 2), "max_tokens": 2, "session": True}),
    Action("step", {"abort": "A"}),
)
SHIPPED = sorted((Path(__file__).parents[1] / "traces").glob("*.json"))


def test_a_trace_survives_its_file(tmp_path: Path) -> None:
    trace = SchedulerTrace("some", CONFIG, ACTIONS, "by hand", {"law": "MEM-1", "target": "x", "objection": "y"})
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace.as_json()))
    assert is_trace(path.read_text())
    assert read_trace(path) == trace


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"actions": []}, "at actions"),
        ({"actions": [{"verb": "jump"}]}, "'jump' is not one of"),
        ({"actions": [{"verb": "add", "request": "A"}]}, "is a required property"),
        ({"config": {"pool": {"num_blocks": 1, "block_size": 2, "groups": ["full"]}}}, "num_blocks is 1"),
        ({"config": {"pool": {"num_blocks": 4, "block_size": 2, "groups": ["mamba"]}}}, "'mamba' is not modelled"),
        (
            {"config": {"pool": {"num_blocks": 4, "block_size": 2, "groups": ["full"]}, "num_drafts": "two"}},
            "num_drafts",
        ),
        ({"violates": {"law": "NO-1", "target": "x", "objection": "y"}}, "'NO-1' is not one of"),
    ],
)
def test_a_broken_trace_is_named_in_one_sentence(change: dict[str, object], sentence: str) -> None:
    document = SchedulerTrace("some", CONFIG, ACTIONS).as_json() | change
    with pytest.raises(SetupError) as caught:
        parse_trace(json.dumps(document), "there")
    assert str(caught.value).startswith("there ")
    assert sentence in str(caught.value)


def test_a_file_that_is_cut_off_or_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="is not JSON, perhaps cut off"):
        parse_trace('{"format": ', "there")
    with pytest.raises(SetupError, match="cannot be read"):
        read_trace(tmp_path / "none.json")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_trace_says_what_it_breaks(path: Path) -> None:
    trace = read_trace(path)
    assert trace.name == path.stem
    assert trace.violates is not None


def test_a_trace_is_not_for_an_allocator() -> None:
    with pytest.raises(SetupError, match="one is about a scheduler, the other an allocator"):
        check_vector(SchedulerTrace("some", CONFIG, ACTIONS).as_json(), "impl")


def test_an_engine_in_words() -> None:
    assert engine_words(CONFIG) == (
        "asynchronous, priority, at most 4 run, 16 tokens a step, 2 drafts, a connector, failed loads: recompute"
    )

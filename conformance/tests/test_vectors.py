"""The shipped vectors hold on both of our allocators, cover every law and notice a change; a broken file is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from slotproof.conformance import check_vector
from slotproof.conformance.actions import perform
from slotproof.conformance.adapter import Adapter
from slotproof.conformance.errors import SetupError
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.targets.impl import ImplAdapter
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.conformance.vector import (
    FOLDER,
    OBSERVED,
    Mismatch,
    config_from_json,
    not_for,
    parse_vector,
    read_vector,
    run_vector,
    shipped_vectors,
)
from slotproof.conformance.violation import Violation
from slotproof.spec.config import Config, FreeOrder
from slotproof.spec.groups import FullAttention, SlidingWindow
from slotproof.spec.laws import LAWS
from slotproof.spec.transition import Allocated

from .faults import FAULTS, SEEN_IN_THE_WILD, Fault, plant

VECTORS = {vector.name: vector for vector in shipped_vectors()}
SCHEMA = json.loads(FOLDER.joinpath("schema.json").read_text(encoding="utf-8"))
FILES = sorted(entry.name for entry in FOLDER.iterdir() if entry.name.endswith(".json") and entry.name != "schema.json")

ASKS = ("admit", "retry", "load", "extend")

SMALL_CONFIG = {"num_blocks": 4, "block_size": 2, "groups": ["full"]}
ADMISSION = {"verb": "admit", "request": "A", "prompt": [1, 1, 1]}


def small(**changes: Any) -> str:
    """The text of a vector with one admission, some of its fields changed."""
    document = {
        "format": "slotproof-vector-1",
        "name": "small",
        "laws": ["POOL-1"],
        "config": SMALL_CONFIG,
        "actions": [ADMISSION],
    }
    return json.dumps(document | changes)


def with_config(**changes: Any) -> str:
    return small(config=SMALL_CONFIG | changes)


class TestShipped:
    @pytest.mark.parametrize("make", [ReferenceAdapter, ImplAdapter], ids=["reference", "impl"])
    @pytest.mark.parametrize("name", VECTORS)
    def test_holds(self, name: str, make: Callable[[], Adapter]) -> None:
        run_vector(make(), VECTORS[name])

    @pytest.mark.parametrize("name", FILES)
    def test_is_of_the_schema_and_named_after_its_file(self, name: str) -> None:
        document = json.loads(FOLDER.joinpath(name).read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(SCHEMA).validate(document)
        assert f"{document['name']}.json" == name
        assert document["source"]

    @pytest.mark.parametrize("name", VECTORS)
    def test_every_action_does_something_and_says_what_must_come_of_it(self, name: str) -> None:
        """An action that a world has no use for does nothing, so a slip in a vector would go unnoticed."""
        session = Session(ReferenceAdapter(), VECTORS[name].config, Tally.fresh())
        for number, step in enumerate(VECTORS[name].steps, start=1):
            world, place = session.world, f"call {number}, {step.action.verb}"
            session.answers.clear()
            perform(session, step.action)
            assert session.answers or session.world != world, f"{place}, does nothing"
            asked = any(isinstance(event, Allocated) for event in session.answers)
            assert asked == (step.action.verb in ASKS), f"{place}, does not ask for slots"
            assert {"free"} | ({"answer"} if asked else set()) <= set(step.expect), f"{place}, expects too little"

    def test_tag_every_law(self) -> None:
        assert {law for vector in VECTORS.values() for law in vector.laws} == {law.id for law in LAWS}
        assert all(vector.laws for vector in VECTORS.values())

    def test_tell_the_lesson_and_its_exercises(self) -> None:
        lesson = VECTORS["seed-trace"]
        assert {"seed-exercise-1", "seed-exercise-2", "seed-exercise-3"} <= set(VECTORS)
        assert (lesson.steps[-1].action.arguments["request"], lesson.steps[-1].expect["answer"]) == ("B", None)

    @pytest.mark.parametrize("fault", [*FAULTS, *SEEN_IN_THE_WILD], ids=lambda fault: fault.name)
    def test_notice_a_planted_fault_by_a_vector_of_its_law(self, fault: Fault, tmp_path: Path) -> None:
        adapter = plant(fault, tmp_path)
        vectors = [vector for vector in VECTORS.values() if fault.law in vector.laws]
        assert [vector.name for vector in vectors if not holds(adapter, vector.name)] != []


def holds(adapter: Adapter, name: str) -> bool:
    try:
        run_vector(adapter, VECTORS[name])
    except (Violation, Mismatch):
        return False
    return True


RIGHT_AND_WRONG: dict[str, tuple[Any, Any]] = {
    "answer": ([[1, 2]], [[1, 3]]),
    "num_new": (2, 1),
    "hit": (0, 2),
    "free": (1, 0),
    "queue": ([3], [1]),
    "keyed": ([1], [1, 2]),
    "tables": ({"A": [[1, 2]]}, {"A": [[2, 1]]}),
    "table_length": ({"A": 2}, {"A": 3}),
    "copies": ([], [[1, 2]]),
    "refs": ({"1": 1, "3": 0}, {"1": 1, "3": 1}),
    "succeeded": (False, True),
}
"""What comes out of the small vector, by the name of the expectation, and something else."""


class TestExpectations:
    def test_cover_everything_the_schema_allows(self) -> None:
        expectable = set(SCHEMA["$defs"]["expectation"]["properties"])
        assert expectable == set(OBSERVED) == set(RIGHT_AND_WRONG)

    @pytest.mark.parametrize("expectation", RIGHT_AND_WRONG)
    def test_accept_what_comes_out_and_nothing_else(self, expectation: str) -> None:
        right, wrong = RIGHT_AND_WRONG[expectation]
        run_vector(ImplAdapter(), parse_vector(small(actions=[ADMISSION | {"expect": {expectation: right}}]), "here"))
        with pytest.raises(Mismatch) as caught:
            run_vector(
                ImplAdapter(), parse_vector(small(actions=[ADMISSION | {"expect": {expectation: wrong}}]), "here")
            )
        call = "small, call 1 (admit A prompt=[1 1 1])"
        assert str(caught.value) == f"{call}: {expectation} is {right}, expected {wrong}"

    @pytest.mark.parametrize("name", VECTORS)
    def test_of_a_shipped_vector_are_looked_at(self, name: str) -> None:
        document = VECTORS[name].as_json()
        document["actions"][-1]["expect"]["free"] += 1
        with pytest.raises(Mismatch, match=rf"^{name}, call {len(document['actions'])} .*: free is \d+, expected \d+$"):
            run_vector(ImplAdapter(), parse_vector(json.dumps(document), name))

    def test_say_nothing_about_targets_below_identity(self) -> None:
        class Safe(ImplAdapter):
            profile = ImplAdapter.profile.__class__(name="safe", group_kinds=("full",))

        run_vector(Safe(), parse_vector(small(actions=[ADMISSION | {"expect": {"queue": []}}]), "here"))

    def test_fail_a_test_that_carries_the_vector_out(self) -> None:
        check_vector(json.loads(small(actions=[ADMISSION | {"expect": {"free": 1}}])))
        with pytest.raises(AssertionError, match="free is 1, expected 2"):
            check_vector(json.loads(small(actions=[ADMISSION | {"expect": {"free": 2}}])), target="reference")


class TestJson:
    @pytest.mark.parametrize("name", VECTORS)
    def test_comes_back_as_it_went(self, name: str) -> None:
        assert parse_vector(json.dumps(VECTORS[name].as_json()), name) == VECTORS[name]

    def test_keeps_what_a_counterexample_says(self) -> None:
        violates = {
            "law": "POOL-1",
            "target": "mine",
            "objection": "block 1 is queued twice",
            "expected": "",
            "got": "",
        }
        vector = parse_vector(small(violates=violates), "here")
        assert vector.as_json()["violates"] == violates

    def test_of_a_configuration_may_leave_out_whatever_restricts(self) -> None:
        config = config_from_json({"num_blocks": 4, "block_size": 2, "groups": ["full", "window:5"]})
        groups = (FullAttention(2), SlidingWindow(2, 5))
        assert config == Config(4, groups, 8, 8, 0, caching=True, free_order=FreeOrder.UNHASHED_FIRST)

    def test_of_a_configuration_says_all_of_it(self) -> None:
        limits = {"max_model_len": 7, "max_in_flight_tokens": 5, "watermark_blocks": 1}
        fields = SMALL_CONFIG | limits | {"caching": False, "free_order": "lru"}
        config = config_from_json(fields)
        assert config == Config(4, (FullAttention(2),), 7, 5, 1, caching=False, free_order=FreeOrder.LRU)


NO_VECTOR = "broken.json is JSON but no slotproof vector"

BROKEN: dict[str, tuple[str, str]] = {
    "cut off": (
        small()[:60],
        "broken.json is not JSON, perhaps cut off: Unterminated string starting at: line 1 column 60 (char 59)",
    ),
    "empty": ("", "broken.json is not JSON, perhaps cut off: Expecting value: line 1 column 1 (char 0)"),
    "a list": ("[1]", f"{NO_VECTOR}: at its top level, [1] is not of type 'object'"),
    "of another kind": ('{"a": 1}', f"{NO_VECTOR}: at its top level, 'actions' is a required property"),
    "of another format": (small(format="vector-2"), f"{NO_VECTOR}: at format, 'slotproof-vector-1' was expected"),
    "without actions": (small(actions=[]), f"{NO_VECTOR}: at actions, [] should be non-empty"),
    "without a verb": (
        small(actions=[ADMISSION, {"request": "A"}]),
        f"{NO_VECTOR}: at actions/1, 'verb' is a required property",
    ),
    "unknown verb": (
        small(actions=[{"verb": "admitt"}]),
        "broken.json has an action with the unknown verb 'admitt'; the verbs are "
        "admit, retry, load, loaded, extend, batch, output, free, preempt, defer, return, copied, evict, reset",
    ),
    "unknown argument": (
        small(actions=[ADMISSION | {"lookahaed": 2}]),
        f"{NO_VECTOR}: at actions/0, Additional properties are not allowed ('lookahaed' was unexpected)",
    ),
    "token that is no number": (
        small(actions=[ADMISSION | {"prompt": [1, "x"]}]),
        f"{NO_VECTOR}: at actions/0/prompt/1, 'x' is not of type 'integer'",
    ),
    "negative argument": (
        small(actions=[ADMISSION | {"new": -1}]),
        f"{NO_VECTOR}: at actions/0/new, -1 is less than the minimum of 0",
    ),
    "unknown expectation": (
        small(actions=[ADMISSION | {"expect": {"qeue": []}}]),
        f"{NO_VECTOR}: at actions/0/expect, Additional properties are not allowed ('qeue' was unexpected)",
    ),
    "unknown law": (
        small(laws=["POOL-1", "POOL-9"]),
        "broken.json is tagged with the unknown law POOL-9; `slotproof laws` lists them",
    ),
    "no usable block": (
        with_config(num_blocks=1),
        "broken.json cannot be used: num_blocks is 1: block 0 is the null block and never handed out; use 2 or more",
    ),
    "watermark of the whole pool": (
        with_config(watermark_blocks=3),
        "broken.json cannot be used: watermark_blocks is 3: it must be at least 0 and less than the 3 usable blocks, "
        "or nothing is ever admitted",
    ),
    "kind that is not modelled": (
        with_config(groups=["full", "mamba"]),
        "broken.json cannot be used: group kind 'mamba' is not modelled; "
        "use a comma-separated list of full, window, window:W (W tokens), partial, partial:H (full attention, hits end "
        "at every H tokens)",
    ),
    "window of one": (
        with_config(groups=["window:1"]),
        "broken.json cannot be used: window is 1: a sliding window of 1 is not modelled; use a window of 2 or more",
    ),
    "block of nothing": (
        with_config(block_size=0),
        "broken.json cannot be used: block size is 0: a block holds at least one token; use 1 or more",
    ),
    "unknown free order": (
        with_config(free_order="fifo"),
        f"{NO_VECTOR}: at config/free_order, 'fifo' is not one of ['unhashed-first', 'lru']",
    ),
}
"""What is wrong with a text, the text, and the whole message."""

INCOMPLETE: dict[str, dict[str, Any]] = {
    "admit needs request": {"verb": "admit", "prompt": [1]},
    "admit needs prompt": {"verb": "admit", "request": "A"},
    "retry needs request": {"verb": "retry"},
    "load needs external": {"verb": "load", "request": "A"},
    "output needs accepted": {"verb": "output", "request": "A", "token": 0},
    "output needs token": {"verb": "output", "request": "A", "accepted": 0},
    "evict needs blocks": {"verb": "evict"},
}
"""Actions that lack what their verb needs."""


class TestBrokenFile:
    @pytest.mark.parametrize("fault", BROKEN)
    def test_is_named_with_the_place(self, fault: str) -> None:
        text, message = BROKEN[fault]
        with pytest.raises(SetupError) as caught:
            parse_vector(text, "broken.json")
        assert str(caught.value) == message

    @pytest.mark.parametrize("lack", INCOMPLETE)
    def test_with_an_incomplete_action_is_named_with_the_place(self, lack: str) -> None:
        with pytest.raises(SetupError) as caught:
            parse_vector(small(actions=[ADMISSION, INCOMPLETE[lack]]), "broken.json")
        assert str(caught.value) == f"{NO_VECTOR}: at actions/1, {lack}"

    @pytest.mark.parametrize("content", [None, b"\xff\xfe"], ids=["missing", "binary"])
    def test_that_cannot_be_read_is_named(self, content: bytes | None, tmp_path: Path) -> None:
        path = tmp_path / "broken.json"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(SetupError) as caught:
            read_vector(path)
        assert str(caught.value).startswith(f"{path} cannot be read: ")

    def test_names_its_path_when_it_is_cut_off(self, tmp_path: Path) -> None:
        path = tmp_path / "broken.json"
        path.write_text(small()[:10], encoding="utf-8")
        with pytest.raises(SetupError) as caught:
            read_vector(path)
        assert str(caught.value).startswith(f"{path} is not JSON, perhaps cut off: ")


class TestTargets:
    """A target is asked only about vectors of its kind."""

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({}, None),
            ({"groups": ["window:4"]}, "plain has no window groups"),
            ({"groups": ["full", "full"]}, "plain has no hybrid groups"),
            ({"free_order": "lru"}, "plain has no free order lru"),
            ({"caching": False}, "plain cannot have caching off"),
        ],
    )
    def test_why_not(self, changes: dict[str, Any], reason: str | None) -> None:
        class Plain(ImplAdapter):
            profile = ImplAdapter.profile.__class__(name="plain", caching=(True,), free_orders=("unhashed-first",))

        assert not_for(Plain(), parse_vector(with_config(**changes), "here")) == reason

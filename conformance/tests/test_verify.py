"""A run is a function of its plan: same seed and steps, same report, whoever does the work."""

import json
from dataclasses import replace

import pytest

from slotproof.conformance.adapter import RequestView
from slotproof.conformance.errors import AdapterError, SetupError
from slotproof.conformance.plan import CHUNK_STEPS, Plan
from slotproof.conformance.report import reach_rows, report_json
from slotproof.conformance.settings import DEFAULT_GROUPS
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.conformance.verify import settings_for, verify
from slotproof.spec.config import Config

PLAN = Plan("impl", settings_for(DEFAULT_GROUPS), steps=4_500, workers=1)


class ForgetsToFree(ReferenceAdapter):
    """Keeps every second request's blocks."""

    def reset(self, config: Config) -> None:
        super().reset(config)
        self.num_freed = 0

    def free(self, request: RequestView) -> None:
        self.num_freed += 1
        if self.num_freed % 2:
            super().free(request)


class RefusesEverything(ReferenceAdapter):
    """Nothing ever fits."""

    def allocate_slots(self, *_: object, **__: object) -> None:
        return None


class ReturnsText(ReferenceAdapter):
    """Answers in the wrong type."""

    def block_table(self, request: RequestView) -> str:  # type: ignore[override]
        return "1, 2, 3"


class CannotReset(ReferenceAdapter):
    """Breaks before anything is asked."""

    def reset(self, config: object) -> None:
        raise RuntimeError("no device")


def timeless(plan: Plan) -> dict[str, object]:
    return {name: value for name, value in report_json(verify(plan)).items() if name != "seconds"}


def test_the_same_seed_and_steps_give_the_same_report_with_any_number_of_workers() -> None:
    alone = timeless(PLAN)
    assert alone["steps"] == 4_500
    assert alone["verdict"] == "conforms"
    assert timeless(PLAN) == alone
    assert timeless(replace(PLAN, workers=2)) == alone
    assert timeless(replace(PLAN, seed=1))["laws"] != alone["laws"]


def test_a_time_limit_stops_a_prefix_of_the_same_walk() -> None:
    stopped = verify(replace(PLAN, seconds=0.0, workers=2))
    assert stopped.steps % CHUNK_STEPS == 0
    assert stopped.steps < PLAN.steps
    if stopped.steps:
        assert timeless(replace(PLAN, steps=stopped.steps))["laws"] == report_json(stopped)["laws"]


def test_every_law_is_held_or_says_why_not() -> None:
    laws = timeless(PLAN)["laws"]
    assert {law["status"] for law in laws} == {"held"}  # type: ignore[attr-defined]
    few = report_json(verify(replace(PLAN, law_ids=("FREE-1",), steps=1_000)))["laws"]
    assert {law["id"] for law in few if law["status"] == "held"} == {"FREE-1"}
    assert {law["reason"] for law in few if law["status"] == "skipped"} == {"not among the laws asked for"}


def test_reach_excludes_a_cell_only_with_a_reason() -> None:
    report = verify(replace(PLAN, steps=1_000))
    excluded = {row["excluded_by"] for row in reach_rows(report)}
    assert excluded == {"", "adopt-before-holding"}
    assert sum(row["count"] for row in reach_rows(report) if row["excluded_by"]) == 0


def test_a_violation_stops_its_group_setting_and_the_others_go_on() -> None:
    broken = Plan(f"{__name__}:ForgetsToFree", settings_for(("full", "window")), steps=6_000, workers=1)
    report = verify(broken)
    assert [found.law_id for found in report.found] == ["FREE-1", "FREE-1"]
    assert report.steps < 6_000
    assert len(verify(replace(broken, fail_fast=True)).found) == 1
    example = report_json(report)["counterexample"]
    assert example["law"] == "FREE-1"
    assert len(example["calls"]) <= 4
    json.dumps(report_json(report))


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("RefusesEverything", "the smoke check failed: allocate_slots refused 4 tokens in an empty pool of 8 blocks"),
        ("ReturnsText", "block_table returned '1, 2, 3': return block ids, one tuple a group (or a flat list)"),
        ("CannotReset", "the smoke check failed: reset raised RuntimeError: no device"),
    ],
)
def test_a_broken_adapter_is_not_a_broken_allocator(target: str, words: str) -> None:
    with pytest.raises(AdapterError) as caught:
        verify(Plan(f"{__name__}:{target}", settings_for(("full",)), steps=100, workers=1))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_to_verify_says_why() -> None:
    class OnlyFull(ReferenceAdapter):
        profile = replace(ReferenceAdapter.profile, group_kinds=("full",))

    globals()["OnlyFull"] = OnlyFull
    with pytest.raises(SetupError) as caught:
        verify(Plan(f"{__name__}:OnlyFull", settings_for(("window",)), steps=100, workers=1))
    assert str(caught.value).startswith("nothing to verify: reference has no window groups; choose other --groups")


def test_the_plan_cuts_the_walk_so_that_group_settings_take_turns() -> None:
    chunks = list(replace(PLAN, steps=2_500).chunks())
    assert [(chunk.number, chunk.settings.groups, chunk.steps) for chunk in chunks] == [
        (0, "full", 1000),
        (1, "window", 1000),
        (2, "full,window", 500),
    ]

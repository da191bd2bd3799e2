"""Other people's allocators, unmodified: vLLM conforms but for its known deviation, nano-vllm-voxcpm has a fault."""

import importlib.util
import os

import pytest

from slotproof.conformance.deviations import shipped_deviations
from slotproof.conformance.plan import Plan
from slotproof.conformance.reach import HitKind, Outcome
from slotproof.conformance.report import Report
from slotproof.conformance.verify import settings_for, verify

PYTHON = os.environ.get("SLOTPROOF_VLLM_PYTHON", "")

pytestmark = pytest.mark.thirdparty

needs_vllm = pytest.mark.skipif(
    not PYTHON, reason="vLLM is not here: run .ci/vllm-env VERSION DIR and set SLOTPROOF_VLLM_PYTHON=DIR/python-VERSION"
)
needs_nano = pytest.mark.skipif(
    importlib.util.find_spec("nanovllm_voxcpm") is None or importlib.util.find_spec("xxhash") is None,
    reason="nano-vllm-voxcpm is not here: pip install --no-deps nano-vllm-voxcpm==2.0.5 xxhash",
)


def verify_vllm(groups: str, *, caching: bool, steps: int) -> Report:
    target = f"vllm@{PYTHON}"
    settings = settings_for((groups,), caching=caching)
    return verify(Plan(target, settings, steps=steps, deviations=shipped_deviations(target), workers=1))


def times(report: Report, **situation: object) -> int:
    """How often the run met cells with these fields."""
    return sum(
        count
        for cell, count in report.tally.reach.items()
        if all(getattr(cell, name) == value for name, value in situation.items())
    )


@needs_vllm
def test_vllm_with_full_attention_conforms_at_identity_over_every_kind_of_refusal_and_hit() -> None:
    report = verify_vllm("full", caching=True, steps=40_000)
    assert report.found == []
    assert report.conforms
    assert report.steps == 40_000
    assert sum(report.tally.deviations.values()) == 0
    assert times(report, outcome=Outcome.WHOLE_PROMPT) >= 500
    assert times(report, outcome=Outcome.STEP) >= 500
    assert times(report, hit=HitKind.IDLE) >= 500
    assert times(report, hit=HitKind.HELD) >= 500
    assert report.tally.rejected_drafts >= 200


@needs_vllm
@pytest.mark.parametrize(
    ("groups", "caching"),
    [
        ("window", True),
        ("full,window", True),
        ("full,window,window", True),
        ("full", False),
        ("window", False),
        ("full,window", False),
    ],
)
def test_vllm_with_windows_or_without_caching_conforms_but_for_its_known_deviation(groups: str, caching: bool) -> None:
    report = verify_vllm(groups, caching=caching, steps=20_000)
    assert report.found == []
    assert report.conforms
    assert report.steps == 20_000
    assert set(report.tally.deviations) <= {"vllm-empty-table-entry"}
    assert (report.tally.deviations["vllm-empty-table-entry"] > 0) == ("window" in groups)


@needs_nano
def test_nano_vllm_voxcpm_answers_a_lookup_with_blocks_that_hold_something_else() -> None:
    report = verify(Plan("nano-vllm=nanovllm_voxcpm", settings_for(("full",))))
    (found,) = report.found
    assert found.law_id == "LOOKUP-1"
    assert len(found.fields["calls"]) <= 6
    assert "is read for position" in found.fields["objection"]

"""A known deviation covers exactly what it describes, and must still be shown by its vector."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slotproof.conformance.adapter import RequestView
from slotproof.conformance.deviations import SHIPPED, Deviation, load_deviations, shipped_deviations
from slotproof.conformance.errors import SetupError
from slotproof.conformance.plan import Plan
from slotproof.conformance.report import report_json
from slotproof.conformance.scheduler_trace import read_trace
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.conformance.vector import read_vector
from slotproof.conformance.verify import settings_for, verify

ENTRY = {"id": "x", "target": "t", "law": "POOL-1", "objection": "x", "reason": "", "link": "", "vector": "v.json"}
OBJECTION = "the target's own snapshot changed: ('B', ()) came"


class LeavesAMark(ReferenceAdapter):
    """Remembers in its own snapshot whom it refused, as vLLM's window groups do, and nothing else."""

    def reset(self, config: object) -> None:
        super().reset(config)  # type: ignore[arg-type]
        self.refused: tuple[tuple[str, tuple[()]], ...] = ()

    def allocate_slots(self, request: RequestView, *arguments: object, **options: object) -> object:  # type: ignore[override]
        answer = super().allocate_slots(request, *arguments, **options)  # type: ignore[arg-type]
        if answer is None and (request.request_id, ()) not in self.refused:
            self.refused = (*self.refused, (request.request_id, ()))
        return answer

    def snapshot(self) -> object:
        return (super().snapshot(), self.refused)


def mark_of(path: Path) -> Deviation:
    (shipped,) = shipped_deviations("vllm")
    return replace(shipped, vector=path)


def test_the_shipped_file_is_for_the_named_target_in_any_environment() -> None:
    assert [deviation.id for deviation in shipped_deviations("vllm@/some/python")] == ["vllm-empty-table-entry"]
    assert shipped_deviations("impl") == ()


@pytest.mark.parametrize("deviation", json.loads(SHIPPED.read_text()), ids=lambda entry: entry["id"])
def test_a_shipped_deviation_has_a_vector_tagged_with_its_law(deviation: dict[str, str]) -> None:
    path = SHIPPED.parent / deviation["vector"]
    if deviation["target"] == "vllm-scheduler":
        assert (read_trace(path).violates or {})["law"] == deviation["law"]
    else:
        assert deviation["law"] in read_vector(path).laws


def test_it_covers_what_it_describes_and_nothing_more() -> None:
    (deviation,) = shipped_deviations("vllm")
    assert deviation.covers("REFUSE-1", OBJECTION)
    assert deviation.covers("REFUSE-1", "the target's own snapshot changed: ('B', ()) came; ('C', ()) came")
    assert not deviation.covers("REFUSE-2", OBJECTION)
    assert not deviation.covers("REFUSE-1", "the target's own snapshot changed: ('B', (3,)) came")
    assert not deviation.covers("REFUSE-1", f"{OBJECTION}; 4 became 3")
    assert not deviation.covers("REFUSE-1", "tables changed from {} to {'B': ((3,),)}")


def test_a_known_deviation_does_not_break_the_verdict_and_is_counted(tmp_path: Path) -> None:
    shown = tmp_path / "mark.json"
    shown.write_text(json.dumps(VECTOR))
    plan = Plan(f"{__name__}:LeavesAMark", settings_for(("full",)), steps=1_000, workers=1)
    assert verify(plan).found[0].law_id == "REFUSE-1"
    report = verify(replace(plan, deviations=(mark_of(shown),)))
    (row,) = report_json(report)["deviations"]
    assert report.conforms
    assert row["status"] == "shown"
    assert row["count"] > 0


def test_a_deviation_that_no_longer_shows_is_stale(tmp_path: Path) -> None:
    shown = tmp_path / "mark.json"
    shown.write_text(json.dumps(VECTOR))
    plan = Plan("reference", settings_for(("full",)), steps=200, workers=1, deviations=(mark_of(shown),))
    report = verify(plan)
    assert report.stale_deviations == ("vllm-empty-table-entry",)
    assert not report.conforms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[{", "is not a file of known deviations"),
        ('[{"id": "x"}]', "is not a file of known deviations"),
        (
            '[{"id": 1, "target": "t", "law": "NO-1", "objection": "x", "reason": "", "link": "", "vector": "v"}]',
            "NO-1",
        ),
        (
            '[{"id": 1, "target": "t", "law": "POOL-1", "objection": "(", "reason": "", "link": "", "vector": "v"}]',
            "is not",
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "deviations.json"
    path.write_text(text)
    with pytest.raises(SetupError) as caught:
        load_deviations(path, "t")
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


VECTOR = {
    "format": "slotproof-vector-1",
    "name": "a refusal that is remembered",
    "laws": ["REFUSE-1"],
    "config": {"num_blocks": 2, "block_size": 1, "groups": ["full"]},
    "actions": [{"verb": "admit", "request": "A", "prompt": [1]}, {"verb": "admit", "request": "B", "prompt": [2]}],
}

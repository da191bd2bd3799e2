"""The integers that recorded traces come to. SLOTPROOF_TRACES names the folder of the traces, which are not shipped.

Every row was frozen after all of its witnesses had agreed; `witnesses` says which.
"""

import json
import os
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from slotproof.conformance.remote import command_in
from slotproof.conformance.targets.registry import load_bare
from slotproof.conformance.workload.elsewhere import serve_in
from slotproof.conformance.workload.lru import lru_table
from slotproof.conformance.workload.overlap import session_overlaps, summary
from slotproof.conformance.workload.serve import Served, Setting, longest_prompt, serve
from slotproof.conformance.workload.trace import TraceRequest, load_requests, read_trace
from slotproof.spec.config import FreeOrder

ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden" / "workloads.json").read_text("utf-8"))

VLLM = "vllm 0.33.0"


def name_of(row: dict[str, Any]) -> str:
    order = "by-time" if row["by_time"] else row["free_order"]
    return f"{row['trace'].split('.')[0]}-{row['block_size']}-{row['blocks']}-{order}"


def trace(name: str) -> Path:
    folder = os.environ.get("SLOTPROOF_TRACES")
    if not folder:
        pytest.skip("SLOTPROOF_TRACES does not name a folder of traces")
    path = Path(folder) / name
    if not path.exists():
        pytest.skip(f"the folder that SLOTPROOF_TRACES names has no {name}")
    return path


def selected(row: dict[str, Any]) -> list[TraceRequest]:
    if row["sessions"] is None:
        return load_requests(trace(row["trace"]), row["first"], row["by_time"])
    requests = list(takewhile(lambda request: request.session <= row["sessions"], read_trace(trace(row["trace"]))))
    return sorted(requests, key=lambda request: (request.arrival, request.session)) if row["by_time"] else requests


def totals(total: Served) -> tuple[Any, ...]:
    return total.hit_blocks, f"{total.hit_rate:.6f}", total.evictions, total.refused


def expected(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["hit_blocks"], row["hit_rate"], row["evictions"], row["refused"]


def setting(row: dict[str, Any], requests: list[TraceRequest]) -> Setting:
    return Setting(row["blocks"], row["block_size"], longest_prompt(requests), FreeOrder(row["free_order"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "row"),
    [
        pytest.param(target, row, id=f"{target}-{name_of(row)}")
        for target in ("impl", "reference")
        for row in ROWS
        if target in row["witnesses"]
    ],
)
def test_a_workload_comes_to_its_integers(target: str, row: dict[str, Any]) -> None:
    requests = selected(row)
    *_, total = serve(load_bare(target), requests, setting(row, requests), 10**9, lambda done: None)
    assert totals(total) == expected(row)


@pytest.mark.thirdparty
@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if VLLM in row["witnesses"] and row["sessions"] is None],
    ids=name_of,
)
def test_real_vllm_comes_to_the_same_integers(row: dict[str, Any]) -> None:
    python = os.environ.get("SLOTPROOF_VLLM_PYTHON")
    if not python:
        pytest.skip("SLOTPROOF_VLLM_PYTHON does not name a Python that has vLLM")
    order = {"target": "vllm", "path": str(trace(row["trace"])), "every": 10**9, "first": row["first"]}
    pool = setting(row, selected(row))
    command = lambda text: command_in(python, serve_in.__module__, text)  # noqa: E731
    *_, total = serve_in(command, order | {"by_time": row["by_time"]}, pool, lambda done: None)
    assert totals(total) == expected(row)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("mooncake_conversation_trace.jsonl.gz", [0.052, 0.195, 0.278, 0.353, 0.363, 0.366]),
        ("mooncake_synthetic_trace.jsonl.gz", [0.034, 0.155, 0.260, 0.443, 0.589, 0.640]),
    ],
)
def test_plain_lru_gives_the_published_table(name: str, shares: list[float]) -> None:
    """Ten values and two limits that somebody else computed."""
    prompts = [request.ids for request in read_trace(trace(name)) if request.ids is not None]
    assert [round(share, 3) for _, share in lru_table(prompts)] == shares


@pytest.mark.slow
def test_sessions_overlap_as_measured() -> None:
    """The origin's own figures, of 29 sessions more: 61, 92, 96, 97, 100, 93 %."""
    shares = session_overlaps(read_trace(trace("weka_agentic_coding_rle.jsonl.gz")))
    assert len(shares) == 710
    assert [round(100 * share, 1) for share in summary(shares)] == [60.6, 91.8, 95.3, 97.2, 99.3, 92.8]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "requests", "tokens"),
    [
        ("mooncake_conversation_trace.jsonl.gz", 12_031, 144_793_823),
        ("mooncake_synthetic_trace.jsonl.gz", 3_993, 61_194_628),
        ("azure_llm_2023_code.csv.gz", 8_819, 18_059_974),
        ("azure_llm_2023_conv.csv.gz", 19_366, 22_361_870),
        ("vidur_arxiv_summarization_lengths.csv.gz", 28_257, 73_131_321),
    ],
)
def test_the_readers_find_every_request(name: str, requests: int, tokens: int) -> None:
    read = list(read_trace(trace(name)))
    assert (len(read), sum(request.num_prompt_tokens for request in read)) == (requests, tokens)

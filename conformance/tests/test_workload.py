"""Request traces: what the readers take and refuse, and what serving them comes to."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slotproof.conformance.cli.app import app
from slotproof.conformance.errors import SetupError
from slotproof.conformance.targets.registry import load_bare
from slotproof.conformance.workload.lru import hit_share, lru_table
from slotproof.conformance.workload.overlap import common_prefix, session_overlaps, summary
from slotproof.conformance.workload.serve import Setting, prompt_keys, serve
from slotproof.conformance.workload.trace import TraceRequest, load_requests, read_trace


def mooncake(at: int, prompt: int, *ids: int) -> str:
    return json.dumps({"timestamp": at, "input_length": prompt, "output_length": 3, "hash_ids": ids})


MOONCAKE = "\n".join(
    [mooncake(0, 1100, 0, 1, 2), mooncake(0, 1024, 0, 1), mooncake(3000, 1600, 0, 1, 2, 3), mooncake(3000, 600, 7, 8)]
)
WEKA_SESSION = {
    "id": "a",
    "block_size": 64,
    "requests": [
        {"t": 5.0, "type": "n", "in": 200, "out": 1, "h": [[10, 2], [40, 1]]},
        {"t": 9.0, "type": "subagent", "requests": [{"t": 1.0, "type": "n", "in": 70, "out": 2, "h": [[10, 1]]}]},
    ],
}
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
)
VIDUR = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3772,54,3826,69.85\n"


def written(folder: Path, text: str, name: str = "trace.jsonl") -> Path:
    path = folder / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def test_mooncake_plain_and_gzipped(tmp_path: Path) -> None:
    requests = list(read_trace(written(tmp_path, MOONCAKE)))
    assert requests[2] == TraceRequest(3, 0, 3.0, 1600, 3, 512, (0, 1, 2, 3))
    assert list(read_trace(written(tmp_path, MOONCAKE, "trace.jsonl.gz"))) == requests


def test_weka_ids_are_local_to_their_session_and_sub_agents_are_served_in_place(tmp_path: Path) -> None:
    text = json.dumps(WEKA_SESSION) + "\n" + json.dumps(WEKA_SESSION)
    first, nested, other, _ = read_trace(written(tmp_path, text))
    assert (first.arrival, first.num_prompt_tokens, first.id_tokens) == (5.0, 200, 64)
    assert first.ids is not None
    assert other.ids is not None
    assert [one & 0xFFFF for one in first.ids] == [10, 11, 40]
    assert nested.ids == first.ids[:1]
    assert not set(first.ids) & set(other.ids)
    assert (first.session, other.session, nested.arrival) == (1, 2, 1.0)


def test_azure_and_vidur_have_no_ids(tmp_path: Path) -> None:
    later = list(read_trace(written(tmp_path, AZURE, "azure.csv")))[1]
    assert later == TraceRequest(3, 0, pytest.approx(4.314579), 396, 109, 0, None)  # type: ignore[arg-type]
    assert list(read_trace(written(tmp_path, VIDUR, "vidur.csv"))) == [TraceRequest(2, 0, None, 3772, 54, 0, None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MOONCAKE + "\n{", "line 5: it is no JSON, perhaps cut off"),
        (MOONCAKE + "\n[]", "line 5: it is no JSON object"),
        (mooncake(0, 600, 1), "line 1: input_length 600 needs 2 hash_ids of 512 tokens, it has 1"),
        (mooncake(0, 0), "line 1: input_length is 0, which is no whole number from 1 on"),
        (mooncake(-1, 600, 1, 2), "line 1: timestamp is -1, which is no whole number from 0 on"),
        (MOONCAKE.replace("[0, 1]", '["x", 1]'), "line 2: hash_ids is no list of whole numbers"),
        (json.dumps({**WEKA_SESSION, "requests": 3}), "line 1: its requests are no list"),
        (json.dumps({**WEKA_SESSION, "requests": [{}]}), "line 1: a request without a time t"),
        (
            json.dumps({**WEKA_SESSION, "requests": [{"t": 0, "in": 200, "out": 1, "h": [[1, 2]]}]}),
            "line 1: a request of 200 tokens needs 3 ids of 64 tokens, it has 2",
        ),
        (
            json.dumps({**WEKA_SESSION, "requests": [{"t": 0, "in": 200, "out": 1, "h": [3]}]}),
            "line 1: h is no list of [first id, how many]",
        ),
        (AZURE + "yesterday,1,2", "line 4: 'yesterday' is no time"),
        (AZURE + "2023-11-16 18:15:50,-5,2", "line 4: ContextTokens is '-5', which is no whole number from 1 on"),
        (VIDUR + "3", "line 3: it has not as many fields as the first line"),
        ("hello", "line 1: no known trace begins so; known are Mooncake"),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SetupError) as caught:
        list(read_trace(path))
    assert str(caught.value).startswith(f"{path}, {message}")


def test_reading_stops_where_it_is_told_to(tmp_path: Path) -> None:
    """Streams: the bad line behind is never reached."""
    assert len(load_requests(written(tmp_path, MOONCAKE + "\n{"), 3, by_time=False)) == 3


def test_by_time_goes_over_sessions(tmp_path: Path) -> None:
    early = {**WEKA_SESSION, "requests": [{"t": 1.0, "in": 70, "out": 2, "h": [[1, 1]]}]}
    path = written(tmp_path, json.dumps(WEKA_SESSION) + "\n" + json.dumps(early))
    assert [request.arrival for request in load_requests(path, None, by_time=True)] == [1.0, 1.0, 5.0]


def test_ids_are_cut_to_full_blocks_and_split_into_smaller_ones() -> None:
    request = TraceRequest(1, 0, 0.0, 1100, 3, 512, (4, 5, 6))
    assert list(prompt_keys(request, 512)) == [4, 5]
    split = list(prompt_keys(request, 128))
    assert split == [16, 17, 18, 19, 20, 21, 22, 23]
    with pytest.raises(SetupError, match="blocks of 100 do not divide"):
        prompt_keys(request, 100)
    lengths = [TraceRequest(line, 0, None, 40, 0, 0, None) for line in (1, 2)]
    assert not set(prompt_keys(lengths[0], 16)) & set(prompt_keys(lengths[1], 16))


@pytest.mark.parametrize("target", ["impl", "reference"])
def test_serving_counts_hits_evictions_and_refusals(tmp_path: Path, target: str) -> None:
    requests = load_requests(written(tmp_path, MOONCAKE), None, by_time=False)
    *_, total = serve(load_bare(target), requests, Setting(4, 512, 2000), 1, lambda done: None)
    # 3 usable blocks. The first prompt stores 2. The second is cached whole, so 1 of its 2 blocks hits and the other is
    # stored twice. The third needs 4 blocks. The fourth takes both copies and stores 1.
    assert (total.requests, total.refused, total.hit_blocks, total.prompt_tokens) == (4, 1, 1, 4324)
    assert (total.stored, total.cached, total.evictions) == (4, 2, 2)
    assert total.hit_rate == 512 / 4324


def test_plain_lru_counts_prefixes_and_keeps_the_last_used() -> None:
    prompts = [(1, 2, 3), (1, 2, 4), (5,), (1, 2, 3)]
    assert hit_share(prompts, None) == 5 / 10
    # With room for three, 5 evicts 1, so the last prompt finds nothing.
    assert hit_share(prompts, 3) == 2 / 10
    assert [capacity for capacity, _ in lru_table(prompts * 20)] == [0, 0, 0, 1, 2, None]


def test_overlap_is_what_the_request_before_has_of_all_blocks_of_a_session() -> None:
    def request(session: int, *ids: int) -> TraceRequest:
        return TraceRequest(1, session, 0.0, 64, 1, 64, ids)

    sessions = [request(1, 1, 2), request(1, 1, 2, 3), request(1, 1, 4), request(2, 1, 2), request(3)]
    assert session_overlaps(sessions) == [3 / 7, 0.0]
    assert [common_prefix((1, 2, 3), other) for other in ((), (9,), (1,), (1, 2, 3, 4), (1, 2, 9))] == [0, 0, 1, 3, 2]
    assert summary([0.0, 0.5, 1.0]) == (0.0, 0.25, 0.5, 0.75, 1.0, 0.5)


def test_the_command_tells_how_sessions_overlap(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(WEKA_SESSION) + "\n" + json.dumps(WEKA_SESSION))
    assert "Blocks of a session that its request before has: min 25.0%" in replay(str(path)).stdout
    assert "request before" not in replay(str(path), "--by-time").stdout


def replay(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["replay", *arguments])


def test_the_command_prints_totals_and_draws_them(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="--plot needs matplotlib")
    path, plot = written(tmp_path, MOONCAKE), tmp_path / "plot.svg"
    outcome = replay(str(path), "--blocks", "4", "--plot", str(plot))
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.splitlines()[0] == "trace.jsonl on impl: 4 requests, 4,324 prompt tokens"
    assert outcome.stdout.splitlines()[-1] == "1 hit blocks, token hit rate 0.118409, 2 evictions, 1 refused."
    assert "3 usable blocks of 512 tokens, free order unhashed-first" in outcome.stdout
    assert plot.read_text(encoding="utf-8").startswith("<?xml")


def test_the_command_in_json(tmp_path: Path) -> None:
    document = json.loads(replay(str(written(tmp_path, MOONCAKE)), "reference", "--blocks", "4", "--json").stdout)
    assert (document["hit_blocks"], document["evictions"], document["refused"]) == (1, 2, 1)
    assert [point["requests"] for point in document["over_time"]] == [1, 2, 3, 4]
    lru = json.loads(replay(str(written(tmp_path, MOONCAKE)), "--lru", "--json").stdout)
    assert lru["lru"][-1] == {"capacity": None, "hit_share": 5 / 11}


def test_a_trace_is_served_in_another_python_too(tmp_path: Path) -> None:
    import sys

    outcome = replay(str(written(tmp_path, MOONCAKE)), f"impl@{sys.executable}", "--blocks", "4")
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.splitlines()[-1] == "1 hit blocks, token hit rate 0.118409, 2 evictions, 1 refused."


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("", (), "no known trace begins so"),
        (MOONCAKE, ("nano-vllm",), "'nano-vllm' cannot be called without an adapter; use impl, reference, vllm"),
        (MOONCAKE, ("--block-size", "100"), "give a --block-size that divides 512"),
        (MOONCAKE, ("--blocks", "1"), "such a pool is not possible: num_blocks is 1"),
        (MOONCAKE, ("--plot", "no/such/folder/x.png"), "the plot cannot be written to no/such/folder/x.png"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path: Path, text: str, arguments: tuple[str, ...], message: str) -> None:
    outcome = replay(str(written(tmp_path, text)), *arguments)
    assert outcome.exit_code == 2
    assert message in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


def test_a_trace_without_ids_or_times_says_what_it_cannot_be_used_for(tmp_path: Path) -> None:
    path = str(written(tmp_path, VIDUR, "vidur.csv"))
    assert "has no ids, so plain LRU has nothing to cache" in replay(path, "--lru").stderr
    assert "has no times to go by; leave out --by-time" in replay(path, "--by-time").stderr
    assert "the trace has no ids, so nothing is shared" in replay(path).stdout
    assert "is not there; give the path of a trace" in replay(str(tmp_path / "none.jsonl")).stderr

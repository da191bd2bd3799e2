"""`slotproof bench`: each case is the situation that it is named after, and what is printed."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slotproof.conformance.bench import explorer
from slotproof.conformance.bench.batches import BATCHES, Batch, sample
from slotproof.conformance.bench.cases import CASES, Case
from slotproof.conformance.bench.floor import FLOORS, Flat
from slotproof.conformance.bench.memory import BLOCK_BYTES, MOVES, Memory
from slotproof.conformance.bench.run import Timings
from slotproof.conformance.bench.trace import AT_ONCE, FILE, Trace, time_calls, waiting
from slotproof.conformance.bench.world import PROMPT_BLOCKS, World
from slotproof.conformance.cli.app import app
from slotproof.conformance.targets.registry import load_bare
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention

SMALL = 16 * PROMPT_BLOCKS + 8


class Recording:
    """A manager that notes what it answered."""

    def __init__(self, manager: Any) -> None:
        self.manager = manager
        self.answers: Counter[Any] = Counter()

    def allocate_slots(self, **arguments: Any) -> Any:
        blocks = self.manager.allocate_slots(**arguments)
        self.answers["refused" if blocks is None else len(blocks[0])] += 1
        return blocks

    def get_computed_blocks(self, request: Any) -> Any:
        blocks, num_tokens = self.manager.get_computed_blocks(request)
        self.answers[f"hit {num_tokens // 16}"] += 1
        return blocks, num_tokens

    def free(self, request: Any) -> None:
        self.answers[f"free {len(self.manager.block_table(request.request_id)[0])}"] += 1
        self.manager.free(request)


ANSWERS: dict[str, dict[Any, int]] = {
    "decode": {3: 64, 0: 64, "free 3": 64},
    "decode-fill": {2: 64, 0: 64, "free 2": 64},
    "decode-boundary": {2: 64, 1: 64, "free 3": 64},
    "admit-miss": {PROMPT_BLOCKS: 8, "hit 0": 8, f"free {PROMPT_BLOCKS}": 8},
    "admit-hit": {PROMPT_BLOCKS: 8, "free 128": 8, "hit 128": 8, 1: 8, "free 129": 8},
    "free": {PROMPT_BLOCKS: 8, "free 128": 8},
    "lookup-hit": {PROMPT_BLOCKS: 16, "free 128": 16, "hit 128": 64},
    "lookup-miss": {"hit 0": 64},
    "refuse-prompt": {PROMPT_BLOCKS: 16, 7: 1, "refused": 64, "free 128": 16, "free 7": 1},
    "refuse-step": {PROMPT_BLOCKS: 16, 7: 1, "refused": 17 * 3, "free 128": 16, "free 7": 1},
    "hash-request": {},
}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_case_makes_the_calls_it_is_named_after_and_leaves_a_free_pool(case: Case) -> None:
    world = World(load_bare("impl"), SMALL)
    allocator = world.manager
    keys = len(allocator.cached_blocks())
    assert (allocator.num_free_blocks, keys) == (SMALL - 1, SMALL - 1)
    world.manager = recording = Recording(allocator)
    calls = 8 if case.name in ("admit-miss", "admit-hit", "free") else 64
    assert case.sample(world, calls) > 0
    assert recording.answers == ANSWERS[case.name]
    assert allocator.num_free_blocks == SMALL - 1


def test_a_step_that_fills_a_block_keys_it_and_another_one_does_not() -> None:
    world, samples = World(load_bare("impl"), SMALL), {case.name: case.sample for case in CASES}
    samples["decode"](world, 64)
    assert len(world.manager.cached_blocks()) == SMALL - 1 - 64
    samples["decode-fill"](world, 64)
    assert len(world.manager.cached_blocks()) == SMALL - 1


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("batch", BATCHES[:2], ids=[batch.name for batch in BATCHES[:2]])
def test_a_batch_decodes_all_rows_and_leaves_a_free_pool(batch: Batch, batched: bool) -> None:
    pytest.importorskip("torch", reason="a batch needs torch")
    world = World(load_bare("impl"), SMALL)
    keyed = len(world.manager.cached_blocks())
    assert sample(world, batch, batched) > 0
    assert world.manager.num_free_blocks == SMALL - 1
    # Rows end with a last block that has no key; of 16 phases one ends with a full one.
    full = batch.rows // 16 if batch.steps == 16 else 0
    assert keyed - len(world.manager.cached_blocks()) == batch.rows - full


@pytest.mark.parametrize("name", FLOORS)
def test_a_floor_does_its_work_and_puts_the_blocks_back(name: str) -> None:
    flat = Flat(SMALL)
    assert FLOORS[name](flat, 64 if name in ("decode", "refuse-prompt", "refuse-step", "lookup-miss") else 8) >= 0
    queue, block = [], flat.after[0]
    while block:
        queue.append(block)
        block = flat.after[block]
    assert sorted(queue) == list(range(1, SMALL))
    assert flat.refs == [0] * SMALL


def test_a_trace_is_served_by_three_calls_a_request(tmp_path: Path) -> None:
    row = {"timestamp": 0, "input_length": 1100, "output_length": 1, "hash_ids": [1, 2, 3]}
    path = tmp_path / FILE.removesuffix(".gz")
    path.write_text("".join(f"{json.dumps(row)}\n" for _ in range(AT_ONCE + 1)))
    trace, bare = Trace(str(path)), load_bare("impl")
    assert len(trace.requests) == AT_ONCE + 1
    assert trace.sample(bare, 8) > 0
    recording = Recording(bare.new_manager(Config(8, (FullAttention(512),), 1100, 1100)))
    assert time_calls(recording, [waiting(bare, request) for request in trace.requests[:3]]) > 0
    assert recording.answers == {"hit 0": 1, 3: 1, "hit 64": 2, 1: 2, "free 3": 3}


def test_memory_is_cleared_and_copied_where_the_case_says() -> None:
    torch = pytest.importorskip("torch", reason="KV memory needs torch")
    memory = Memory()
    for tensor in memory.memory.tensors:
        tensor.fill_(1)
    clear, copy = MOVES
    assert memory.sample(clear, scattered=True) > 0
    assert [int((tensor == 0).all(dim=(1, 2, 3, 4)).sum()) for tensor in memory.memory.tensors] == [
        memory.num_moved
    ] * 2
    # The blocks that were cleared are those that are copied to.
    assert memory.sample(copy, scattered=True) > 0
    assert all(torch.equal(tensor, torch.ones_like(tensor)) for tensor in memory.memory.tensors)
    assert sum(tensor[0].nbytes for tensor in memory.memory.tensors) == BLOCK_BYTES
    assert (clear.gigabytes_a_second(1.0), copy.gigabytes_a_second(1.0)) == (BLOCK_BYTES / 1e3, 2 * BLOCK_BYTES / 1e3)


def test_bandwidth_and_a_trace_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="KV memory needs torch")
    monkeypatch.delenv("SLOTPROOF_TRACES", raising=False)
    monkeypatch.setattr("slotproof.conformance.cli.bench.find_peer", lambda named: None)
    outcome = bench("--case", "copy-blocks")
    assert outcome.exit_code == 0, outcome.output
    assert "copy scattered blocks" in outcome.stdout
    assert f"The whole trace was left out: no folder with {FILE} is named by" in outcome.stdout


def bench(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["bench", "--blocks", str(SMALL), "--values", "3", *arguments])


def test_json_has_the_fields_and_no_peer_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotproof.conformance.cli.bench.find_peer", lambda named: None)
    outcome = bench("--case", "decode", "--case", "lookup-miss", "--json")
    assert outcome.exit_code == 0, outcome.output
    document = json.loads(outcome.stdout)
    assert [case["name"] for case in document["cases"]] == ["decode", "lookup-miss"]
    for case in document["cases"]:
        assert case["ours_us"] > 0
        assert case["floor_us"] > 0
        assert (case["peer"], case["peer_us"], case["ratio"], case["blocks"]) == (None, None, None, SMALL)


def test_the_table_says_how_to_get_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotproof.conformance.cli.bench.find_peer", lambda named: None)
    outcome = bench("--case", "free")
    assert outcome.exit_code == 0, outcome.output
    assert "free 2,048 tokens" in outcome.stdout
    assert ".ci/vllm-env VERSION DIR" in outcome.stdout


def test_ratio_and_mean_are_the_peers_time_over_ours() -> None:
    timings = Timings()
    for case, side, us in (
        ("free", "impl", 2.0),
        ("free", "vllm", 8.0),
        ("decode", "impl", 1.0),
        ("decode", "vllm", 9.0),
    ):
        timings.add({"case": case, "blocks": 10, "side": side, "us": us})
    timings.add({"case": "hash-request", "blocks": 10, "side": "impl", "us": 1.0})
    timings.add({"case": "hash-request", "blocks": 10, "side": "vllm", "us": 1000.0})
    assert timings.ratio("free", 10, "vllm") == 4.0
    assert timings.mean_ratio(10, "vllm") == pytest.approx(6.0)
    assert timings.mean_ratio(20, "vllm") is None


def test_the_explorer_is_timed_alone_or_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "MAX_STATES", 50)
    document = json.loads(bench("--case", explorer.NAME, "--json").stdout)
    assert document["cases"] == []
    assert document["explorer"]["canonical"] > 0
    assert document["explorer"]["raw"] > 0
    assert "states/s up to renaming, " in bench("--case", explorer.NAME).stdout
    assert json.loads(bench("--case", "free", "--json", "--blocks", "2049").stdout)["explorer"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--peer", "nano-vllm"), "'nano-vllm' is no peer to compare with; use vllm, or NAME@/path/to/python"),
        (("--peer", "vllm@/no/python"), "there is no program '/no/python' to run vllm with"),
        (("--case", "mooncake"), f"the case mooncake needs {FILE}; let SLOTPROOF_TRACES name the folder that has it"),
        (("--case", "fly"), "there is no case 'fly'; the cases are decode, "),
        (("--blocks", "100"), "a pool of 100 blocks is too small to time; give at least 2049"),
    ],
)
def test_mistakes_are_one_sentence(arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLOTPROOF_TRACES", raising=False)
    outcome = bench(*arguments)
    assert outcome.exit_code == 2
    assert message in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


def test_a_python_without_vllm_is_a_sentence() -> None:
    import importlib.util
    import sys

    if importlib.util.find_spec("vllm") is not None:
        pytest.skip("vLLM can be imported here")
    outcome = bench("--peer", f"vllm@{sys.executable}", "--case", "free")
    assert outcome.exit_code == 2
    assert "The vllm target needs vLLM, which" in outcome.stderr

"""The parts of `device_check.sh`: each returns a line of the table, or raises on what must not be."""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from slotproof.impl import AllocatorConfig, FullAttention, Request, RequestStatus, SlotAllocator
from slotproof.impl.memory import BlockTables, KVMemory, MemoryConfig

from .crowded import Crowded
from .engine import FingerprintEngine, TransformerEngine

SECONDS = 45
"""The most that one part takes."""


def content(device: str) -> str:
    """Tokens over paged memory against decoding without a cache, and fingerprints of every position."""
    ends, generated = time.monotonic() + SECONDS, 0
    for seed in range(20):
        for kind in (TransformerEngine, FingerprintEngine):
            engine = kind(seed, device=device)
            engine.run(300)
            generated += engine.count["generated"]
            wrong = engine.count["different"] + engine.count["misread"] + engine.count["stale"]
            if wrong:
                raise AssertionError(f"{kind.__name__}, seed {seed}: {engine.count}")
        if time.monotonic() > ends:
            break
    return f"{generated:,} tokens, 0 differ"


def refusals(device: str) -> str:
    """A digest of host and device around refusals."""
    ends, number = time.monotonic() + SECONDS / 2, 0
    for seed, kind in enumerate(("full", "hybrid") * 50):
        crowded = Crowded(seed, kind, device)
        crowded.settled()
        before, storage = crowded.digest(), crowded.storage()
        for _ in range(200):
            crowded.refuse(number)
            number += 1
        if (crowded.digest(), crowded.storage()) != (before, storage):
            raise AssertionError(f"a refusal left a trace, {kind}, seed {seed}")
        if time.monotonic() > ends:
            break
    return f"{number:,} refusals, no bit changed"


def decoding_rows(num_rows: int) -> tuple[SlotAllocator, list[Request]]:
    """Requests with 20 of 32 tokens computed, so that 11 steps are quiet."""
    allocator = SlotAllocator(AllocatorConfig(3 * num_rows, (FullAttention(16),), 64))
    requests = [Request(str(row), [row] * 20, block_size=16) for row in range(num_rows)]
    for request in requests:
        allocator.allocate_slots(request, 20)
        request.status, request.num_computed_tokens = RequestStatus.RUNNING, 20
        request.append([1])
    return allocator, requests


def batched_decode(device: str) -> str:
    """1,024 rows in one call against 1,024 calls."""
    allocator, requests = decoding_rows(1024)
    rows = allocator.decode_rows(requests)
    allocator.allocate_decode(rows)
    single, batched = [], []
    for _ in range(9):
        started = time.perf_counter()
        for request in requests:
            allocator.allocate_slots(request, 1, num_lookahead_tokens=0)
        single.append(time.perf_counter() - started)
        started = time.perf_counter()
        allocator.allocate_decode(rows, 1)
        batched.append(time.perf_counter() - started)
        rows.advance(1)
    ours, theirs = sorted(batched)[4] / 1024 * 1e9, sorted(single)[4] / 1024 * 1e9
    return f"{ours:.1f} ns a row, {theirs / ours:.0f} times cheaper than single calls"


def no_waiting(device: str) -> str:
    """A decode step's housekeeping, write and gather under torch's sync debug mode."""
    memory = KVMemory(MemoryConfig(64, 16, (2,), 4, 64, torch.bfloat16, device, clear_groups=(0,)))
    tables = BlockTables(8, 16, 1, 16, device)
    rows = torch.arange(8, device=device)
    keys = torch.ones(8, 4, 64, dtype=torch.bfloat16, device=device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for column in range(4):
            memory.prepare([[1 + column, 9]], [(2, 20)])
            tables.append(0, list(range(8)), [column] * 8, [30 + row for row in range(8)])
            for layer in range(2):
                memory.write(0, layer, tables.slots(0, rows, torch.full_like(rows, 16 * column)), keys, keys)
                memory.gather(0, layer, tables.tables[0])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return "4 steps, the host never waited"


def seconds_of(device: str, work: Callable[[], object]) -> float:
    """Median time of some work, the device's end awaited."""
    taken = []
    for _ in range(9):
        started = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - started)
    return sorted(taken)[4]


def bandwidth(device: str) -> str:
    """Clearing and copying half of the blocks against a plain copy of as many bytes."""
    num_blocks = 16_384 if device == "cuda" else 1_024
    memory = KVMemory(MemoryConfig(num_blocks, 16, (2,), 8, 128, torch.bfloat16, device))
    half = num_blocks // 2
    generator = torch.Generator().manual_seed(0)
    order = (torch.randperm(num_blocks - 1, generator=generator) + 1).tolist()
    pairs = list(zip(order[: half - 1], order[half:], strict=False))
    blocks = [destination for _, destination in pairs]
    moved = len(pairs) * memory.config.num_bytes / num_blocks
    plain = [tensor[:half].clone() for tensor in memory.tensors]

    def copy_plainly() -> None:
        for tensor, source in zip(memory.tensors, plain, strict=True):
            tensor[:half].copy_(source)

    rates: dict[str, float] = {
        "copy": 2 * moved / seconds_of(device, lambda: memory.copy_blocks(pairs)),
        "clear": moved / seconds_of(device, lambda: memory.clear_blocks(blocks)),
        "plain copy": 2 * memory.config.num_bytes / 2 / seconds_of(device, copy_plainly),
    }
    return ", ".join(f"{name} {rate / 1e9:.0f} GB/s" for name, rate in rates.items())


PARTS: tuple[tuple[str, Callable[[str], str], bool], ...] = (
    ("content law", content, False),
    ("refusal digest", refusals, False),
    ("batched decode", batched_decode, False),
    ("no waiting", no_waiting, True),
    ("bandwidth", bandwidth, False),
)
"""Name, part, and whether only a GPU can show it."""


def main() -> int:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    where: Any = torch.cuda.get_device_name() if device == "cuda" else "the CPU, because there is no CUDA device"
    print(f"torch {torch.__version__} on {where}")
    failed = 0
    for name, part, needs_cuda in PARTS:
        started = time.monotonic()
        if needs_cuda and device != "cuda":
            said = "skipped: needs CUDA"
        else:
            try:
                said = part(device)
            except Exception as error:
                said, failed = f"FAILED: {type(error).__name__}: {error}", failed + 1
        print(f"{name:16} {time.monotonic() - started:6.1f} s  {said}", flush=True)
    if device != "cuda":
        print("Skipped on this machine: everything on a CUDA device; the parts above ran on the CPU.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""The measuring process: times every case for both sides and writes one JSON line a measurement.

It runs in the environment of the peer, which has nothing of this project but what the parent lends it. pyperf times.
"""

import gc
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TextIO

from slotproof.conformance.bare import Bare
from slotproof.conformance.bench.batches import BATCHES, Batch
from slotproof.conformance.bench.batches import sample as sample_batch
from slotproof.conformance.bench.cases import CASES, Case
from slotproof.conformance.bench.floor import FLOORS, Flat
from slotproof.conformance.bench.memory import MOVES, Memory
from slotproof.conformance.bench.trace import NAME as TRACE
from slotproof.conformance.bench.trace import Trace
from slotproof.conformance.bench.world import World
from slotproof.conformance.errors import SetupError
from slotproof.conformance.targets.registry import load_bare

WARMUPS = 1

OURS, SINGLE, FLOOR, PLAIN = "impl", "single", "floor", "plain"


def main(order: str) -> None:
    """Carry out an order: JSON with `sides`, `cases`, `blocks`, `values` and `trace`."""
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        measure(json.loads(order), results)
    except SetupError as error:
        write(results, {"error": str(error)})


def measure(order: dict[str, Any], results: TextIO) -> None:
    """All sides of a case one right after the other, so that a machine that slows down slows all of them."""
    sides = [load_bare(name) for name in order["sides"]]
    write(results, {"versions": {side.name: side.version for side in sides}})
    # A collection in the midst of a value would count the objects of a whole engine.
    gc.disable()
    runner = new_runner(order["values"])
    # A batch is thousands of calls a value already, and its requests take long to make.
    batch_runner = new_runner(max(order["values"] // 5, 3))
    for num_blocks in order["blocks"]:
        worlds, flat = [World(side, num_blocks) for side in sides], Flat(num_blocks)
        for case in CASES:
            if case.name in order["cases"]:
                for side, sample in samples(case, worlds, flat):
                    us = median(runner, f"{case.name} {num_blocks} {side}", sample, case.calls)
                    write(results, {"case": case.name, "blocks": num_blocks, "side": side, "us": us})
        for batch in BATCHES:
            if batch.name in order["cases"] and batch.fits(num_blocks):
                for side, sample in batch_samples(batch, worlds):
                    us = median(batch_runner, f"{batch.name} {num_blocks} {side}", sample, batch.rows * batch.steps)
                    write(results, {"case": batch.name, "blocks": num_blocks, "side": side, "us": us})
    measure_trace(order, sides, new_runner(3), results)
    measure_memory(order["cases"], runner, results)


def measure_trace(order: dict[str, Any], sides: list[Bare], runner: Any, results: TextIO) -> None:
    """The whole trace in every pool, where there is one."""
    if TRACE not in order["cases"]:
        return
    trace = Trace(order["trace"])
    for num_blocks in order["blocks"]:
        for side in sides:
            sample = partial(trace.sample, side, num_blocks)
            us = median(runner, f"{TRACE} {num_blocks} {side.name}", sample, len(trace.requests))
            write(results, {"case": TRACE, "blocks": num_blocks, "side": side.name, "us": us})


def measure_memory(cases: list[str], runner: Any, results: TextIO) -> None:
    """Our memory and plain operators, on the device that there is."""
    moves = [move for move in MOVES if move.name in cases]
    if not moves:
        return
    memory = Memory()
    for move in moves:
        for side, scattered in ((OURS, True), (PLAIN, False)):
            us = median(runner, f"{move.name} {side}", partial(memory.sample, move, scattered), memory.num_moved)
            line = {"case": move.name, "blocks": memory.num_blocks, "side": side, "us": us}
            write(results, line | {"device": memory.device})


def batch_samples(batch: Batch, worlds: list[World]) -> Iterator[tuple[str, Callable[[], float]]]:
    """Our batched call, our single call row by row, and the peer's."""
    for world in worlds:
        if world.bare.name == OURS:
            yield OURS, partial(sample_batch, world, batch, True)
        yield SINGLE if world.bare.name == OURS else world.bare.name, partial(sample_batch, world, batch, False)


def samples(case: Case, worlds: list[World], flat: Flat) -> Iterator[tuple[str, Callable[[], float]]]:
    """Each side's name, and what gives the seconds of the case's calls."""
    for world in worlds:
        yield world.bare.name, partial(case.sample, world, case.calls)
    if case.name in FLOORS:
        yield FLOOR, partial(FLOORS[case.name], flat, case.calls)


def new_runner(values: int) -> Any:
    """pyperf's runner for this process alone: both sides share it, and importing an engine takes ten seconds."""
    import pyperf

    # pyperf allows one instance of a class in a process.
    kind = type("Runner", (pyperf.Runner,), {})
    runner = kind(values=values, warmups=WARMUPS, processes=1, loops=1)
    runner.parse_args(["--in-process", "--quiet"])
    return runner


def median(runner: Any, name: str, sample: Callable[[], float], calls: int) -> float:
    """Microseconds a call."""

    gc.collect()

    def seconds(loops: int) -> float:
        return sum(sample() for _ in range(loops))

    return float(runner.bench_time_func(name, seconds, inner_loops=calls).median()) * 1e6


def write(results: TextIO, line: dict[str, Any]) -> None:
    """One line, at once."""
    results.write(json.dumps(line) + "\n")
    results.flush()

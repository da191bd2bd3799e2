"""The measuring process: times every case for both sides and writes one JSON line a measurement.

It runs in the environment of the peer, which has nothing of this project but what the parent lends it. pyperf times.
"""

import gc
import json
import os
import sys
from typing import Any, TextIO

from slotproof.conformance.bare import Bare
from slotproof.conformance.bench.cases import CASES, Case
from slotproof.conformance.bench.world import World
from slotproof.conformance.errors import SetupError
from slotproof.conformance.targets.registry import load_bare

WARMUPS = 1


def main(order: str) -> None:
    """Carry out an order: JSON with `sides`, `cases`, `blocks` and `values`."""
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        measure(json.loads(order), results)
    except SetupError as error:
        write(results, {"error": str(error)})


def measure(order: dict[str, Any], results: TextIO) -> None:
    """Both sides of a case one right after the other, so that a machine that slows down slows both."""
    sides = [load_bare(name) for name in order["sides"]]
    write(results, {"versions": {side.name: side.version for side in sides}})
    gc.disable()
    runner = new_runner(order["values"])
    for num_blocks in order["blocks"]:
        worlds = [World(side, num_blocks) for side in sides]
        for case in CASES:
            if case.name in order["cases"]:
                for world in worlds:
                    write(results, measured(runner, world, case, num_blocks))


def new_runner(values: int) -> Any:
    """pyperf's runner for this process alone: both sides share it, and importing an engine takes ten seconds."""
    import pyperf

    runner = pyperf.Runner(values=values, warmups=WARMUPS, processes=1, loops=1)
    runner.parse_args(["--in-process", "--quiet"])
    return runner


def measured(runner: Any, world: World, case: Case, num_blocks: int) -> dict[str, Any]:
    """The median of one case for one side, in microseconds a call."""
    bare: Bare = world.bare
    gc.collect()

    def sample(loops: int) -> float:
        return sum(case.sample(world, case.calls) for _ in range(loops))

    timed = runner.bench_time_func(f"{case.name} {num_blocks} {bare.name}", sample, inner_loops=case.calls)
    return {"case": case.name, "blocks": num_blocks, "side": bare.name, "us": timed.median() * 1e6}


def write(results: TextIO, line: dict[str, Any]) -> None:
    """One line, at once."""
    results.write(json.dumps(line) + "\n")
    results.flush()

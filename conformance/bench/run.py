"""Starts the measuring process where the peer is, and reads what it measured."""

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from slotproof.conformance.bench.batches import BATCHES
from slotproof.conformance.bench.cases import CASES
from slotproof.conformance.bench.floor import FLOORS
from slotproof.conformance.bench.measure import OURS
from slotproof.conformance.bench.memory import MOVES
from slotproof.conformance.bench.trace import NAME as TRACE
from slotproof.conformance.bench.trace import trace_path
from slotproof.conformance.errors import SetupError
from slotproof.conformance.remote import command_in

PEERS = ("vllm",)
COUNTED = frozenset(case.name for case in CASES) - {"hash-request"}
"""The cases that the mean is taken over: the calls that both sides have."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom to compare with, and the Python that can import it."""

    name: str
    python: str


@dataclass(slots=True)
class Timings:
    """Microseconds a call by case, pool size and side."""

    versions: dict[str, str] = field(default_factory=dict)
    us: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    device: str = ""

    def add(self, line: dict[str, Any]) -> None:
        """Note one measurement."""
        self.us.setdefault((line["case"], line["blocks"]), {})[line["side"]] = line["us"]
        self.device = line.get("device", self.device)

    def ratio(self, case: str, num_blocks: int, peer: str) -> float | None:
        """How often the peer's time holds ours."""
        sides = self.us[case, num_blocks]
        return sides[peer] / sides[OURS] if peer in sides else None

    def mean_ratio(self, num_blocks: int, peer: str) -> float | None:
        """The geometric mean over the calls of the allocator."""
        ratios = [
            ratio
            for case, blocks in self.us
            if blocks == num_blocks and case in COUNTED
            if (ratio := self.ratio(case, blocks, peer)) is not None
        ]
        return prod(ratios) ** (1 / len(ratios)) if ratios else None


def find_peer(named: str | None) -> Peer | None:
    """The peer that was named, as NAME or NAME@/path/to/python; if none was, vLLM where it can be imported.

    Raises:
        SetupError: when the named one cannot be a peer.
    """
    if named is None:
        return Peer("vllm", sys.executable) if importlib.util.find_spec("vllm") is not None else None
    name, _, python = named.partition("@")
    if name not in PEERS:
        raise SetupError(f"{name!r} is no peer to compare with; use {' or '.join(PEERS)}, or NAME@/path/to/python")
    if python and shutil.which(python) is None:
        raise SetupError(f"there is no program {python!r} to run {name} with; give the path of a Python")
    return Peer(name, python or sys.executable)


def run(
    cases: Sequence[str], blocks: Sequence[int], values: int, peer: Peer | None, tell: Callable[[int], None]
) -> Timings:
    """Measure in a process of its own; both sides and the floor share it.

    Raises:
        SetupError: when the process cannot measure.
    """
    sides = [OURS, *([peer.name] if peer is not None else [])]
    order = {"sides": sides, "cases": list(cases), "blocks": list(blocks), "values": values}
    order["trace"] = str(trace_path())
    python = sys.executable if peer is None else peer.python
    command = command_in(python, "slotproof.conformance.bench.measure", json.dumps(order), packages=["pyperf"])
    timings, done = Timings(), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in map(json.loads, process.stdout):
            if "error" in line:
                raise SetupError(line["error"])
            if "versions" in line:
                timings.versions = line["versions"]
                continue
            timings.add(line)
            tell(done := done + 1)
        said = process.stderr.read().strip()
    if process.returncode:
        raise SetupError(f"the measuring process ended with exit code {process.returncode}; it said: {said[-600:]}")
    return timings


def number_of_measurements(cases: Sequence[str], blocks: Sequence[int], peer: Peer | None) -> int:
    """How many medians a run will report."""
    singles = sum(1 + (peer is not None) + (case.name in FLOORS) for case in CASES if case.name in cases)
    fitting = sum(batch.fits(size) for batch in BATCHES for size in blocks if batch.name in cases)
    traces = (1 + (peer is not None)) * len(blocks) if TRACE in cases else 0
    moves = 2 * sum(move.name in cases for move in MOVES)
    return singles * len(blocks) + fitting * (2 + (peer is not None)) + traces + moves

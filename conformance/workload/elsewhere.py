"""Serving a trace in the environment of another Python: the child reads the trace itself and sends the totals."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slotproof.conformance.errors import SetupError
from slotproof.conformance.targets.registry import load_bare
from slotproof.conformance.workload.serve import Served, Setting, serve
from slotproof.conformance.workload.trace import load_requests
from slotproof.spec.config import FreeOrder


def serve_in(
    command: Callable[[str], list[str]], selection: dict[str, Any], setting: Setting, tell: Callable[[int], None]
) -> list[Served]:
    """What `serve` returns. `command` makes the command that runs `main` with an order; `selection` is the order's own.

    Raises:
        SetupError: when the child cannot serve.
    """
    order = json.dumps({**selection, "setting": asdict(setting)})
    samples: list[Served] = []
    with subprocess.Popen(command(order), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        for line in map(json.loads, child.stdout):
            if "error" in line:
                raise SetupError(line["error"])
            samples.append(Served(**line))
            tell(samples[-1].requests)
        said = child.stderr.read().strip()
    if child.returncode:
        raise SetupError(f"the serving process ended with exit code {child.returncode}; it said: {said[-600:]}")
    return samples


def main(text: str) -> None:
    """Carry out an order: JSON with `target`, `path`, `first`, `by_time`, `every` and `setting`."""
    totals = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    order = json.loads(text)
    try:
        requests = load_requests(Path(order["path"]), order["first"], order["by_time"])
        setting = Setting(**order["setting"] | {"free_order": FreeOrder(order["setting"]["free_order"])})
        for sample in serve(load_bare(order["target"]), requests, setting, order["every"], lambda done: None):
            totals.write(json.dumps(asdict(sample)) + "\n")
    except SetupError as error:
        totals.write(json.dumps({"error": str(error)}) + "\n")
    totals.flush()

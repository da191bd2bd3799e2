"""The conformance suite: holds an allocator against the specification.

`verify` runs the laws against a target, `check_vector` carries one vector out in a test, `adapter` is what a third
party writes.
"""

from collections.abc import Mapping
from typing import Any, cast


def check_vector(vector: Mapping[str, Any], target: str = "impl") -> None:
    """Carry a vector out on a target, in somebody's test.

    Raises:
        AssertionError: when a law is broken, or an expected value is not met; the message is the counterexample.
        SetupError: for a vector or a target that cannot be used.
    """
    import json

    from slotproof.conformance.adapter import Adapter
    from slotproof.conformance.counterexample import narrate
    from slotproof.conformance.errors import SetupError
    from slotproof.conformance.replay import replay
    from slotproof.conformance.scheduler_trace import SchedulerTrace, is_trace, parse_trace
    from slotproof.conformance.subject import is_scheduler
    from slotproof.conformance.targets.registry import load_target
    from slotproof.conformance.vector import Mismatch, parse_vector, run_vector

    text = json.dumps(vector)
    parsed = parse_trace(text, "the trace") if is_trace(text) else parse_vector(text, "the vector")
    adapter = load_target(target)
    if is_scheduler(adapter) != isinstance(parsed, SchedulerTrace):
        raise SetupError(f"{parsed.name} and {target} do not fit: one is about a scheduler, the other an allocator")
    failure = replay(adapter, parsed.config, parsed.actions)
    if failure is not None:
        raise AssertionError(narrate(adapter, target, 0, failure).text()) from failure.violation
    if isinstance(parsed, SchedulerTrace):
        return
    try:
        run_vector(cast(Adapter, adapter), parsed)
    except Mismatch as mismatch:
        raise AssertionError(str(mismatch)) from mismatch


__all__ = ["check_vector"]

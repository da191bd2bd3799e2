"""The conformance suite: holds an allocator against the specification.

`verify` runs the laws against a target, `check_vector` carries one vector out in a test, `adapter` is what a third
party writes.
"""

from collections.abc import Mapping
from typing import Any


def check_vector(vector: Mapping[str, Any], target: str = "impl") -> None:
    """Carry a vector out on a target, in somebody's test.

    Raises:
        AssertionError: when a law is broken, or an expected value is not met; the message is the counterexample.
        SetupError: for a vector or a target that cannot be used.
    """
    import json

    from slotproof.conformance.counterexample import narrate
    from slotproof.conformance.replay import replay
    from slotproof.conformance.targets.registry import load_target
    from slotproof.conformance.vector import Mismatch, parse_vector, run_vector

    adapter, parsed = load_target(target), parse_vector(json.dumps(vector), "the vector")
    failure = replay(adapter, parsed.config, parsed.actions)
    if failure is not None:
        raise AssertionError(narrate(adapter, target, 0, failure).text()) from failure.violation
    try:
        run_vector(adapter, parsed)
    except Mismatch as mismatch:
        raise AssertionError(str(mismatch)) from mismatch


__all__ = ["check_vector"]

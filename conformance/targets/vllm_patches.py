"""Repairs of vLLM's known faults, to see what hides behind a frequent one: `vllm-scheduler=NAME,NAME`.

A repair replaces as little as it can, on vLLM's own classes, in the process that it is applied in. It is evidence about
a cause: with the repair the fault must be gone.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patch:
    """What is repaired, and how."""

    repairs: str
    apply: Callable[[], None]


PATCHES: dict[str, Patch] = {}
"""By name."""

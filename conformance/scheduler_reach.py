"""The reach table of a scheduler: which situations a run has met, in each mode and under each policy."""

MODES = ("sync", "async")
POLICIES = ("fcfs", "priority")

SITUATIONS = (
    "step",
    "step planned while one is in flight",
    "chunk of a prompt",
    "admitted with a hit",
    "head of the queue refused",
    "preemption",
    "resumed",
    "draft accepted",
    "draft rejected",
    "abort",
    "abort in flight",
    "session goes on",
    "reset",
    "reset with running",
    "reset refused",
    "load in the step",
    "load beside the steps",
    "load failed",
    "deferred free waits",
    "ended: length",
    "ended: stop",
    "ended: error",
)
"""In the order in which they are shown."""

ONLY_AHEAD = ("step planned while one is in flight", "deferred free waits")
"""Situations of an engine that plans a step while another is in flight."""


def impossible(situation: str, mode: str) -> str:
    """What excludes a situation, or an empty string."""
    return "one step at a time" if mode == "sync" and situation in ONLY_AHEAD else ""

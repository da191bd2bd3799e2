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

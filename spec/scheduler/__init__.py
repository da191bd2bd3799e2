"""The reference scheduler around `allocate_slots`: pure steps over an immutable state, decided by a small policy."""

from slotproof.spec.scheduler.job import Job, Scope
from slotproof.spec.scheduler.policy import FCFS, PRIORITY, SHIPPED, VLLM_FCFS, VLLM_PRIORITY, Policy
from slotproof.spec.scheduler.state import SchedulerState, start
from slotproof.spec.scheduler.turn import Turn, happenings, take_turn

__all__ = [
    "FCFS",
    "PRIORITY",
    "SHIPPED",
    "VLLM_FCFS",
    "VLLM_PRIORITY",
    "Job",
    "Policy",
    "SchedulerState",
    "Scope",
    "Turn",
    "happenings",
    "start",
    "take_turn",
]

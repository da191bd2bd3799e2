"""Where the shipped policies break a law: for each one the law, a world that shows it, and why it is so.

`slotproof diff fcfs vllm-priority --world same-step-victim` shows a trace. What is not listed is kept in every world of
`scheduler_worlds`; the tests hold both halves.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Breach:
    """A law that a policy breaks, the nearest world that shows it, and the reason."""

    policy: str
    law_id: str
    world: str
    reason: str


BREACHES: tuple[Breach, ...] = (
    Breach(
        "vllm-fcfs",
        "SCHED-5",
        "never",
        "A request that can never fit waits at the head of the queue for ever, and everybody behind it with it. An "
        "engine whose pool holds a request of max_model_len tokens, which vLLM checks when it starts, has none.",
    ),
    Breach(
        "vllm-fcfs",
        "SCHED-5",
        "loads",
        "A load that is done is noticed in the waiting pass only, which is left out when the budget is used up or "
        "somebody was preempted, and which a refusal ends before it gets there.",
    ),
    Breach("vllm-fcfs", "SCHED-5", "failing", "As for loads that succeed."),
    Breach("vllm-fcfs", "SCHED-5", "fatal", "As for loads that succeed."),
    Breach(
        "vllm-fcfs",
        "SCHED-5",
        "sessions",
        "A session holds its blocks while it waits for input, and while it waits to be admitted again. Only what runs "
        "is preempted, so when nothing runs, whoever needs those blocks waits for ever.",
    ),
    Breach("vllm-priority", "SCHED-5", "never", "As for vllm-fcfs."),
    Breach("vllm-priority", "SCHED-5", "failing", "As for vllm-fcfs."),
    Breach("vllm-priority", "SCHED-5", "fatal", "As for vllm-fcfs."),
    Breach("vllm-priority", "SCHED-5", "sessions", "As for vllm-fcfs."),
    Breach(
        "vllm-priority",
        "SCHED-5",
        "loads",
        "As for vllm-fcfs. Were loads noticed in time, there would still be this: a refused request that comes first "
        "hides one whose load is done and which holds what the first one lacks, so both wait for ever.",
    ),
    Breach(
        "vllm-priority",
        "SCHED-4",
        "same-step-victim",
        "The victim may have been scheduled in the same step. Its tokens are withdrawn, but the blocks they would have "
        "filled keep the keys they got with the schedule: later requests find content that nobody computes, unless "
        "such a block is the very one that is popped next.",
    ),
)

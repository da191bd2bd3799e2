"""What a scheduler is given to do, and how much room it has: the requests that will come, the pool, the limits of a
step.
"""

from dataclasses import dataclass, replace

from slotproof.spec.config import Config


@dataclass(frozen=True, slots=True)
class Job:
    """A request before it arrives. `outputs` are the tokens that the model will sample for it; it ends with the last.

    Of two waiting requests the one with the smaller `priority` goes first where the policy looks at it. The first
    `num_external_tokens` of the prompt can be loaded by a connector: beside the steps, or with `loads_in_step` as part
    of the step that computes the rest; with `load_may_fail` perhaps in vain. `num_drafts` draft tokens are proposed for
    each decoding step. With `again` it arrives anew, once or more, after it has ended.

    A streaming session has `followups`, each an input and its outputs. When a turn has its last token the session waits
    for the next input, which takes the place of that token: it was sampled and never computed.
    """

    name: str
    prompt: tuple[int, ...]
    outputs: tuple[int, ...]
    priority: int = 0
    num_external_tokens: int = 0
    num_drafts: int = 0
    again: bool = False
    loads_in_step: bool = False
    load_may_fail: bool = False
    followups: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        if not self.prompt or not self.outputs:
            raise ValueError(f"job {self.name}: a request has at least one token of prompt and one of output")
        if not all(tokens and outputs for tokens, outputs in self.followups):
            raise ValueError(f"job {self.name}: an input of a session and its outputs have at least one token each")
        if not 0 <= self.num_external_tokens < len(self.prompt):
            raise ValueError(
                f"job {self.name}: num_external_tokens is {self.num_external_tokens}; at least one of the "
                f"{len(self.prompt)} tokens of the prompt is left to compute"
            )

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All tokens there will ever be, prompt and outputs; of a session those of its first turn."""
        return self.prompt + self.outputs

    def at_turn(self, number: int) -> "Job":
        """The session after so many further inputs, the tokens so far as its prompt."""
        if number == 0:
            return self
        (tokens, outputs), *later = self.followups
        prompt = self.token_ids[:-1] + tokens
        return replace(self, prompt=prompt, outputs=outputs, followups=tuple(later)).at_turn(number - 1)


@dataclass(frozen=True, slots=True)
class Scope:
    """A small world for a scheduler: what may happen in it is finite.

    `token_budget` bounds the tokens of one step, `max_chunk` those of one request's prompt in one step. Steps run ahead
    when `max_steps_in_flight` is more than 1. With `may_reset_running` a cache reset may preempt what runs. A request
    whose load fails is computed instead, or `fails_with_load`. `max_overtakes` is the bound of SCHED-6: how many later
    requests a refused one may let pass.
    """

    config: Config
    jobs: tuple[Job, ...]
    token_budget: int
    max_running: int = 8
    max_chunk: int | None = None
    chunked_prefill: bool = True
    num_lookahead_tokens: int = 0
    max_steps_in_flight: int = 1
    may_abort: tuple[str, ...] = ()
    may_reset: bool = False
    may_reset_running: bool = False
    fails_with_load: bool = False
    max_overtakes: int = 2

    def __post_init__(self) -> None:
        names = [job.name for job in self.jobs]
        if len(set(names)) != len(names):
            raise ValueError(f"jobs have the names {names}: give each one its own")
        if self.token_budget < 1 or self.max_running < 1 or self.max_steps_in_flight < 1:
            raise ValueError("token_budget, max_running and max_steps_in_flight: use 1 or more")
        for job in self.jobs:
            longest = job.at_turn(len(job.followups))
            if len(longest.token_ids) > self.config.max_model_len:
                raise ValueError(
                    f"job {job.name} has {len(longest.token_ids)} tokens in all, max_model_len is "
                    f"{self.config.max_model_len}: use a shorter job"
                )

    @property
    def num_blocks(self) -> int:
        """All blocks of the pool, the null block included."""
        return self.config.num_blocks

    @property
    def max_preemptions(self) -> int:
        """How often a request may be preempted before any request ends: once for each other one (SCHED-2)."""
        return max(len(self.jobs) - 1, 1)

    def job(self, name: str) -> Job:
        """The job of this name."""
        return next(job for job in self.jobs if job.name == name)

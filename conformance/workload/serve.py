"""Serving a trace one request at a time: what hits, what is evicted, what is refused.

Each request is looked up, admitted whole, and freed before the next one comes; ties in time keep the order of the file,
and outputs are not generated. The pool counts the null block.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slotproof.conformance.bare import Bare
from slotproof.conformance.errors import SetupError
from slotproof.conformance.workload.trace import TraceRequest
from slotproof.spec.config import Config, FreeOrder
from slotproof.spec.groups import FullAttention

UNIQUE = 1 << 60
"""Keys from here on belong to prompts of traces without ids, which share nothing."""


@dataclass(slots=True)
class Served:
    """Totals up to some request."""

    requests: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    hit_blocks: int = 0
    hit_tokens: int = 0
    stored: int = 0
    evictions: int = 0
    held: int = 0
    cached: int = 0
    arrival: float | None = None

    @property
    def hit_rate(self) -> float:
        """Hit tokens of all prompt tokens, those of refused requests included."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def count(self, request: TraceRequest, num_keys: int, num_hit_tokens: int | None, block_size: int) -> None:
        """Count a request; None for a refused one."""
        self.requests += 1
        self.prompt_tokens += request.num_prompt_tokens
        self.arrival = request.arrival
        if num_hit_tokens is None:
            self.refused += 1
            self.held = 0
            return
        self.hit_tokens += num_hit_tokens
        self.hit_blocks += num_hit_tokens // block_size
        self.stored += num_keys - num_hit_tokens // block_size
        self.held = -(-request.num_prompt_tokens // block_size)


def prompt_keys(request: TraceRequest, block_size: int) -> Sequence[int]:
    """One key for each full block of the prompt.

    An id of more tokens than a block becomes as many keys as it holds blocks: equal ids still mean equal tokens, but
    prompts that part inside an id's tokens are taken to part at its start.

    Raises:
        SetupError: when blocks and ids do not fit together.
    """
    full = request.num_prompt_tokens // block_size
    if request.ids is None:
        return range(UNIQUE + (request.line << 24), UNIQUE + (request.line << 24) + full)
    parts, rest = divmod(request.id_tokens, block_size)
    if rest:
        raise SetupError(
            f"an id of this trace stands for {request.id_tokens} tokens, which blocks of {block_size} do not divide; "
            f"give a --block-size that divides {request.id_tokens}"
        )
    if parts == 1:
        return request.ids[:full]
    return [one * parts + part for one in request.ids for part in range(parts)][:full]


def longest_prompt(requests: Iterable[TraceRequest]) -> int:
    """Tokens of the longest prompt."""
    return max((request.num_prompt_tokens for request in requests), default=1)


@dataclass(frozen=True, slots=True)
class Setting:
    """The pool that serves: full attention, prefix caching; `num_blocks` counts the null block."""

    num_blocks: int
    block_size: int
    max_model_len: int
    free_order: FreeOrder = FreeOrder.UNHASHED_FIRST

    def config(self) -> Config:
        """As the specification has it.

        Raises:
            SetupError: for a pool that cannot be.
        """
        longest = self.max_model_len
        try:
            return Config(
                self.num_blocks, (FullAttention(self.block_size),), longest, longest, free_order=self.free_order
            )
        except ValueError as error:
            raise SetupError(f"such a pool is not possible: {error}") from error


def serve(
    bare: Bare, requests: Iterable[TraceRequest], setting: Setting, every: int, tell: Callable[[int], None]
) -> list[Served]:
    """Serve the requests; the totals after each `every` of them and after the last.

    A total is taken while the request's blocks are held. `tell` is told how many requests are done.
    """
    manager: Any = bare.new_manager(setting.config())
    served, samples = Served(), list[Served]()
    for request in requests:
        keys = prompt_keys(request, setting.block_size)
        waiting = bare.new_request_of_keys(str(served.requests), request.num_prompt_tokens, keys)
        blocks, num_hit_tokens, *_ = manager.get_computed_blocks(waiting)
        answer = manager.allocate_slots(
            waiting,
            request.num_prompt_tokens - num_hit_tokens,
            num_new_computed_tokens=num_hit_tokens,
            new_computed_blocks=blocks if num_hit_tokens else None,
            full_sequence_must_fit=True,
        )
        served.count(request, len(keys), None if answer is None else num_hit_tokens, setting.block_size)
        if answer is not None:
            manager.free(waiting)
        if served.requests % every == 0:
            samples.append(sampled(served, bare.num_cached(manager)))
        tell(served.requests)
    if not samples or samples[-1].requests != served.requests:
        samples.append(sampled(served, bare.num_cached(manager)))
    return samples


def sampled(served: Served, num_cached: int) -> Served:
    """The totals now; what was stored and is not cached any more was evicted."""
    return replace(served, cached=num_cached, evictions=served.stored - num_cached)

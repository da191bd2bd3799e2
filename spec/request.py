"""A request as the scheduler sees it: its tokens, how many are computed, and what is still in flight."""

from dataclasses import dataclass, replace
from enum import StrEnum

from slotproof.spec.arithmetic import imax
from slotproof.spec.keys import ROOT_KEY, KeyTable


class Status(StrEnum):
    """Which queue of the scheduler a request is in."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"


@dataclass(frozen=True, slots=True)
class Flight:
    """One scheduled step that has not been processed: its tokens, its drafts among them, and whether it samples a
    token.
    """

    num_tokens: int
    drafts: tuple[int, ...]
    samples: bool


@dataclass(frozen=True, slots=True)
class Request:
    """One request; immutable, every change is a new value.

    `token_ids` are finalized tokens only, `prefix_keys` the key of each full block of them, `draft_token_ids` what is
    proposed for the next call. `num_computed_tokens` runs ahead of what is processed by the tokens of `flights`, drafts
    included.
    """

    request_id: str
    token_ids: tuple[int, ...]
    prefix_keys: tuple[int, ...]
    num_prompt_tokens: int
    num_computed_tokens: int = 0
    draft_token_ids: tuple[int, ...] = ()
    flights: tuple[Flight, ...] = ()
    status: Status = Status.WAITING
    cache_salt: str | None = None
    extra_keys: tuple[str, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Finalized tokens."""
        return len(self.token_ids)

    @property
    def num_in_flight_tokens(self) -> int:
        """Computed tokens whose step has not been processed yet."""
        return sum(flight.num_tokens for flight in self.flights)

    @property
    def num_uncomputed_tokens(self) -> int:
        """Tokens that can be scheduled next, drafts apart: finalized, or about to be sampled or drafted by steps in
        flight.
        """
        pending = sum(len(flight.drafts) + flight.samples for flight in self.flights)
        return self.num_tokens + pending - self.num_computed_tokens

    def prefix_key(self, index: int) -> int:
        """The key of the prefix that full block `index` ends."""
        return self.prefix_keys[index]


def new_request(
    keys: KeyTable,
    request_id: str,
    prompt: tuple[int, ...],
    block_size: int,
    cache_salt: str | None = None,
    extra_keys: tuple[str, ...] = (),
) -> tuple[KeyTable, Request]:
    """A waiting request with this prompt, and the table that knows its keys.

    Raises:
        ValueError: for a prompt without tokens.
    """
    if not prompt:
        raise ValueError(f"the prompt of request {request_id} is empty: a request has at least one token")
    blank = Request(request_id, (), (), len(prompt), cache_salt=cache_salt, extra_keys=extra_keys)
    return append_tokens(keys, blank, prompt, block_size)


def append_tokens(
    keys: KeyTable, request: Request, tokens: tuple[int, ...], block_size: int
) -> tuple[KeyTable, Request]:
    """Finalize tokens; each block they fill gets the key of the prefix it ends. The salt enters the first block only
    (ISO-1).
    """
    token_ids = request.token_ids + tokens
    prefix_keys = request.prefix_keys
    for index in range(len(prefix_keys), len(token_ids) // block_size):
        salt = (f"salt:{request.cache_salt}",) if index == 0 and request.cache_salt is not None else ()
        parent = prefix_keys[-1] if prefix_keys else ROOT_KEY
        block = token_ids[index * block_size : (index + 1) * block_size]
        keys, key = keys.intern(parent, block, salt + request.extra_keys)
        prefix_keys = (*prefix_keys, key)
    return keys, replace(request, token_ids=token_ids, prefix_keys=prefix_keys)


def propose(request: Request, drafts: tuple[int, ...]) -> Request:
    """The request with draft tokens for its next call; they are guesses, and replace earlier ones."""
    return replace(request, draft_token_ids=drafts)


def schedule(request: Request, num_adopted: int, num_new: int) -> Request:
    """The running request after an accepted call: `num_adopted` hit and external tokens, then `num_new` tokens, all
    drafts last.

    The step samples a token when it reaches the end of what is known.
    """
    samples = num_adopted + num_new - len(request.draft_token_ids) == request.num_uncomputed_tokens
    return replace(
        request,
        num_computed_tokens=request.num_computed_tokens + num_adopted + num_new,
        draft_token_ids=(),
        flights=(*request.flights, Flight(num_new, request.draft_token_ids, samples)),
        status=Status.RUNNING,
    )


def await_load(request: Request, num_adopted: int) -> Request:
    """The request after an accepted asynchronous load: its adopted tokens count as computed, and it keeps its queue."""
    return replace(request, num_computed_tokens=request.num_computed_tokens + num_adopted)


def settle(
    keys: KeyTable, request: Request, num_accepted: int, sampled: int, block_size: int
) -> tuple[KeyTable, Request]:
    """Process the oldest step in flight: accepted drafts and the sampled token become final, rejected drafts are
    uncomputed.
    """
    flight, *later = request.flights
    if not flight.samples:
        return keys, replace(request, flights=tuple(later))
    rejected = imax(len(flight.drafts) - num_accepted, 0)
    settled = replace(request, num_computed_tokens=request.num_computed_tokens - rejected, flights=tuple(later))
    return append_tokens(keys, settled, (*flight.drafts[:num_accepted], sampled), block_size)


def withdraw(request: Request) -> Request:
    """The request after a preemption: nothing is computed, and what is in flight or proposed counts no more."""
    return replace(request, num_computed_tokens=0, draft_token_ids=(), flights=(), status=Status.PREEMPTED)

"""A request as the scheduler sees it: its tokens, how many are computed, and what is still in flight."""

from dataclasses import dataclass, replace
from enum import StrEnum

from slotproof.spec.arithmetic import ceil_div, imax, imin
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

    `token_ids` are finalized tokens only, `prefix_keys` the key of each full block of them, `part_keys` those of the
    prefixes that end inside each block, at a finer hash granularity; `draft_token_ids` is what is proposed for the next
    call. `num_computed_tokens` runs ahead of what is processed by the tokens of `flights`, drafts included.
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
    part_keys: tuple[tuple[int, ...], ...] = ()

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

    def parts_of(self, index: int) -> tuple[int, ...]:
        """The keys of the finalized prefixes that end inside block `index`, shortest first."""
        return self.part_keys[index] if index < len(self.part_keys) else ()

    def key_above(self, index: int) -> int:
        """The parent of block `index`: the key of the block before it."""
        return self.prefix_keys[index - 1] if index > 0 else ROOT_KEY

    def identity(self, index: int) -> tuple[str, ...]:
        """What tells block `index` from the same tokens of others; the salt enters the first block only (ISO-1)."""
        salt = (f"salt:{self.cache_salt}",) if index == 0 and self.cache_salt is not None else ()
        return salt + self.extra_keys


def new_request(
    keys: KeyTable,
    request_id: str,
    prompt: tuple[int, ...],
    block_size: int,
    cache_salt: str | None = None,
    extra_keys: tuple[str, ...] = (),
    hash_size: int | None = None,
) -> tuple[KeyTable, Request]:
    """A waiting request with this prompt, and the table that knows its keys; `hash_size` as in `Config`.

    Raises:
        ValueError: for a prompt without tokens.
    """
    if not prompt:
        raise ValueError(f"the prompt of request {request_id} is empty: a request has at least one token")
    blank = Request(request_id, (), (), len(prompt), cache_salt=cache_salt, extra_keys=extra_keys)
    return append_tokens(keys, blank, prompt, block_size, hash_size)


def append_tokens(
    keys: KeyTable, request: Request, tokens: tuple[int, ...], block_size: int, hash_size: int | None = None
) -> tuple[KeyTable, Request]:
    """Finalize tokens; each block they fill gets the key of the prefix it ends."""
    token_ids = request.token_ids + tokens
    prefix_keys = request.prefix_keys
    for index in range(len(prefix_keys), len(token_ids) // block_size):
        parent = prefix_keys[-1] if prefix_keys else ROOT_KEY
        block = token_ids[index * block_size : (index + 1) * block_size]
        keys, key = keys.intern(parent, block, request.identity(index))
        prefix_keys = (*prefix_keys, key)
    grown = replace(request, token_ids=token_ids, prefix_keys=prefix_keys)
    if hash_size is None or hash_size == block_size:
        return keys, grown
    return key_parts(keys, grown, block_size, hash_size)


def key_parts(keys: KeyTable, request: Request, block_size: int, hash_size: int) -> tuple[KeyTable, Request]:
    """Key the prefixes of finalized tokens that end inside a block, at the hash granularity (HASH-1)."""
    part_keys = request.part_keys[:-1]
    for index in range(len(part_keys), ceil_div(request.num_tokens, block_size)):
        block = request.token_ids[index * block_size : (index + 1) * block_size]
        parts: tuple[int, ...] = ()
        for end in range(hash_size, imin(len(block), block_size - 1) + 1, hash_size):
            keys, key = keys.intern(request.key_above(index), block[:end], request.identity(index))
            parts = (*parts, key)
        part_keys = (*part_keys, parts)
    return keys, replace(request, part_keys=part_keys)


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
    keys: KeyTable,
    request: Request,
    num_accepted: int,
    sampled: int,
    block_size: int,
    hash_size: int | None = None,
) -> tuple[KeyTable, Request]:
    """Process the oldest step in flight: accepted drafts and the sampled token become final, rejected drafts are
    uncomputed.
    """
    flight, *later = request.flights
    if not flight.samples:
        return keys, replace(request, flights=tuple(later))
    rejected = imax(len(flight.drafts) - num_accepted, 0)
    settled = replace(request, num_computed_tokens=request.num_computed_tokens - rejected, flights=tuple(later))
    return append_tokens(keys, settled, (*flight.drafts[:num_accepted], sampled), block_size, hash_size)


def withdraw(request: Request) -> Request:
    """The request after a preemption: nothing is computed, and what is in flight or proposed counts no more."""
    return replace(request, num_computed_tokens=0, draft_token_ids=(), flights=(), status=Status.PREEMPTED)

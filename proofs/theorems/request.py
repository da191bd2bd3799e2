"""Theorems about `spec/request.py`: what is in flight may be taken back, and which prefixes have one key."""

from collections.abc import Iterator
from dataclasses import replace
from operator import index
from typing import Any, NamedTuple

from slotproof.proofs.scope import Scope
from slotproof.proofs.theorem import theorem
from slotproof.spec import request as requests
from slotproof.spec.keys import ROOT_KEY, KeyTable
from slotproof.spec.request import Flight, Request, Status

TOKENS = (1, 1, 2, 1, 2)
DRAFT, SAMPLED = 7, 9
BLOCK_SIZE = 2
MOST_DRAFTS = 2

FEW_DRAFTS = f"any counts, up to {MOST_DRAFTS} drafts"

EARLIER: tuple[tuple[Flight, ...], ...] = ((), (Flight(2, (DRAFT,), samples=True),), (Flight(3, (), samples=False),))
"""Steps that may be in flight already."""


def any_request(s: Scope, drafts: tuple[int, ...] = (), flights: tuple[Flight, ...] = ()) -> tuple[KeyTable, Request]:
    """A request of a few tokens with any number of computed ones, and the table that knows its keys."""
    keys, fresh = requests.new_request(KeyTable(), "r", TOKENS, BLOCK_SIZE)
    return keys, Request("r", TOKENS, fresh.prefix_keys, 3, s.integer("computed"), drafts, flights, Status.RUNNING)


def with_drafts_and_flights(s: Scope) -> Iterator[Request]:
    """Requests with any few drafts proposed and any few steps in flight."""
    for number in range(MOST_DRAFTS + 1):
        for flights in EARLIER:
            yield any_request(s, (DRAFT,) * number, flights)[1]


def pending(flights: tuple[Flight, ...]) -> int:
    """Tokens that steps in flight are about to sample, or have drafted."""
    return sum(len(flight.drafts) + (1 if flight.samples else 0) for flight in flights)


@theorem("SKIP-1", "What can be scheduled next is what is finalized, sampled or drafted and not computed.", FEW_DRAFTS)
def what_is_not_computed_can_be_scheduled(s: Scope) -> None:
    for before in with_drafts_and_flights(s):
        due = len(TOKENS) + pending(before.flights)
        s.prove(before.num_uncomputed_tokens == due - before.num_computed_tokens)
        s.prove(before.num_in_flight_tokens == sum(flight.num_tokens for flight in before.flights))


@theorem("SKIP-1", "A scheduled step counts as computed, is in flight, and samples exactly at the end.", FEW_DRAFTS)
def a_scheduled_step_is_in_flight(s: Scope) -> None:
    adopted, new = s.integer("adopted"), s.integer("new")
    for entering in with_drafts_and_flights(s):
        before = replace(entering, status=Status.WAITING)
        after = requests.schedule(before, adopted, new)
        *others, flight = after.flights
        end = before.num_computed_tokens + adopted + new
        s.prove(after.num_computed_tokens == end)
        s.prove(tuple(others) == before.flights)
        s.prove(flight.num_tokens == new)
        s.prove(flight.drafts == before.draft_token_ids)
        s.prove(flight.samples == (end - len(before.draft_token_ids) == len(TOKENS) + pending(before.flights)))
        s.prove((after.draft_token_ids, after.status, after.token_ids) == ((), Status.RUNNING, TOKENS))


@theorem("SKIP-1", "Processing a step takes back exactly its rejected drafts, and finalizes what follows.", FEW_DRAFTS)
def processing_takes_back_what_is_rejected(s: Scope) -> None:
    for number in range(MOST_DRAFTS + 1):
        for accepted in range(number + 2):
            drafts = tuple(range(DRAFT, DRAFT + number))
            flights = (Flight(number + 1, drafts, samples=True), *EARLIER[1])
            keys, before = any_request(s, flights=flights)
            known, after = requests.settle(keys, before, accepted, SAMPLED, BLOCK_SIZE)
            rejected = number - accepted if accepted < number else 0
            s.prove(after.num_computed_tokens == before.num_computed_tokens - rejected)
            s.prove(after.token_ids == (*TOKENS, *drafts[:accepted], SAMPLED))
            s.prove(after.flights == EARLIER[1])
            s.prove(
                requests.new_request(known, "same", after.token_ids, BLOCK_SIZE)[1].prefix_keys == after.prefix_keys
            )


@theorem("SKIP-1", "Processing a step that samples nothing finalizes nothing, and takes nothing back.", FEW_DRAFTS)
def processing_a_chunk_takes_nothing_back(s: Scope) -> None:
    keys, before = any_request(s, flights=(*EARLIER[2], *EARLIER[1]))
    known, after = requests.settle(keys, before, 0, SAMPLED, BLOCK_SIZE)
    s.prove(after.num_computed_tokens == before.num_computed_tokens)
    s.prove((after.token_ids, after.flights, known) == (TOKENS, EARLIER[1], keys))


@theorem("SKIP-1", "What a load adopts counts as computed, and nothing of it is in flight.", FEW_DRAFTS)
def a_load_is_computed_and_not_in_flight(s: Scope) -> None:
    adopted = s.integer("adopted")
    for before in with_drafts_and_flights(s):
        after = requests.await_load(before, adopted)
        s.prove(after.num_computed_tokens == before.num_computed_tokens + adopted)
        s.prove((after.flights, after.status) == (before.flights, before.status))


@theorem("HASH-3", "Proposing drafts replaces earlier ones, and changes nothing else of a request.", FEW_DRAFTS)
def drafts_are_only_proposed(s: Scope) -> None:
    for before in with_drafts_and_flights(s):
        after = requests.propose(before, (SAMPLED,))
        s.prove(after.num_computed_tokens == before.num_computed_tokens)
        s.prove((after.draft_token_ids, after.token_ids, after.flights) == ((SAMPLED,), TOKENS, before.flights))


@theorem("LEAK-1", "A preempted request keeps its tokens, and has nothing computed, proposed or in flight.", FEW_DRAFTS)
def a_preempted_request_starts_again(s: Scope) -> None:
    for before in with_drafts_and_flights(s):
        after = requests.withdraw(before)
        s.prove((after.num_computed_tokens, after.draft_token_ids, after.flights) == (0, (), ()))
        s.prove((after.status, after.token_ids, after.prefix_keys) == (Status.PREEMPTED, TOKENS, before.prefix_keys))


class Prompt(NamedTuple):
    """Tokens, and what tells them from the same tokens of others."""

    tokens: tuple[int, ...]
    salt: str | None = None
    extra_keys: tuple[str, ...] = ()


PROMPTS = (
    Prompt((1, 1, 1, 1)),
    Prompt((1, 1, 1, 2)),
    Prompt((1, 1, 2, 1, 1)),
    Prompt((2, 1, 1, 1)),
    Prompt((1, 1, 1, 1, 1, 1)),
    Prompt((1, 1, 1)),
    Prompt((1, 1, 1, 1), "s"),
    Prompt((1, 1, 1, 1), "None"),
    Prompt((1, 1, 1, 1), None, ("s",)),
    Prompt((1, 1, 1, 1), "s", ("x",)),
)
"""Prompts that share beginnings, tokens, salts and extra keys in every way."""


@theorem("ISO-1", "A key stands for its parent, its block and extra keys, and at first the salt.", "ten prompts")
def a_key_stands_for_one_block_behind_its_parent(s: Scope) -> None:
    prompt = PROMPTS[index(prompt_number(s, "prompt"))]
    known, request = keyed(KeyTable(), prompt)
    parents = (ROOT_KEY, *request.prefix_keys)
    for place, key in enumerate(request.prefix_keys):
        salt = () if prompt.salt is None or place > 0 else (f"salt:{prompt.salt}",)
        block = prompt.tokens[place * BLOCK_SIZE : (place + 1) * BLOCK_SIZE]
        s.prove(known.entries.get((parents[place], block, salt + prompt.extra_keys)) == key)


@theorem(
    "ISO-1", "Two prefixes have one key exactly if tokens, salt and extra keys are equal.", "ten prompts, all pairs"
)
def prefixes_have_one_key_exactly_if_they_are_equal(s: Scope) -> None:
    one, other = (PROMPTS[index(prompt_number(s, name))] for name in ("first prompt", "second prompt"))
    keys, first = keyed(KeyTable(), one)
    _, second = keyed(keys, other)
    s.prove(len(first.prefix_keys) == len(one.tokens) // BLOCK_SIZE)
    for place, key in enumerate(first.prefix_keys):
        for elsewhere, other_key in enumerate(second.prefix_keys):
            s.prove((key == other_key) == (prefix(one, place) == prefix(other, elsewhere)))


def prompt_number(s: Scope, name: str) -> Any:
    """The number of any of the prompts."""
    number = s.integer(name)
    s.assume(number < len(PROMPTS))
    return number


def keyed(keys: KeyTable, prompt: Prompt) -> tuple[KeyTable, Request]:
    """A request with this prompt."""
    return requests.new_request(keys, "r", prompt.tokens, BLOCK_SIZE, prompt.salt, prompt.extra_keys)


def prefix(prompt: Prompt, place: int) -> Prompt:
    """What the key of a full block stands for."""
    return prompt._replace(tokens=prompt.tokens[: (place + 1) * BLOCK_SIZE])

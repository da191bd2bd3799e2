"""Every action that can be taken in a small world: the arguments with which each verb of the action table can be used
there, those left out that would come to the same call.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from slotproof.conformance.actions import Action, name_of
from slotproof.conformance.scope import DRAFTED, SAMPLED, Prompt, Scope
from slotproof.conformance.world import World
from slotproof.spec.lookup import get_computed_blocks
from slotproof.spec.pool import NO_KEY
from slotproof.spec.request import Request, Status, new_request

Arguments = dict[str, Any]

RUNS_AHEAD = 2
"""Steps of one request that may be in flight where a scope lets any be."""


def actions_in(world: World, scope: Scope) -> Iterator[Action]:
    """Every action that does something: who may enter, what may happen to each request, and to the pool."""
    for prompt in prompts_to_enter(world, scope):
        yield from admissions(world, name_of(world), prompt, scope)
    for request in world.requests.values():
        yield from actions_of(world, request, scope)
    yield from actions_of_pool(world, scope)


def prompts_to_enter(world: World, scope: Scope) -> list[Prompt]:
    """Each prompt of which fewer requests live than may."""
    live = [request.token_ids[: request.num_prompt_tokens] for request in world.requests.values()]
    return [prompt for prompt in dict.fromkeys(scope.prompts) if live.count(prompt) < scope.prompts.count(prompt)]


def admissions(world: World, name: str, prompt: Prompt, scope: Scope) -> Iterator[Action]:
    """A new request with this prompt, in each way to ask for it."""
    config = scope.config
    _, request = new_request(world.keys, name, prompt, config.block_size, hash_size=config.hash_size)
    for ways in ways_to_enter(world, request, scope):
        yield Action("admit", {"request": name, "prompt": prompt, **ways})


def actions_of(world: World, request: Request, scope: Scope) -> Iterator[Action]:
    """What may happen to a request; it depends on the request and the pool, and on no other request."""
    for verb, ways in OF_REQUESTS.items():
        if scope.has(verb):
            for arguments in ways(world, request, scope):
                yield Action(verb, {"request": request.request_id, **arguments})


def actions_of_pool(world: World, scope: Scope) -> Iterator[Action]:
    """What may happen to the pool whatever the requests do."""
    for verb, ways in OF_THE_POOL.items():
        if scope.has(verb):
            for arguments in ways(world):
                yield Action(verb, arguments)


# Requests.


def retries(world: World, request: Request, scope: Scope) -> Iterator[Arguments]:
    """The ways in which a waiting request can ask again."""
    return ways_to_enter(world, request, scope) if is_waiting(world, request) else iter(())


def ways_to_enter(world: World, request: Request, scope: Scope) -> Iterator[Arguments]:
    """How an admission of the request can ask."""
    hit = get_computed_blocks(world.snapshot, request).num_tokens if request.num_computed_tokens == 0 else 0
    # Once also where a lookup claims that nothing is left to compute: the laws are to see what it found.
    chunks = range(1, max(min(request.num_uncomputed_tokens - hit, scope.step), 1) + 1)
    pressures = product(
        chunks,
        range(scope.lookahead + 1),
        range(scope.reserved + 1),
        (False, True) if scope.whole else (False,),
        (False, True) if scope.config.watermark_blocks else (False,),
    )
    for new, lookahead, reserved, whole, alone in pressures:
        yield said({"new": new, "lookahead": lookahead, "reserved": reserved, "whole": whole, "alone": alone})


def said(arguments: Arguments) -> Arguments:
    """The arguments that say something."""
    return {name: value for name, value in arguments.items() if value}


def is_waiting(world: World, request: Request) -> bool:
    """Whether the request waits to be admitted, and not for a load."""
    return request.status != Status.RUNNING and request.request_id not in world.loading


def extensions(_: World, request: Request, scope: Scope) -> Iterator[Arguments]:
    """How a running request can ask for its next tokens: with lookahead, or with drafts behind all that is known."""
    if request.status != Status.RUNNING or len(request.flights) >= (RUNS_AHEAD if scope.in_flight else 1):
        return
    uncomputed = request.num_uncomputed_tokens
    for new in range(1, min(uncomputed, scope.step) + 1):
        room = scope.config.max_model_len - request.num_computed_tokens - new
        drafts = min(scope.drafts, room) if new == uncomputed else 0
        for lookahead in range(scope.lookahead + 1):
            yield said({"new": new, "lookahead": lookahead})
        for number in range(1, drafts + 1):
            yield {"new": new, "drafts": (DRAFTED,) * number}


def results(_: World, request: Request, scope: Scope) -> Iterator[Arguments]:
    """How the oldest step in flight can end; not at all if it samples a token that has no room."""
    if not request.flights:
        return
    flight = request.flights[0]
    room = scope.max_tokens - request.num_tokens - 1
    most = min(len(flight.drafts), room) if flight.samples else 0
    for accepted in range(most + 1):
        yield {"accepted": accepted, "token": SAMPLED}


def loads(world: World, request: Request, _: Scope) -> Iterator[Arguments]:
    """Each number of tokens that a connector may load for a waiting request of which nothing is computed."""
    if is_waiting(world, request) and request.num_computed_tokens == 0:
        hit = get_computed_blocks(world.snapshot, request).num_tokens
        for external in range(1, request.num_tokens - hit):
            yield {"external": external}


def once_if(applies: Callable[[World, Request], bool]) -> Callable[[World, Request, Scope], Iterator[Arguments]]:
    """Once, with nothing to choose, for a request to which it applies."""

    def once(world: World, request: Request, _: Scope) -> Iterator[Arguments]:
        if applies(world, request):
            yield {}

    return once


def is_running(_: World, request: Request) -> bool:
    """Whether the request has been admitted."""
    return request.status == Status.RUNNING


OF_REQUESTS: dict[str, Callable[[World, Request, Scope], Iterator[Arguments]]] = {
    "retry": retries,
    "extend": extensions,
    "output": results,
    "free": once_if(lambda world, request: True),
    "preempt": once_if(is_running),
    "load": loads,
    "loaded": once_if(lambda world, request: request.request_id in world.loading),
    "defer": once_if(is_running),
}
"""Verb of the action table -> the arguments it can be used with for a request that lives."""


# The pool.


def returns(world: World) -> Iterator[Arguments]:
    """Once, if some deferred free waits."""
    if world.snapshot.waiting_frees:
        yield {}


def copies(world: World) -> Iterator[Arguments]:
    """Once, if the step of some copy is not known to be done."""
    if world.snapshot.copies:
        yield {}


def evictions(world: World) -> Iterator[Arguments]:
    """Each keyed block."""
    for block, key in enumerate(world.snapshot.pool.keys):
        if key != NO_KEY:
            yield {"blocks": (block,)}


def resets(_: World) -> Iterator[Arguments]:
    """At any time: while something is held it must be refused."""
    yield {}


OF_THE_POOL: dict[str, Callable[[World], Iterator[Arguments]]] = {
    "return": returns,
    "copied": copies,
    "evict": evictions,
    "reset": resets,
}
"""Verb of the action table -> the arguments it can be used with whatever the requests do."""


def result_of(world: World, action: Action, scope: Scope) -> Action | None:
    """The result that follows a step at once where none stays in flight; None if there is none, or if it has drafts."""
    if scope.in_flight or action.verb not in ("admit", "retry", "extend"):
        return None
    request = world.requests[action.arguments["request"]]
    if not request.flights or request.flights[0].drafts:
        return None
    name = {"request": request.request_id}
    return next((Action("output", {**name, **how}) for how in results(world, request, scope)), None)

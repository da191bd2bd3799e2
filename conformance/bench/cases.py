"""The calls that are timed: the public ones, with keyword arguments, hashing done before and events off.

A case brings its world into a state, times `calls` calls and puts the world back; all implementations run the same
code. The clock is that of the thread's CPU time, so that what else runs on the machine does not count.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time
from typing import Any

from slotproof.conformance.bench.world import BLOCK_SIZE, PROMPT_TOKENS, World

Sample = Callable[[World, int], float]
"""Seconds that so many calls take together."""


@dataclass(frozen=True, slots=True)
class Case:
    """A call in one situation; `calls` of them make one value."""

    name: str
    what: str
    calls: int
    sample: Sample


def time_steps(world: World, requests: list[Any], rounds: int = 1) -> float:
    """Seconds for a decode step of every request, several times over."""
    allocate_slots = world.manager.allocate_slots
    started = thread_time()
    for _ in range(rounds):
        for request in requests:
            allocate_slots(request=request, num_new_tokens=1, num_lookahead_tokens=0)
    return thread_time() - started


def decode(world: World, calls: int) -> float:
    """The token fits into the last block and does not fill it."""
    requests = [world.sampled(40) for _ in range(64)]
    seconds = time_steps(world, requests, calls // len(requests))
    world.release(requests)
    return seconds


def decode_fill(world: World, calls: int) -> float:
    """The token fills the last block, which gets its key."""
    requests = [world.sampled(2 * BLOCK_SIZE - 1) for _ in range(calls)]
    seconds = time_steps(world, requests)
    world.release(requests)
    return seconds


def decode_boundary(world: World, calls: int) -> float:
    """The token needs a new block, which loses its old key."""
    requests = [world.sampled(2 * BLOCK_SIZE) for _ in range(calls)]
    seconds = time_steps(world, requests)
    world.release(requests)
    return seconds


def time_admissions(world: World, requests: list[Any], num_new_tokens: int) -> float:
    """Seconds for the admission of every request, each right after its lookup; they are freed afterwards."""
    allocate_slots, look_up = world.manager.allocate_slots, world.manager.get_computed_blocks
    seconds = 0.0
    for request in requests:
        blocks, num_hit_tokens, *_ = look_up(request)
        started = thread_time()
        allocate_slots(
            request=request,
            num_new_tokens=num_new_tokens,
            num_new_computed_tokens=num_hit_tokens,
            new_computed_blocks=blocks,
            num_lookahead_tokens=0,
            num_external_computed_tokens=0,
            delay_cache_blocks=False,
            full_sequence_must_fit=True,
            reserved_blocks=0,
            has_scheduled_reqs=True,
        )
        seconds += thread_time() - started
    world.release(requests)
    return seconds


def admit_miss(world: World, calls: int) -> float:
    """2,048 tokens, nothing cached: 128 blocks lose their keys and get new ones."""
    return time_admissions(world, [world.prompt(PROMPT_TOKENS) for _ in range(calls)], PROMPT_TOKENS)


def admit_hit(world: World, calls: int) -> float:
    """2,049 tokens, 2,048 cached in 128 idle blocks."""
    earlier = [world.admitted(PROMPT_TOKENS) for _ in range(calls)]
    world.release(earlier)
    return time_admissions(world, [world.same_prompt(request, PROMPT_TOKENS + 1) for request in earlier], 1)


def free(world: World, calls: int) -> float:
    """A request with 128 keyed blocks."""
    requests, release = [world.admitted(PROMPT_TOKENS) for _ in range(calls)], world.manager.free
    started = thread_time()
    for request in requests:
        release(request=request)
    return thread_time() - started


def time_lookups(world: World, requests: list[Any], calls: int) -> float:
    """Seconds for lookups of the requests in turn."""
    look_up, rounds = world.manager.get_computed_blocks, calls // len(requests)
    started = thread_time()
    for _ in range(rounds):
        for request in requests:
            look_up(request=request)
    return thread_time() - started


def lookup_hit(world: World, calls: int) -> float:
    """All of 128 blocks are found."""
    earlier = [world.admitted(PROMPT_TOKENS) for _ in range(16)]
    world.release(earlier)
    return time_lookups(world, [world.same_prompt(request, PROMPT_TOKENS + 1) for request in earlier], calls)


def lookup_miss(world: World, calls: int) -> float:
    """The first of 128 blocks is not found."""
    return time_lookups(world, [world.prompt(PROMPT_TOKENS + 1) for _ in range(64)], calls)


def refuse_prompt(world: World, calls: int) -> float:
    """Nothing is free: new requests are refused at stage 0."""
    running, waiting = world.exhaust(), [world.prompt(PROMPT_TOKENS) for _ in range(64)]
    allocate_slots, rounds = world.manager.allocate_slots, calls // len(waiting)
    started = thread_time()
    for _ in range(rounds):
        for request in waiting:
            allocate_slots(request=request, num_new_tokens=PROMPT_TOKENS, full_sequence_must_fit=True)
    seconds = thread_time() - started
    world.release(running)
    return seconds


def refuse_step(world: World, calls: int) -> float:
    """Nothing is free: running requests that need a block are refused at stage 2."""
    running = world.exhaust()
    stepping = running[:64]
    for request in stepping:
        world.bare.append(request, [7])
    seconds = time_steps(world, stepping, calls // len(stepping))
    world.release(running)
    return seconds


def new_request(world: World, calls: int) -> float:
    """128 block hashes of a new request; not a call of the manager."""
    make, tokens = world.bare.new_request, [7] * PROMPT_TOKENS
    started = thread_time()
    for _ in range(calls):
        make("r", tokens)
    return thread_time() - started


CASES = (
    Case("decode", "decode step, no new block", 8192, decode),
    Case("decode-fill", "decode step that fills a block", 512, decode_fill),
    Case("decode-boundary", "decode step that needs a block", 512, decode_boundary),
    Case("admit-miss", "admit 2,048 tokens, no hit", 16, admit_miss),
    Case("admit-hit", "admit 2,049 tokens, 2,048 hit", 16, admit_hit),
    Case("free", "free 2,048 tokens", 16, free),
    Case("lookup-hit", "look up 128 blocks, all cached", 64, lookup_hit),
    Case("lookup-miss", "look up 128 blocks, none cached", 2048, lookup_miss),
    Case("refuse-prompt", "refuse a prompt (stage 0)", 2048, refuse_prompt),
    Case("refuse-step", "refuse a decode step (stage 2)", 2048, refuse_step),
    Case("hash-request", "hash a request of 128 blocks", 16, new_request),
)

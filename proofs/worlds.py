"""The operations that theorems are about, and the small worlds in which each is run to the end of every path."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from slotproof.proofs.engine import ImpossiblePath, current_run
from slotproof.proofs.operations import Operation, World
from slotproof.proofs.shapes import (
    ASKING,
    Shape,
    any_call,
    any_request,
    any_short_request,
    any_snapshot,
    choose,
    integer,
)
from slotproof.spec import admission, lookup, release
from slotproof.spec.admission import Allocation, Call, Refusal
from slotproof.spec.request import Flight, Request, Status
from slotproof.spec.snapshot import Snapshot

SHAPES = (
    Shape("f", free=2, held=(0,)),
    Shape("f", free=2, held=(1,)),
    Shape("f", free=2, held=(0,), others=1, hits=1),
    Shape("w", free=1, held=(2,)),
    Shape("w", free=2, held=(1,)),
    Shape("w", free=2, held=(0,), others=1, hits=1),
    Shape("fw", free=2, held=(1, 1)),
    Shape("f", free=5, held=(0,)),
    Shape("f", free=3, held=(2,)),
    Shape("f", free=2, held=(0,), others=1, hits=2),
    Shape("fw", free=2, held=(0, 0), others=1, hits=1),
    Shape("fw", free=1, held=(2, 2)),
)
"""Smallest first, so that a counterexample is small."""

TWO_RUNS = (*SHAPES[:3], SHAPES[4])
"""Two runs have many paths, most where a window gives blocks back."""


def world(shape: Shape, build: Callable[[Shape], tuple[Snapshot, tuple[Any, ...]]]) -> World:
    """The world of one shape."""
    return World(shape.words, lambda: build(shape))


def a_call(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot and one call."""
    snapshot, call = any_call(shape)
    return snapshot, (call,)


def allocate(before: Snapshot, call: Call) -> Allocation | Refusal:
    """The call, as an engine makes it."""
    return admission.allocate_slots(
        before,
        call.request,
        call.num_new_tokens,
        hit=call.hit,
        num_lookahead_tokens=call.num_lookahead_tokens,
        num_external_computed_tokens=call.num_external_computed_tokens,
        delay_cache_blocks=call.delay_cache_blocks,
        full_sequence_must_fit=call.full_sequence_must_fit,
        reserved_blocks=call.reserved_blocks,
        has_scheduled_reqs=call.has_scheduled_reqs,
    )


ADMIT = Operation(
    "allocate_slots",
    allocate,
    tuple(world(shape, a_call) for shape in SHAPES),
    "any call, up to 6 blocks",
)

HOLDING = (
    Shape("f", free=1, held=(1,)),
    Shape("f", free=1, held=(3,)),
    Shape("w", free=1, held=(3,)),
    Shape("f", free=0, held=(2,), others=1),
    Shape("fw", free=1, held=(2, 2)),
)
"""Shapes in which the request holds something."""


def a_holder(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot and the request that holds something in it."""
    return any_snapshot(shape), (ASKING,)


FREE = Operation(
    "free",
    lambda before, request_id: release.free(before, request_id),
    tuple(world(shape, a_holder) for shape in HOLDING),
    "any holder, up to 5 blocks",
)

DEFER = Operation(
    "defer_free",
    lambda before, request_id: release.defer_free(before, request_id),
    tuple(world(shape, a_holder) for shape in HOLDING),
    "any holder, up to 5 blocks",
)


def a_waiting_free(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot in which the request's blocks wait to be returned, and another free waits behind them."""
    return replace(release.defer_free(any_snapshot(shape), ASKING), waiting_frees=waiting_frees(shape)), ()


def waiting_frees(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """The request's blocks from last to first as the oldest deferred free, and an empty one."""
    first = 1 + shape.free
    return tuple(reversed(range(first, first + sum(shape.held)))), ()


RETURN = Operation(
    "return_deferred",
    lambda before: release.return_deferred(before),
    tuple(world(shape, a_waiting_free) for shape in HOLDING[:4]),
    "any deferred free, up to 5 blocks",
)


def a_pool(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot, and no argument."""
    return any_snapshot(shape), ()


RETURN_NOTHING = Operation(
    "return_deferred, none waiting",
    lambda before: release.return_deferred(before),
    (world(HOLDING[0], a_pool),),
    "any pool of 2 blocks",
)


def a_victim(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot, and the request that holds something in it and has a step in flight."""
    running = Request(ASKING, (1, 2), (), 2, 2, (), (Flight(2, (), samples=True),), Status.RUNNING)
    return any_snapshot(shape), (running,)


PREEMPT = Operation(
    "preempt",
    lambda before, request: release.preempt(before, request),
    tuple(world(shape, a_victim) for shape in HOLDING),
    "any holder, up to 5 blocks",
)


def some_blocks(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot and two usable blocks, perhaps the same."""
    return any_snapshot(shape), (tuple(1 + choose(f"evicted {place}", shape.num_blocks - 2) for place in range(2)),)


EVICT = Operation(
    "evict_blocks",
    lambda before, blocks: release.evict_blocks(before, blocks),
    tuple(world(shape, some_blocks) for shape in HOLDING),
    "any two blocks of up to 5",
)


RESET = Operation(
    "reset_prefix_cache",
    lambda before: release.reset_prefix_cache(before),
    tuple(world(shape, a_pool) for shape in (*HOLDING, Shape("fw", free=4, held=(0, 0)))),
    "any pool of up to 5 blocks",
)


def a_commit(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot, a request that holds something in it, and a number of tokens."""
    return any_snapshot(shape), (any_request(), integer("committed", -1))


COMMIT = Operation(
    "commit",
    lambda before, request, tokens: admission.commit(before, request, tokens),
    tuple(world(shape, a_commit) for shape in HOLDING),
    "any commit, up to 5 blocks",
)

PREFIX_BLOCKS = 3
"""A lookup is run for every request of up to so many full blocks."""


def a_request(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot and a request of few tokens that holds nothing."""
    request = any_short_request(PREFIX_BLOCKS)
    if request.num_tokens == 0:
        raise ImpossiblePath
    return any_snapshot(shape), (request,)


LOOKUP = Operation(
    "get_computed_blocks",
    lambda before, request: lookup.get_computed_blocks(before, request),
    tuple(
        world(shape, a_request)
        for shape in (
            Shape("f", free=1, held=(0,), others=1),
            Shape("w", free=1, held=(0,), others=1),
            Shape("w", free=3, held=(0,)),
            Shape("wf", free=3, held=(0, 0)),
            Shape("fw", free=3, held=(0, 0)),
        )
    ),
    f"prefixes of up to {PREFIX_BLOCKS} blocks",
)


def two_calls(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot and two calls that differ in the ids of their drafts only."""
    snapshot, call = any_call(shape)
    drafts = [tuple(integer(f"draft {run} {place}") for place in range(2 * run)) for run in (0, 1)]
    return snapshot, tuple(replace(call, request=replace(call.request, draft_token_ids=ids)) for ids in drafts)


def with_more_drafts(shape: Shape) -> tuple[Snapshot, tuple[Any, ...]]:
    """A snapshot, a call that reaches the end of the finalized tokens, and one with more drafts and other lookahead."""
    snapshot, call = any_call(shape)
    covered: Any = call.num_computed_tokens + call.num_new_tokens
    current_run().know((covered >= call.request.num_tokens).term)
    return snapshot, (
        call,
        replace(
            call,
            num_new_tokens=call.num_new_tokens + integer("more drafts"),
            num_lookahead_tokens=integer("other lookahead"),
        ),
    )


def both(before: Snapshot, one: Any, other: Any) -> tuple[Any, Any]:
    """The outcomes of two calls, each on the same snapshot."""
    return allocate(before, one), allocate(before, other)


OTHER_DRAFTS = Operation(
    "allocate_slots twice",
    both,
    tuple(world(shape, two_calls) for shape in TWO_RUNS),
    "two runs, up to 3 usable blocks",
    num_quick=0,
)

MORE_DRAFTS = Operation(
    "allocate_slots with more drafts",
    both,
    tuple(world(shape, with_more_drafts) for shape in TWO_RUNS),
    "two runs, up to 3 usable blocks",
    num_quick=0,
)

"""What comes back, where it stands in the queue, and what stays findable."""

from collections.abc import Callable
from typing import Any

import pytest

from slotproof.spec import FreeOrder, FullAttention, Hit, SlidingWindow, Status, Table
from slotproof.spec.pool import Pool
from slotproof.spec.release import release_run

EngineOf = Callable[..., Any]
FULL_16 = FullAttention(16)


@pytest.mark.parametrize(
    ("limits", "queue"),
    [
        ({}, (5, *range(6, 12), 4, 3, 2, 1)),
        ({"free_order": FreeOrder.LRU}, (*range(6, 12), 5, 4, 3, 2, 1)),
        ({"caching": False}, (5, 4, 3, 2, 1, *range(6, 12))),
    ],
    ids=["unhashed-first", "lru", "caching off"],
)
def test_free_goes_tail_to_head_keyless_to_the_front_keyed_to_the_back(
    engine_of: EngineOf, limits: dict[str, Any], queue: tuple[int, ...]
) -> None:
    """Real vLLM: blocks 1-4 are keyed, 5 is partial."""
    engine = engine_of(12, FULL_16, **limits)
    engine.admit("r", range(70))
    engine.free("r")
    assert engine.queue == queue


def test_several_keyless_blocks_go_to_the_front_as_one_run(engine_of: EngineOf) -> None:
    """Real vLLM: 5 4 3 … 2 1, the last block of the request frontmost."""
    engine = engine_of(8, FULL_16)
    engine.admit("r", range(40), num_lookahead_tokens=40)
    engine.free("r")
    assert engine.queue == (5, 4, 3, 6, 7, 2, 1)


class TwoGroups:
    """Blocks 1-4 of a full group and 5-8 of a window, of which 1, 2, 5 and 6 are keyed."""

    def __init__(self, engine_of: EngineOf) -> None:
        self.engine = engine_of(11, FULL_16, SlidingWindow(16, 64))
        self.engine.admit("r", range(40), num_lookahead_tokens=24)
        assert self.engine.tables("r") == ((1, 2, 3, 4), (5, 6, 7, 8))
        assert self.engine.keyed == (1, 2, 5, 6)


def test_free_at_once_goes_group_by_group(engine_of: EngineOf) -> None:
    """Real vLLM: 8 7 4 3 … 2 1 6 5."""
    engine = TwoGroups(engine_of).engine
    engine.free("r")
    assert engine.queue == (8, 7, 4, 3, 9, 10, 2, 1, 6, 5)


def test_a_deferred_free_goes_over_all_groups_at_once(engine_of: EngineOf) -> None:
    """Real vLLM: 8 7 4 3 … 6 5 2 1; until then the blocks are held and the request is gone."""
    engine = TwoGroups(engine_of).engine
    engine.defer_free("r")
    assert (engine.queue, engine.tables("r"), engine.refs(*range(1, 9))) == ((9, 10), ((), ()), [1] * 8)
    assert engine.snapshot.waiting_frees == ((8, 7, 6, 5, 4, 3, 2, 1),)
    engine.return_deferred()
    assert (engine.queue, engine.snapshot.waiting_frees) == ((8, 7, 4, 3, 9, 10, 6, 5, 2, 1), ())


def test_deferred_frees_are_returned_oldest_first(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16)
    engine.admit("one", range(16))
    engine.admit("two", range(100, 116))
    engine.defer_free("two")
    engine.defer_free("one")
    engine.return_deferred()
    assert (engine.queue, engine.snapshot.waiting_frees) == ((3, 4, 5, 6, 7, 8, 9, 10, 2), ((1,),))


def test_a_shared_block_stays_held_until_the_last_request_is_freed(engine_of: EngineOf) -> None:
    engine = engine_of(6, FULL_16)
    engine.admit("one", range(17))
    engine.admit("two", range(17))
    engine.free("one")
    assert (engine.refs(1, 2, 3), engine.queue) == ([1, 0, 1], (2, 4, 5))
    engine.free("two")
    assert (engine.refs(1, 2, 3), engine.queue) == ([0, 0, 0], (3, 2, 4, 5, 1))


@pytest.mark.parametrize("free", ["free", "defer_free"])
def test_freeing_an_unknown_request_or_twice_changes_nothing(engine_of: EngineOf, free: str) -> None:
    engine = engine_of(6, FULL_16)
    engine.admit("r", range(17))
    getattr(engine, free)("stranger")
    assert engine.tables("r") == ((1, 2),)
    engine.free("r")
    once = engine.snapshot
    getattr(engine, free)("r")
    assert engine.snapshot is once


def test_returning_when_nothing_waits_changes_nothing(engine_of: EngineOf) -> None:
    engine = engine_of(6, FULL_16)
    before = engine.snapshot
    engine.return_deferred()
    assert engine.snapshot is before


def test_null_entries_are_released_by_nobody(engine_of: EngineOf) -> None:
    engine = engine_of(8, SlidingWindow(16, 17))
    engine.admit("r", range(100), 64)
    engine.output("r")
    engine.ask("r", 16)
    assert engine.tables("r") == ((0, 0, 0, 4, 5),)
    engine.free("r")
    assert engine.queue == (6, 7, 3, 2, 1, 5, 4)


@pytest.mark.parametrize(("order", "queue"), [(FreeOrder.UNHASHED_FIRST, (4, 2, 3, 1)), (FreeOrder.LRU, (3, 4, 2, 1))])
def test_a_run_is_queued_as_one(order: FreeOrder, queue: tuple[int, ...]) -> None:
    """Of the run 4 2 1 block 1 is keyed; block 3 is free already."""
    pool = Pool((0, 1, 1, 0, 1), (-1, 9, -1, -1, -1), (3,), (1,))
    assert release_run(pool, Table((4, 2, 1)), order) == Pool((0,) * 5, pool.keys, queue, (1,))


def test_a_preempted_request_starts_again_and_hits_what_it_left_behind(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16)
    engine.admit("r", range(40))
    engine.output("r", 7)
    engine.preempt("r")
    request = engine.requests["r"]
    assert (request.status, request.num_computed_tokens, request.num_tokens) == (Status.PREEMPTED, 0, 41)
    assert (engine.num_free, engine.look_up("r")) == (10, Hit(32, ((1, 2),)))


def test_an_evicted_block_is_never_keyed_again_by_its_owner(engine_of: EngineOf) -> None:
    """Real vLLM: a later hit stops before it, and it is queued as a keyless block."""
    engine = engine_of(11, FULL_16)
    engine.admit("r", range(40))
    engine.evict(2, 9)
    assert (engine.keyed, engine.tables("r"), engine.counters("r")) == ((1,), ((1, 2, 3),), (2,))
    engine.commit("r", 40)
    engine.request("heir", range(40))
    assert (engine.keyed, engine.look_up("heir")) == ((1,), Hit(16, ((1,),)))
    engine.free("r")
    assert engine.queue == (3, 2, 4, 5, 6, 7, 8, 9, 10, 1)


def test_reset_is_refused_while_anything_is_held(engine_of: EngineOf) -> None:
    engine = engine_of(6, FULL_16)
    engine.admit("r", range(17))
    before = engine.snapshot
    assert not engine.reset()
    engine.defer_free("r")
    assert not engine.reset()
    assert engine.snapshot.pool is before.pool


def test_reset_empties_the_index_and_keeps_the_order_of_the_queue(engine_of: EngineOf) -> None:
    engine = engine_of(6, FULL_16)
    engine.admit("r", range(33))
    engine.free("r")
    assert (engine.queue, engine.keyed) == ((3, 4, 5, 2, 1), (1, 2))
    assert engine.reset()
    assert (engine.queue, engine.keyed, engine.snapshot.pool.keys) == ((3, 4, 5, 2, 1), (), (-1,) * 6)

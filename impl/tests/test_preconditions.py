from collections.abc import Callable
from typing import Any

import pytest

from slotproof.impl import AllocatorConfig, FullAttention, Request, RequestStatus, SlidingWindow, SlotAllocator


@pytest.fixture
def allocator() -> SlotAllocator:
    """Hybrid, block 2, tokens 0-7 of "cached" keyed and idle; "held" runs with 3 of its 3 tokens computed."""
    allocator = SlotAllocator(AllocatorConfig(30, (FullAttention(2), SlidingWindow(2, 3)), 20))
    cached = Request("cached", range(8), block_size=2)
    allocator.allocate_slots(cached, 8)
    allocator.free(cached)
    held = Request("held", [50, 51, 52], block_size=2)
    allocator.allocate_slots(held, 3)
    return allocator


def held_request() -> Request:
    request = Request("held", [50, 51, 52], block_size=2)
    request.num_computed_tokens = 3
    request.status = RequestStatus.RUNNING
    return request


HIT = ((1, 2, 3), (0, 0, 7))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_new_tokens": 0}, "nothing to allocate; give new, hit or external tokens, or do not call"),
        ({"num_new_tokens": -1}, "negative count among new -1, "),
        ({"num_lookahead_tokens": -1}, "negative count among new 1, hit 0, lookahead -1, "),
        ({"num_external_computed_tokens": -2}, "external -2, "),
        ({"num_new_computed_tokens": -2}, "hit -2, "),
        ({"reserved_blocks": -1}, "reserved -1, "),
        ({"num_new_tokens": 18}, "end at 21, past max_model_len 20; give fewer new tokens"),
        ({"num_new_computed_tokens": 2, "new_computed_blocks": ((1,), (5,))}, "already holds blocks; adopt them on"),
        ({"new_computed_blocks": ((1,), (5,))}, "already holds blocks; adopt them on"),
        ({"num_external_computed_tokens": 2}, "already holds blocks; adopt them on"),
    ],
)
def test_mistakes_on_a_running_request(
    allocator: SlotAllocator, snapshot: Callable[..., Any], arguments: dict[str, Any], message: str
) -> None:
    before = snapshot(allocator)
    for call in (allocator.allocate_slots, allocator.can_allocate):
        with pytest.raises(ValueError) as caught:
            call(held_request(), **{"num_new_tokens": 1, **arguments})
        assert str(caught.value).startswith("allocate_slots('held'): ")
        assert message in str(caught.value)
    assert snapshot(allocator) == before


@pytest.mark.parametrize(
    ("hit_tokens", "blocks", "message"),
    [
        (6, None, "needs 3 blocks in each of 2 groups, got [0, 0]; pass what get_computed_blocks returned"),
        (6, ((1, 2, 3),), "needs 3 blocks in each of 2 groups, got [3]"),
        (4, HIT, "needs 2 blocks in each of 2 groups, got [3, 3]"),
        (0, HIT, "needs 0 blocks in each of 2 groups, got [3, 3]"),
        (5, HIT, "hit of 5 tokens is no multiple of 2"),
        (6, ((1, 2, 4), (0, 0, 7)), "stale hit, block 4 of group 0 does not carry the key of position 2"),
        (6, ((1, 0, 3), (0, 0, 7)), "stale hit, block 0 of group 0 does not carry the key of position 1"),
        (6, ((1, 2, 3), (0, 0, 0)), "stale hit, block 0 of group 1 does not carry the key of position 2"),
        (6, ((1, 2, 3), (0, 1, 7)), "stale hit, block 1 of group 1 does not carry the key of position 1"),
        (6, ((1, 2, 3), (0, 0, 3)), "stale hit, block 3 of group 1 does not carry the key of position 2"),
        (6, ((1, 2, 99), (0, 0, 7)), "stale hit, block 99 of group 0 does not carry the key of position 2"),
        (10, ((1, 2, 3, 4, 9), (0, 0, 0, 0, 8)), "hit of 10 tokens in a request of 9"),
    ],
)
def test_bad_hits(
    allocator: SlotAllocator, snapshot: Callable[..., Any], hit_tokens: int, blocks: Any, message: str
) -> None:
    request = Request("new", range(9), block_size=2)
    before = snapshot(allocator)
    with pytest.raises(ValueError) as caught:
        allocator.allocate_slots(request, 1, num_new_computed_tokens=hit_tokens, new_computed_blocks=blocks)
    assert message in str(caught.value)
    assert snapshot(allocator) == before


def test_the_good_hit_is_accepted(allocator: SlotAllocator) -> None:
    request = Request("new", range(9), block_size=2)
    answer = allocator.allocate_slots(request, 3, num_new_computed_tokens=6, new_computed_blocks=HIT)
    assert answer == ((13, 14), (15, 16))
    assert allocator.block_table("new") == ((1, 2, 3, 13, 14), (0, 0, 7, 15, 16))


def test_a_hit_goes_stale_when_its_block_is_popped(allocator: SlotAllocator) -> None:
    request = Request("new", range(8), block_size=2)
    blocks, hit = allocator.get_computed_blocks(request)
    assert (blocks, hit) == (HIT, 6)
    drain = Request("drain", range(100, 119), block_size=2)
    assert allocator.allocate_slots(drain, 19) is not None
    with pytest.raises(ValueError, match=r"stale hit, block 2 of group 0 .* look up again right before the call"):
        allocator.allocate_slots(request, 2, num_new_computed_tokens=hit, new_computed_blocks=blocks)


def test_computed_tokens_without_slots_are_refused_by_name(allocator: SlotAllocator) -> None:
    request = Request("new", range(8), block_size=2)
    request.num_computed_tokens = 4
    with pytest.raises(ValueError, match="4 computed tokens but 0 slots; set num_computed_tokens to 0 after a free"):
        allocator.allocate_slots(request, 1)


def test_block_size_must_be_the_pools(allocator: SlotAllocator) -> None:
    with pytest.raises(ValueError, match="hashed in blocks of 4 tokens, the pool has 2"):
        allocator.allocate_slots(Request("new", range(8), block_size=4), 8)


def test_empty_hit_in_any_shape_is_no_hit(allocator: SlotAllocator) -> None:
    for request_id, blocks in (("a", None), ("b", ()), ("c", ((), ())), ("d", [[], []])):
        request = Request(request_id, [90, 91], block_size=2)
        assert allocator.allocate_slots(request, 1, new_computed_blocks=blocks) is not None
        assert allocator.cached_count(request_id) == (None, None)


def test_a_hit_straight_from_its_lookup_is_taken_and_an_outdated_one_is_not(allocator: SlotAllocator) -> None:
    """Taken without a look at its blocks; a key dropped since, or another request, makes it be looked at."""

    def call(request: Request, blocks: Any, hit: int) -> Any:
        return allocator.can_allocate(request, 1, num_new_computed_tokens=hit, new_computed_blocks=blocks)

    same, other = Request("same", range(9), block_size=2), Request("other", [9, *range(8)], block_size=2)
    blocks, hit = allocator.get_computed_blocks(same)
    assert (hit, call(same, blocks, hit)) == (8, True)
    for request, num_tokens, message in ((other, 8, "stale hit, block 1 "), (same, 6, "needs 3 blocks in each")):
        with pytest.raises(ValueError, match=message):
            call(request, blocks, num_tokens)
    allocator.evict_blocks([20])
    assert call(same, blocks, hit)
    allocator.evict_blocks([2])
    with pytest.raises(ValueError, match="stale hit, block 2 "):
        call(same, blocks, hit)


def test_a_hit_of_another_allocator_is_looked_at(allocator: SlotAllocator) -> None:
    request = Request("r", range(9), block_size=2)
    blocks, hit = allocator.get_computed_blocks(request)
    empty = SlotAllocator(AllocatorConfig(30, (FullAttention(2), SlidingWindow(2, 3)), 20))
    with pytest.raises(ValueError, match="stale hit"):
        empty.can_allocate(request, 1, num_new_computed_tokens=hit, new_computed_blocks=blocks)

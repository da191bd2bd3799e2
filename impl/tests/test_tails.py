"""Hits that end inside a block: what is offered, what it costs, and who holds the ends of a copy."""

from typing import Any

import pytest

from slotproof.impl import (
    AllocatorConfig,
    BlockRemoved,
    BlockStored,
    FullAttention,
    Request,
    RequestStatus,
    SlidingWindow,
    SlotAllocator,
)
from slotproof.impl.lookup import FoundBlocks

FULL_4 = FullAttention(4)


def request(name: str, tokens: Any, **options: Any) -> Request:
    return Request(name, tokens, block_size=4, hash_size=2, **options)


def allocator(num_blocks: int, *groups: FullAttention, **options: Any) -> SlotAllocator:
    return SlotAllocator(AllocatorConfig(num_blocks, groups or (FULL_4,), 100, hash_size=2, **options))


def with_a_donor(num_blocks: int = 10, **options: Any) -> tuple[SlotAllocator, Request]:
    """Blocks 1 (full) and 2 (3 tokens) are computed and offered."""
    made, donor = allocator(num_blocks, **options), request("donor", range(7))
    made.allocate_slots(donor, 7)
    made.cache_blocks(donor, 7)
    return made, donor


def admit(made: SlotAllocator, asking: Request, new: int = 1, **options: Any) -> Any:
    blocks, hit = made.get_computed_blocks(asking)
    return made.allocate_slots(asking, new, hit, blocks, **options)


def test_a_hit_ends_where_two_prompts_part() -> None:
    made, _ = with_a_donor()
    blocks, hit = made.get_computed_blocks(request("r", [0, 1, 2, 3, 4, 5, 8, 9]))
    assert isinstance(blocks, FoundBlocks)
    assert (hit, blocks, blocks.tails, blocks.tail_tokens) == (6, ((1,),), (2,), 2)
    blocks, hit = made.get_computed_blocks(request("s", [0, 1, 9]))
    assert isinstance(blocks, FoundBlocks)
    assert (hit, blocks, blocks.tails) == (2, ((),), (1,))


def test_parts_are_offered_once_they_are_computed() -> None:
    made, donor = allocator(10), request("donor", range(7))
    made.allocate_slots(donor, 7)
    assert made.get_computed_blocks(request("r", range(7)))[1] == 4
    made.cache_blocks(donor, 6)
    assert made.get_computed_blocks(request("r", range(7)))[1] == 6


def test_the_end_of_a_hit_is_copied_into_the_first_new_block() -> None:
    made, _ = with_a_donor()
    assert admit(made, request("r", [*range(6), 8, 9]), 2) == ((3,),)
    assert made.block_table("r") == ((1, 3),)
    assert (made.take_copies(), made.take_copies()) == ([(2, 3)], [])
    assert [made.ref_count(block) for block in (1, 2, 3)] == [2, 2, 2]


def test_both_ends_are_held_until_the_copy_is_done() -> None:
    made, donor = with_a_donor()
    asking = request("r", [*range(6), 8])
    admit(made, asking)
    made.free(asking)
    made.free(donor)
    assert [made.ref_count(block) for block in (1, 2, 3)] == [0, 1, 1]
    assert not made.reset_prefix_cache()
    assert made.release_copy()
    assert made.free_queue() == (3, 4, 5, 6, 7, 8, 9, 1, 2)
    assert not made.release_copy()


def test_a_copy_that_was_not_taken_before_it_ended_is_not_listed_later() -> None:
    made, _ = with_a_donor()
    admit(made, request("r", [*range(6), 8]))
    made.release_copy()
    admit(made, request("s", [*range(6), 8]))
    assert made.take_copies() == [(2, 4)]


@pytest.mark.parametrize("idle", [False, True])
def test_a_private_block_and_an_idle_source_are_charged(idle: bool) -> None:
    for reserved, answer in ((0, ((3,),)), (1, None)):
        made, donor = with_a_donor(4)
        if idle:
            made.free(donor)
        asking, state = request("r", [*range(6), 8]), made.free_queue()
        blocks, hit = made.get_computed_blocks(asking)
        assert made.can_allocate(asking, 1, hit, blocks, reserved_blocks=reserved) == (answer is not None)
        assert made.allocate_slots(asking, 1, hit, blocks, reserved_blocks=reserved) == answer
        if answer is None:
            assert (made.free_queue(), made.take_copies(), made.ref_count(2)) == (state, [], 0 if idle else 1)


def test_a_source_at_the_front_of_the_queue_is_not_popped() -> None:
    made, donor = with_a_donor(5)
    filler = request("filler", range(50, 58))
    made.allocate_slots(filler, 8)
    made.free(donor)
    made.free(filler)
    assert made.free_queue() == (2, 1, 4, 3)
    admit(made, request("r", [*range(6), 8]))
    assert (made.block_table("r"), made.take_copies()) == (((1, 4),), [(2, 4)])


def test_external_tokens_go_on_behind_the_copy() -> None:
    made, _ = with_a_donor()
    asking = request("r", [*range(6), *range(20, 30)])
    assert admit(made, asking, 3, num_external_computed_tokens=5) == ((5,),)
    assert (made.block_table("r"), made.take_copies()) == (((1, 3, 4, 5),), [(2, 3)])


def test_each_group_copies_for_itself() -> None:
    made, donor = allocator(13, FULL_4, FULL_4), request("donor", range(7))
    made.allocate_slots(donor, 7)
    made.cache_blocks(donor, 7)
    admit(made, request("r", [*range(6), 8]))
    assert (made.block_table("r"), made.take_copies()) == (((1, 5), (3, 6)), [(2, 5), (4, 6)])


def test_events_follow_the_key_of_a_block_from_part_to_full() -> None:
    made, asking = allocator(10, enable_events=True), request("r", range(10))
    made.allocate_slots(asking, 6)
    made.take_events()
    made.cache_blocks(asking, 6)
    part, asking.status, asking.num_computed_tokens = asking.parts_of(1, 2)[-1], RequestStatus.RUNNING, 6
    assert made.take_events() == [BlockStored((part,), asking.block_hashes[0], (4, 5), 2, 0)]
    made.allocate_slots(asking, 2)
    stored = BlockStored((asking.block_hashes[1],), asking.block_hashes[0], (4, 5, 6, 7), 4, 0)
    assert made.take_events() == [BlockRemoved(part, 0), stored]
    assert (2, (part, 0)) in made.offered_parts()


def test_a_stale_hit_is_refused() -> None:
    made, _ = with_a_donor()
    asking = request("r", [*range(6), 8])
    blocks, hit = made.get_computed_blocks(asking)
    made.evict_blocks([2])
    with pytest.raises(ValueError, match="stale hit, block 2 of group 0 no longer offers"):
        made.allocate_slots(asking, 1, hit, blocks)
    made.get_computed_blocks(asking)
    with pytest.raises(ValueError, match="hit ends 2 tokens into a block of 4; pass what get_computed_blocks returned"):
        made.allocate_slots(asking, 1, 6, ((1,),))


def test_a_hit_is_good_as_long_as_its_blocks_are() -> None:
    """Keys that went elsewhere in between only mean that the hit is looked at again."""
    made, _ = with_a_donor()
    other = request("other", range(20, 24))
    made.allocate_slots(other, 4)
    asking = request("r", [*range(6), 8])
    blocks, hit = made.get_computed_blocks(asking)
    made.evict_blocks([3])
    assert made.allocate_slots(asking, 1, hit, blocks) == ((4,),)


@pytest.mark.parametrize(
    ("size", "groups", "message"),
    [
        (3, (FULL_4,), "hash_size is 3; give a divisor of the block size 4"),
        (0, (FULL_4,), "hash_size is 0; give a divisor of the block size 4"),
        (2, (FULL_4, SlidingWindow(4, 6)), "hash_size is 2 with a SlidingWindow; hits end inside a block with"),
    ],
)
def test_a_granularity_that_cannot_be(size: int, groups: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AllocatorConfig(10, groups, 100, hash_size=size)
    with pytest.raises(ValueError, match="give a divisor of 4"):
        Request("r", range(4), block_size=4, hash_size=3)


def test_a_request_is_hashed_as_the_pool_is() -> None:
    made = allocator(10)
    with pytest.raises(ValueError, match="hashed at every 4 tokens, the pool at every 2"):
        made.allocate_slots(Request("r", range(4), block_size=4), 4)
    plain = SlotAllocator(AllocatorConfig(10, (FULL_4,), 100, hash_size=4))
    assert plain.allocate_slots(Request("r", range(4), block_size=4), 4) == ((1,),)
    assert (plain.take_copies(), plain.release_copy(), plain.offered_parts()) == ([], False, ())


def test_salts_extra_keys_and_lengths_make_different_parts() -> None:
    same = [request("a", range(7)), request("b", range(7), cache_salt="s"), request("c", range(7), extra_keys=("x",))]
    parts = [part for one in same for position in (0, 1) for part in one.parts_of(position, 4)]
    assert len({*parts, *(block for one in same for block in one.block_hashes)}) == 9

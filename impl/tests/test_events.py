from collections import Counter
from collections.abc import Callable
from typing import Any

from slotproof.impl import (
    AllBlocksCleared,
    AllocatorConfig,
    BlockRemoved,
    BlockStored,
    FullAttention,
    Request,
    SlidingWindow,
    SlotAllocator,
)


def test_pops_come_before_the_store_of_the_same_call() -> None:
    allocator = SlotAllocator(AllocatorConfig(4, (FullAttention(2),), 100, enable_events=True))
    first, second = Request("a", range(4), block_size=2), Request("b", range(10, 16), block_size=2)
    allocator.allocate_slots(first, 4)
    assert allocator.take_events() == [BlockStored(tuple(first.block_hashes), None, (0, 1, 2, 3), 2, 0)]
    allocator.free(first)
    assert allocator.take_events() == []
    allocator.allocate_slots(second, 6)
    assert allocator.take_events() == [
        BlockRemoved(first.block_hashes[1], 0),
        BlockRemoved(first.block_hashes[0], 0),
        BlockStored(tuple(second.block_hashes), None, tuple(range(10, 16)), 2, 0),
    ]


def test_later_store_names_its_parent_and_evict_and_reset_are_told() -> None:
    allocator = SlotAllocator(AllocatorConfig(9, (FullAttention(2),), 100, enable_events=True))
    request = Request("a", range(5), block_size=2)
    allocator.allocate_slots(request, 3)
    request.num_computed_tokens = 3
    allocator.take_events()
    allocator.allocate_slots(request, 2)
    assert allocator.take_events() == [BlockStored((request.block_hashes[1],), request.block_hashes[0], (2, 3), 2, 0)]
    allocator.evict_blocks([3, 2])
    assert allocator.take_events() == [BlockRemoved(request.block_hashes[1], 0)]
    allocator.free(request)
    assert allocator.reset_prefix_cache()
    assert allocator.take_events() == [AllBlocksCleared()]


def test_store_skips_null_entries_but_tells_their_tokens() -> None:
    allocator = SlotAllocator(AllocatorConfig(9, (SlidingWindow(2, 2),), 100, enable_events=True))
    request = Request("a", range(8), block_size=2)
    allocator.allocate_slots(request, 5, delay_cache_blocks=True)
    request.num_computed_tokens = 5
    allocator.allocate_slots(request, 3)
    assert allocator.block_table("a") == ((0, 0, 3, 2),)
    assert allocator.take_events() == [BlockStored(tuple(request.block_hashes[2:]), None, tuple(range(8)), 2, 0)]


def test_call_that_keys_only_nulls_tells_nothing() -> None:
    allocator = SlotAllocator(AllocatorConfig(9, (SlidingWindow(2, 2),), 100, enable_events=True))
    request = Request("a", range(8), block_size=2)
    allocator.allocate_slots(request, 5, delay_cache_blocks=True)
    request.num_computed_tokens = 5
    allocator.allocate_slots(request, 1, delay_cache_blocks=True)
    allocator.cache_blocks(request, 4)
    assert (allocator.take_events(), allocator.cached_count("a")) == ([], (2,))


def test_replayed_events_are_the_index(admit: Callable[..., Any]) -> None:
    groups = (FullAttention(2), SlidingWindow(2, 4))
    allocator = SlotAllocator(AllocatorConfig(14, groups, 100, enable_events=True))
    index = Counter[tuple[bytes, int]]()
    for number in range(300):
        request = Request(str(number), [number % 3, *range(number % 7)], block_size=2)
        admit(allocator, request)
        for event in allocator.take_events():
            if isinstance(event, BlockStored):
                index.update((block_hash, event.group) for block_hash in event.block_hashes)
            elif isinstance(event, BlockRemoved):
                index[event.block_hash, event.group] -= 1
        assert +index == Counter(allocator.cached_blocks().values())
        if number % 4:
            allocator.free(request)
    assert index.total() > 0


def test_off_by_default() -> None:
    allocator = SlotAllocator(AllocatorConfig(9, (FullAttention(2),), 100))
    allocator.allocate_slots(Request("a", range(4), block_size=2), 4)
    assert allocator.take_events() == []

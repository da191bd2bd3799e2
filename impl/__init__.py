"""The production allocator: host-side metadata in flat integers, standard library only.

Reading order: config -> groups -> request (hashing) -> free_queue, prefix_index -> pool (events) ->
tables -> lookup, preconditions -> tails (hits that end inside a block) -> allocator.
"""

from slotproof.impl.allocator import SlotAllocator
from slotproof.impl.config import AllocatorConfig
from slotproof.impl.events import AllBlocksCleared, BlockRemoved, BlockStored, KVEvent
from slotproof.impl.groups import FullAttention, SlidingWindow
from slotproof.impl.request import Request, RequestStatus

__all__ = [
    "AllBlocksCleared",
    "AllocatorConfig",
    "BlockRemoved",
    "BlockStored",
    "FullAttention",
    "KVEvent",
    "Request",
    "RequestStatus",
    "SlidingWindow",
    "SlotAllocator",
]

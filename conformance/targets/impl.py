"""Our own production allocator behind the adapter protocol."""

from collections.abc import Hashable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any

from slotproof.conformance.adapter import NO_HIT, BlockIds, Hit, Profile, RequestView, Strictness
from slotproof.impl import (
    AllBlocksCleared,
    AllocatorConfig,
    BlockStored,
    FullAttention,
    Request,
    RequestStatus,
    SlidingWindow,
    SlotAllocator,
)
from slotproof.impl.lookup import FoundBlocks
from slotproof.spec.config import Config
from slotproof.spec.groups import Group
from slotproof.spec.groups import SlidingWindow as SpecWindow

PROFILE = Profile(
    name="impl",
    version="0.1.0",
    strictness=Strictness.IDENTITY,
    group_kinds=("full", "window", "hybrid", "partial"),
    salts=True,
    unknown_free="ignored",
)


class ImplAdapter:
    """Keeps an engine-side request for each view, and grows it as the view grows."""

    profile = PROFILE
    allocator_type: type[SlotAllocator] = SlotAllocator

    def __init__(self) -> None:
        self._allocator: SlotAllocator
        self._block_size = 0
        self._hash_size: int | None = None
        self._requests: dict[str, Request] = {}

    def reset(self, config: Config) -> None:
        self._block_size, self._hash_size = config.block_size, config.hash_size
        self._requests = {}
        self._allocator = self.allocator_type(allocator_config(config, events=True))

    def get_computed_blocks(self, request: RequestView) -> Hit:
        blocks, num_tokens = self._allocator.get_computed_blocks(self._synced(request))
        return Hit(num_tokens, blocks, blocks, blocks.tails if isinstance(blocks, FoundBlocks) else ())

    def allocate_slots(
        self,
        request: RequestView,
        num_new_tokens: int,
        *,
        hit: Hit = NO_HIT,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,
        full_sequence_must_fit: bool = False,
        reserved_blocks: int = 0,
        has_scheduled_reqs: bool = True,
    ) -> BlockIds | None:
        return self._allocator.allocate_slots(
            self._synced(request),
            num_new_tokens,
            num_lookahead_tokens=num_lookahead_tokens,
            num_external_computed_tokens=num_external_computed_tokens,
            delay_cache_blocks=delay_cache_blocks,
            full_sequence_must_fit=full_sequence_must_fit,
            reserved_blocks=reserved_blocks,
            has_scheduled_reqs=has_scheduled_reqs,
            **_hit_arguments(hit),
        )

    def can_allocate(
        self,
        request: RequestView,
        num_new_tokens: int,
        *,
        hit: Hit = NO_HIT,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,
        full_sequence_must_fit: bool = False,
        reserved_blocks: int = 0,
        has_scheduled_reqs: bool = True,
    ) -> bool:
        return self._allocator.can_allocate(
            self._synced(request),
            num_new_tokens,
            num_lookahead_tokens=num_lookahead_tokens,
            num_external_computed_tokens=num_external_computed_tokens,
            delay_cache_blocks=delay_cache_blocks,
            full_sequence_must_fit=full_sequence_must_fit,
            reserved_blocks=reserved_blocks,
            has_scheduled_reqs=has_scheduled_reqs,
            **_hit_arguments(hit),
        )

    if find_spec("torch") is not None:

        def allocate_decode(
            self,
            requests: Sequence[RequestView],
            num_new_tokens: Sequence[int],
            *,
            num_lookahead_tokens: int = 0,
            reserved_blocks: int = 0,
        ) -> Sequence[BlockIds]:
            import torch

            rows = self._allocator.decode_rows([self._synced(request) for request in requests])
            new = torch.tensor(num_new_tokens, dtype=torch.int64)
            answer = self._allocator.allocate_decode(rows, new, num_lookahead_tokens, reserved_blocks)
            grown = dict(zip(answer.rows, answer.blocks, strict=True))
            nothing = ((),) * len(self._allocator.config.groups)
            return [grown.get(row, nothing) for row in range(answer.num_served)]

    def commit(self, request: RequestView, num_computed_tokens: int) -> None:
        self._allocator.cache_blocks(self._synced(request), num_computed_tokens)

    def free(self, request: RequestView) -> None:
        self._allocator.free(self._synced(request))

    def preempt(self, request: RequestView) -> None:
        self._allocator.preempt(self._synced(request))

    def defer_free(self, request: RequestView) -> None:
        self._allocator.defer_free(self._synced(request))

    def return_deferred(self) -> None:
        self._allocator.return_deferred()

    def take_copies(self) -> Sequence[tuple[int, int]]:
        return self._allocator.take_copies()

    def release_copy(self) -> None:
        self._allocator.release_copy()

    def partial_keys(self) -> Sequence[tuple[int, Hashable]]:
        return self._allocator.offered_parts()

    def evict(self, block_ids: Iterable[int]) -> None:
        self._allocator.evict_blocks(block_ids)

    def reset_prefix_cache(self) -> bool:
        return self._allocator.reset_prefix_cache()

    def block_table(self, request: RequestView) -> BlockIds:
        return self._allocator.block_table(request.request_id)

    def num_free_blocks(self) -> int:
        return self._allocator.num_free_blocks

    def ref_count(self, block_id: int) -> int:
        return self._allocator.ref_count(block_id)

    def free_queue(self) -> Sequence[int]:
        return self._allocator.free_queue()

    def cached_keys(self) -> Sequence[tuple[int, Hashable]]:
        keys = self._allocator.cached_blocks()
        return [(block, keys[block]) for block in self._allocator.index_order()]

    def cached_counts(self, request: RequestView) -> Sequence[int]:
        return [count or 0 for count in self._allocator.cached_count(request.request_id)]

    def snapshot(self) -> object:
        allocator = self._allocator
        return (
            allocator.free_queue(),
            tuple(allocator.ref_count(block) for block in range(allocator.config.num_blocks)),
            tuple(self.cached_keys()),
            self._allocator.offered_parts(),
            tuple((name, allocator.block_table(name), allocator.cached_count(name)) for name in self._requests),
        )

    def take_events(self) -> Sequence[tuple[str, Hashable]]:
        normal: list[tuple[str, Hashable]] = []
        for event in self._allocator.take_events():
            if isinstance(event, AllBlocksCleared):
                normal.append(("cleared", ""))
            elif isinstance(event, BlockStored):
                normal += [("stored", (block_hash, event.group)) for block_hash in event.block_hashes]
            else:
                normal.append(("removed", (event.block_hash, event.group)))
        return normal

    def _synced(self, view: RequestView) -> Request:
        request = self._requests.get(view.request_id)
        if request is None:
            request = self._requests[view.request_id] = Request(
                view.request_id,
                view.token_ids[: view.num_prompt_tokens],
                block_size=self._block_size,
                cache_salt=view.cache_salt,
                extra_keys=view.extra_keys,
                hash_size=self._hash_size,
            )
        if len(view.token_ids) > request.num_tokens:
            request.append(view.token_ids[request.num_tokens :])
        request.status = RequestStatus(view.status)
        request.num_computed_tokens = view.num_computed_tokens
        request.num_in_flight_tokens = view.num_in_flight_tokens
        return request


class BareImpl:
    """The allocator as an engine holds it, its events off."""

    name = "impl"
    version = PROFILE.version

    def __init__(self) -> None:
        self._block_size = 0

    def new_manager(self, config: Config) -> SlotAllocator:
        """An allocator with a new pool; the requests made from now on are hashed for it."""
        self._block_size = config.block_size
        return SlotAllocator(allocator_config(config, events=False))

    def new_request(self, request_id: str, token_ids: Sequence[int]) -> Request:
        """A waiting request, its full blocks hashed."""
        return Request(request_id, token_ids, block_size=self._block_size)

    def new_request_of_keys(self, request_id: str, num_tokens: int, keys: Sequence[int]) -> Request:
        """A waiting request; a number stands for each full block's prefix."""
        hashes = [key.to_bytes(32, "big") for key in keys]
        return Request(request_id, [0] * num_tokens, block_size=self._block_size, block_hashes=hashes)

    def num_cached(self, manager: SlotAllocator) -> int:
        """Blocks that carry a key."""
        return len(manager.cached_blocks())

    def set_running(self, request: Request, num_computed_tokens: int) -> None:
        """What a scheduler notes after an admission."""
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = num_computed_tokens

    def append(self, request: Request, token_ids: Sequence[int]) -> None:
        """Tokens were sampled."""
        request.append(token_ids)


def new_memory(num_blocks: int, device: str) -> Any:
    """KV memory of two layers: blocks of 16 tokens, 8 heads of 128 numbers in bf16. Needs torch."""
    from torch import bfloat16

    from slotproof.impl.memory import KVMemory, MemoryConfig

    return KVMemory(MemoryConfig(num_blocks, 16, (2,), 8, 128, bfloat16, device))


def allocator_config(config: Config, *, events: bool) -> AllocatorConfig:
    """The configuration in the allocator's own words."""
    return AllocatorConfig(
        num_blocks=config.num_blocks,
        groups=tuple(_group(group) for group in config.groups),
        max_model_len=config.max_model_len,
        max_in_flight_tokens=config.max_in_flight_tokens,
        watermark_blocks=config.watermark_blocks,
        enable_caching=config.caching,
        free_order=config.free_order.value,
        enable_events=events,
        hash_size=config.hash_size,
    )


def _group(group: Group) -> FullAttention | SlidingWindow:
    if isinstance(group, SpecWindow):
        return SlidingWindow(group.block_size, group.window)
    return FullAttention(group.block_size)


def _hit_arguments(hit: Hit) -> dict[str, Any]:
    found = hit.blocks if hit.handle is None else hit.handle
    return {"num_new_computed_tokens": hit.num_tokens, "new_computed_blocks": found} if hit.num_tokens else {}

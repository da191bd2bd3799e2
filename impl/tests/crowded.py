"""A pool that is nearly used up, with memory and tables on a device, and calls that must be refused."""

import hashlib
import random
from typing import Any

import torch

from slotproof.impl import AllocatorConfig, FullAttention, Request, RequestStatus, SlidingWindow, SlotAllocator
from slotproof.impl.memory import BlockTables, KVMemory, MemoryConfig

from .snapshot import plain

BLOCK_SIZE = 4

GROUPS = {
    "full": (FullAttention(BLOCK_SIZE),),
    "hybrid": (FullAttention(BLOCK_SIZE), SlidingWindow(BLOCK_SIZE, 6)),
}


class Crowded:
    """An allocator with memory and tables whose pool is nearly used up, and calls that it must refuse."""

    def __init__(self, seed: int, kind: str, device: str) -> None:
        self.rng, groups = random.Random(seed), GROUPS[kind]
        num_blocks = 24 * len(groups)
        self.allocator = SlotAllocator(AllocatorConfig(num_blocks, groups, 400, watermark_blocks=1))
        self.memory = KVMemory(MemoryConfig(num_blocks, BLOCK_SIZE, (2,) * len(groups), 2, 4, torch.bfloat16, device))
        self.tables = BlockTables(4, 40, len(groups), BLOCK_SIZE, device)
        generator = torch.Generator().manual_seed(seed)
        for tensor in self.memory.tensors:
            tensor.copy_(torch.randn(tensor.shape, generator=generator))
        self.running = [self.admitted(row) for row in range(3)]
        self.refused: list[tuple[Request, int, dict[str, Any]]] = [self.prompt() for _ in range(4)]
        self.refused += [self.step(request) for request in self.running]

    def admitted(self, row: int) -> Request:
        request = Request(f"running {row}", [self.rng.randrange(3) for _ in range(26)], block_size=BLOCK_SIZE)
        assert self.allocator.allocate_slots(request, 26) is not None
        request.status, request.num_computed_tokens = RequestStatus.RUNNING, 26
        self.tables.set_row(row, self.allocator.block_table(request.request_id))
        return request

    def prompt(self) -> tuple[Request, int, dict[str, Any]]:
        """A newcomer with or without a hit, too long for what is free; at stage 0 or at stage 2."""
        known = self.rng.choice(self.running).token_ids[: self.rng.choice([0, 9, 17])]
        tokens = [*known, *[9] * 200]
        request = Request(f"new {self.rng.random()}", tokens, block_size=BLOCK_SIZE)
        blocks, hit = self.allocator.get_computed_blocks(request)
        options = {
            "num_new_computed_tokens": hit,
            "new_computed_blocks": blocks,
            "full_sequence_must_fit": self.rng.random() < 0.5,
        }
        return request, len(tokens) - hit, options

    def step(self, request: Request) -> tuple[Request, int, dict[str, Any]]:
        """A running request that wants more than is free."""
        return request, 200, {"num_lookahead_tokens": self.rng.choice([0, 3])}

    def refuse(self, number: int) -> None:
        request, new, options = self.refused[number % len(self.refused)]
        assert self.allocator.allocate_slots(request, new, **options) is None

    def digest(self) -> str:
        """One hash over every field on the host and every bit on the device."""
        host = repr(plain(self.allocator)).encode()
        found = hashlib.sha256(host)
        for tensor in (*self.memory.tensors, *self.tables.tables):
            found.update(bytes(tensor.cpu().view(torch.uint8).flatten().tolist()))
        return found.hexdigest()

    def settled(self) -> None:
        """What stage 1 releases is released by the first refusal of each request."""
        for number in range(len(self.refused)):
            self.refuse(number)

    def storage(self) -> list[tuple[int, int]]:
        """Where each tensor lies and its size; a copy or a growth would change it."""
        return [(tensor.data_ptr(), tensor.nbytes) for tensor in (*self.memory.tensors, *self.tables.tables)]

"""Clearing and copying blocks of KV memory, beside the same device moving as many bytes that lie in one piece."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any

from slotproof.conformance.targets.impl import new_memory

SIZES = {"cpu": (1024, 128), "cuda": (16384, 4096)}
"""Blocks of the memory, and how many a call moves: what a large step does, or enough for the device to be busy."""

BLOCK_BYTES = 2 * 2 * 16 * 8 * 128 * 2
"""Two layers of keys and values, 16 tokens, 8 heads of 128 numbers in bf16."""


@dataclass(frozen=True, slots=True)
class Move:
    """What a worker does with blocks before a forward; `traffic` bytes are read or written for each byte of a block."""

    name: str
    what: str
    traffic: int

    def gigabytes_a_second(self, us_a_block: float) -> float:
        """The bandwidth that a time comes to."""
        return self.traffic * BLOCK_BYTES / us_a_block / 1e3


MOVES = (
    Move("clear-blocks", "clear scattered blocks", 1),
    Move("copy-blocks", "copy scattered blocks", 2),
)


class Memory:
    """Memory whose blocks are cleared and copied in no order."""

    def __init__(self) -> None:
        import torch

        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self._finish: Callable[[], object] = torch.cuda.synchronize
        self._clock = perf_counter
        if self.device == "cpu":
            # All of the work in this thread, so that its CPU time is all of the work's.
            torch.set_num_threads(1)
            self._finish = lambda: None
            self._clock = thread_time
        self.num_blocks, self.num_moved = SIZES[self.device]
        memory = self.memory = new_memory(self.num_blocks, self.device)
        first, second = slice(self.num_moved), slice(self.num_moved, 2 * self.num_moved)
        order = (torch.randperm(self.num_blocks - 1, generator=torch.Generator().manual_seed(0)) + 1).tolist()
        pairs, destinations = list(zip(order[first], order[second], strict=True)), order[second]
        pieces: list[tuple[Any, Any]] = [(tensor[first], tensor[second]) for tensor in memory.tensors]
        self._works: dict[tuple[str, bool], Callable[[], object]] = {
            ("clear-blocks", True): lambda: memory.clear_blocks(destinations),
            ("clear-blocks", False): lambda: [piece.zero_() for piece, _ in pieces],
            ("copy-blocks", True): lambda: memory.copy_blocks(pairs),
            ("copy-blocks", False): lambda: [piece.copy_(source) for piece, source in pieces],
        }

    def sample(self, move: Move, scattered: bool) -> float:
        """Seconds until the device is done."""
        work = self._works[move.name, scattered]
        self._finish()
        started = self._clock()
        work()
        self._finish()
        return self._clock() - started

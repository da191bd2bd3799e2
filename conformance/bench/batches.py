"""Decode steps of many rows: our batched call, and the single call row by row that everybody has."""

from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time
from typing import Any

from slotproof.conformance.bench.cases import time_steps
from slotproof.conformance.bench.world import BLOCK_SIZE, World

BLOCKS_A_ROW = 5

Step = Callable[[], float]
"""Carries out one decode step of every row; the seconds that its calls take."""


@dataclass(frozen=True, slots=True)
class Batch:
    """So many rows; `steps` steps make one value. In 16 every row fills a block and needs a new one, in 8 none does."""

    name: str
    what: str
    rows: int
    steps: int

    def fits(self, num_blocks: int) -> bool:
        """Whether a pool of this size can hold the rows."""
        return self.rows * BLOCKS_A_ROW < num_blocks


BATCHES = tuple(
    Batch(f"{name}-{rows}", what.format(rows=f"{rows:,}"), rows, steps)
    for rows in (64, 1024, 8192)
    for name, what, steps in (
        ("rows", "{rows} rows, no new block", 8),
        ("rows-mixed", "{rows} rows, one in 8 fills or needs a block", BLOCK_SIZE),
    )
)


def sample(world: World, batch: Batch, batched: bool) -> float:
    """Seconds that the steps of a batch take; its requests are freed afterwards."""
    phases = BLOCK_SIZE if batch.steps == BLOCK_SIZE else 1
    requests = [world.sampled(2 * BLOCK_SIZE + 4 + row % phases) for row in range(batch.rows)]
    step = _batched(world, requests) if batched else lambda: _one_by_one(world, requests)
    seconds = 0.0
    for number in range(batch.steps + 1):
        took = step()
        # A batch lives for thousands of steps; its first one finds everything cold.
        seconds += took if number else 0.0
        for request in requests:
            world.bare.append(request, [7])
    world.release(requests)
    return seconds


def _one_by_one(world: World, requests: list[Any]) -> float:
    seconds = time_steps(world, requests)
    for request in requests:
        request.num_computed_tokens += 1
    return seconds


def _batched(world: World, requests: list[Any]) -> Step:
    rows, allocate_decode = world.manager.decode_rows(requests), world.manager.allocate_decode

    def step() -> float:
        started = thread_time()
        allocate_decode(rows=rows, num_new_tokens=1, num_lookahead_tokens=0)
        seconds = thread_time() - started
        rows.advance(1)
        return seconds

    return step

"""What to verify, and how far to go."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from slotproof.conformance.deviations import Deviation
from slotproof.conformance.settings import Settings

CHUNK_STEPS = 1000
DEFAULT_STEPS = 240_000


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of the walk."""

    number: int
    settings: Settings
    steps: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What to verify and how far to go."""

    target: str
    settings: tuple[Settings, ...]
    seed: int = 0
    steps: int = DEFAULT_STEPS
    seconds: float | None = None
    law_ids: tuple[str, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    fail_fast: bool = False
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)

    def chunks(self) -> Iterator[Chunk]:
        """The walk, group settings taking turns."""
        for number in range(-(-self.steps // CHUNK_STEPS)):
            steps = min(CHUNK_STEPS, self.steps - number * CHUNK_STEPS)
            yield Chunk(number, self.settings[number % len(self.settings)], steps)

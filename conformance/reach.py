"""The reach table: which situations of `allocate_slots` a run has exercised, and how often."""

from collections import Counter
from enum import StrEnum
from itertools import product
from typing import NamedTuple

from slotproof.spec.admission import Call, Reason
from slotproof.spec.arithmetic import slots_needed
from slotproof.spec.config import Config
from slotproof.spec.lookup import Hit
from slotproof.spec.request import Status
from slotproof.spec.snapshot import Snapshot


class Outcome(StrEnum):
    """What was answered, and at which stage."""

    ACCEPTED = "accepted"
    WHOLE_PROMPT = Reason.WHOLE_PROMPT.value
    STEP = Reason.STEP.value


class HitKind(StrEnum):
    """Whether the blocks of the hit stood in the free queue."""

    NONE = "none"
    HELD = "held"
    IDLE = "idle"
    MIXED = "mixed"


class Boundary(StrEnum):
    """Where the new and lookahead tokens end, seen from the block in which they start."""

    INSIDE = "inside"
    FILLS = "fills"
    CROSSES = "crosses"


class Cell(NamedTuple):
    """One situation."""

    outcome: Outcome
    status: Status
    hit: HitKind
    lookahead: bool
    boundary: Boundary


CELLS: tuple[Cell, ...] = tuple(
    Cell(*situation) for situation in product(Outcome, Status, HitKind, (False, True), Boundary)
)


def infeasible(cell: Cell) -> str | None:
    """The precondition that excludes the cell, or None."""
    if cell.status == Status.RUNNING and cell.hit != HitKind.NONE:
        return "adopt-before-holding"
    return None


def cell_of(before: Snapshot, call: Call, outcome: Outcome) -> Cell:
    """The situation of one call."""
    lookahead = call.num_lookahead_tokens
    boundary = boundary_of(before.config, call.num_computed_tokens, call.num_new_tokens + lookahead)
    return Cell(outcome, call.request.status, hit_kind(before, call.hit), lookahead > 0, boundary)


def boundary_of(config: Config, start: int, num_slots: int) -> Boundary:
    """Where `num_slots` tokens behind the first `start` ones end."""
    end = slots_needed(start, num_slots, 0, config.max_model_len)
    fills = (start // config.block_size + 1) * config.block_size
    return Boundary.INSIDE if end < fills else Boundary.FILLS if end == fills else Boundary.CROSSES


def hit_kind(before: Snapshot, hit: Hit) -> HitKind:
    """Whether the hit's blocks are held by others, idle, or some of each."""
    if hit.num_tokens == 0:
        return HitKind.NONE
    named = (*(block for blocks in hit.blocks for block in blocks if block), *hit.tails)
    idle = {before.pool.ref(block) == 0 for block in named}
    if not idle:
        return HitKind.NONE
    return HitKind.MIXED if len(idle) == 2 else HitKind.IDLE if idle.pop() else HitKind.HELD


Reach = Counter[Cell]

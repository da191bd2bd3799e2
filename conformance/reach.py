"""The reach table: which situations of `allocate_slots` a run has exercised, and how often."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from slotproof.spec.admission import Call, Reason
from slotproof.spec.arithmetic import slots_needed
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


@dataclass(frozen=True, slots=True)
class Cell:
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


def cells_of(before: Snapshot, call: Call) -> dict[Outcome, Cell]:
    """The situation of one call, by what may be answered."""
    bs = before.config.block_size
    start = call.num_computed_tokens
    end = slots_needed(start, call.num_new_tokens, call.num_lookahead_tokens, before.config.max_model_len)
    fills = (start // bs + 1) * bs
    boundary = Boundary.INSIDE if end < fills else Boundary.FILLS if end == fills else Boundary.CROSSES
    situation = call.request.status, hit_kind(before, call), call.num_lookahead_tokens > 0, boundary
    return {outcome: Cell(outcome, *situation) for outcome in Outcome}


def hit_kind(before: Snapshot, call: Call) -> HitKind:
    """Whether the hit's blocks are held by others, idle, or some of each."""
    idle = {before.pool.ref(block) == 0 for blocks in call.hit.blocks for block in blocks if block}
    if not idle:
        return HitKind.NONE
    return HitKind.MIXED if len(idle) == 2 else HitKind.IDLE if idle.pop() else HitKind.HELD


Reach = Counter[Cell]

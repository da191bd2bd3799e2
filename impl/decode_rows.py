"""Running requests as the rows of one batch: what a decode step of thousands of them looks at.

Needs torch, for two columns of int64 on the CPU. One comparison finds the few rows that pop a block or key one; Python
touches only those.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slotproof.impl.request import Request, RequestStatus
from slotproof.impl.tables import RequestTables

Blocks = tuple[tuple[int, ...], ...]

NewTokens = int | Tensor
"""Tokens to compute: the same number for every row, or int64 [rows]."""


@dataclass(frozen=True, slots=True)
class DecodeBlocks:
    """The answer to a batched decode step.

    num_served: the rows before the first that is refused; all of them, if none is.
    rows: those of them that got blocks, in order.
    blocks: what `allocate_slots` would have answered for each of these.
    """

    num_served: int
    rows: list[int]
    blocks: list[Blocks]


class DecodeRows:
    """Requests that are decoded together; made by `SlotAllocator.decode_rows`.

    num_computed: int64 [rows], `Request.num_computed_tokens` of each row. The engine advances it; the field of a
        request that is due is brought up to date, the others' are left alone.

    `Request.append` goes on as ever. When a request of the batch is freed, the rows are made anew.
    """

    __slots__ = ("_quiet_until", "_reach", "_threshold", "num_closed", "num_computed", "requests", "tables")

    def __init__(self, requests: Sequence[Request], tables: Sequence[RequestTables], num_closed: int) -> None:
        self.requests = list(requests)
        self.tables = list(tables)
        self.num_closed = num_closed
        self.num_computed = torch.tensor([request.num_computed_tokens for request in requests], dtype=torch.int64)
        self._quiet_until = torch.tensor([table.quiet_until for table in tables], dtype=torch.int64)
        self._reach = 0
        self._threshold = self._quiet_until

    def __len__(self) -> int:
        return len(self.requests)

    def due(self, num_new_tokens: NewTokens, num_lookahead_tokens: int) -> list[int]:
        """The rows, in order, whose call would change something."""
        if isinstance(num_new_tokens, Tensor):
            threshold = self._quiet_until - num_new_tokens - num_lookahead_tokens
        else:
            threshold = self._threshold_for(num_new_tokens + num_lookahead_tokens)
        return (self.num_computed > threshold).nonzero().flatten().tolist()

    def _threshold_for(self, reach: int) -> Tensor:
        """Computed tokens up to which rows are quiet; kept, because steps mostly reach equally far."""
        if reach != self._reach:
            self._reach, self._threshold = reach, self._quiet_until - reach
        return self._threshold

    def settle(self, rows: list[int]) -> None:
        """Takes over how long the tables of these rows will be quiet now."""
        if rows:
            at = torch.tensor(rows)
            self._quiet_until[at] = torch.tensor([self.tables[row].quiet_until for row in rows])
            self._threshold = self._quiet_until - self._reach


def check_rows(requests: Sequence[Request]) -> None:
    """Raises `ValueError` unless all are running and none is named twice."""
    seen: set[str] = set()
    for request in requests:
        if request.request_id in seen:
            raise ValueError(f"decode_rows: request {request.request_id!r} is named twice; give each request one row")
        seen.add(request.request_id)
        if request.status is not RequestStatus.RUNNING:
            raise ValueError(
                f"decode_rows: request {request.request_id!r} is {request.status.value}; "
                "only running requests are decoded together"
            )

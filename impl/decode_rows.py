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

    `advance` counts computed tokens for all rows; `Request.num_computed_tokens` is brought up to date only when a row
    is due. `Request.append` goes on as ever. When a request of the batch is freed, the rows are made anew.
    """

    __slots__ = ("_computed", "_quiet_until", "_slack", "num_closed", "requests", "tables")

    def __init__(self, requests: Sequence[Request], tables: Sequence[RequestTables], num_closed: int) -> None:
        self.requests = list(requests)
        self.tables = list(tables)
        self.num_closed = num_closed
        self._computed = torch.tensor([request.num_computed_tokens for request in requests], dtype=torch.int64)
        self._quiet_until = torch.tensor([table.quiet_until for table in tables], dtype=torch.int64)
        self._slack = 0

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def num_computed(self) -> Tensor:
        """Computed tokens, int64 [rows]; a copy."""
        return self._computed.clone()

    def advance(self, num_tokens: NewTokens) -> None:
        """Counts tokens as computed, for every row or, as int64 [rows], for each; without rejected drafts."""
        self._computed += num_tokens
        self._slack -= num_tokens if isinstance(num_tokens, int) else int(num_tokens.max())

    def due(self, num_new_tokens: NewTokens, num_lookahead_tokens: int) -> tuple[list[int], list[int]]:
        """The rows, in order, whose call would change something, and their computed tokens."""
        reach = num_new_tokens + num_lookahead_tokens
        if isinstance(reach, int) and reach <= self._slack:
            return [], []
        room = self._quiet_until - self._computed
        due = (room < reach).nonzero().flatten()
        if not len(due):
            self._slack = int(room.min()) if len(room) else 0
            return [], []
        self._slack = 0
        return due.tolist(), self._computed[due].tolist()

    def settle(self, rows: list[int]) -> None:
        """Takes over how long the tables of these rows will be quiet now."""
        if rows:
            self._quiet_until[torch.tensor(rows)] = torch.tensor([self.tables[row].quiet_until for row in rows])


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

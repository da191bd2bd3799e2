"""The specification on the linear backend as a server of workloads: its own source, O(1) a step."""

from collections.abc import Sequence
from typing import Any

from slotproof.conformance.linear import LinearPool, linear_snapshot
from slotproof.spec.admission import Allocation, allocate_slots
from slotproof.spec.config import Config
from slotproof.spec.lookup import Hit, get_computed_blocks
from slotproof.spec.pool import NO_KEY
from slotproof.spec.release import free
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Snapshot

BlockIds = tuple[tuple[int, ...], ...]


class LinearManager:
    """Keeps one snapshot and replaces it by what each operation returns."""

    def __init__(self, config: Config) -> None:
        self.snapshot: Snapshot = linear_snapshot(config)

    def get_computed_blocks(self, request: Request) -> tuple[BlockIds, int]:
        """The hit's blocks and tokens."""
        hit = get_computed_blocks(self.snapshot, request)
        return hit.blocks, hit.num_tokens

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        num_new_computed_tokens: int = 0,
        new_computed_blocks: BlockIds | None = None,
        full_sequence_must_fit: bool = False,
    ) -> BlockIds | None:
        """The parameters that a workload needs."""
        hit = None if new_computed_blocks is None else Hit(num_new_computed_tokens, new_computed_blocks)
        answer = allocate_slots(
            self.snapshot, request, num_new_tokens, hit=hit, full_sequence_must_fit=full_sequence_must_fit
        )
        self.snapshot = answer.snapshot
        return answer.new_blocks if isinstance(answer, Allocation) else None

    def free(self, request: Request) -> None:
        """The request ended."""
        self.snapshot = free(self.snapshot, request.request_id)


class BareReference:
    """The specification without an adapter."""

    name = "reference"
    version = "linear backend"

    def new_manager(self, config: Config) -> LinearManager:
        """A fresh snapshot."""
        return LinearManager(config)

    def new_request_of_keys(self, request_id: str, num_tokens: int, keys: Sequence[int]) -> Request:
        """A waiting request; a number stands for each full block's prefix."""
        return Request(request_id, (0,) * num_tokens, tuple(keys), num_tokens)

    def num_cached(self, manager: LinearManager) -> int:
        """Blocks that carry a key."""
        pool: Any = manager.snapshot.pool
        assert isinstance(pool, LinearPool)
        return sum(key != NO_KEY for key in pool.keys)

from collections.abc import Callable
from typing import Any

import pytest

from slotproof.impl import Request, RequestStatus, SlotAllocator

from .snapshot import plain


@pytest.fixture
def snapshot() -> Callable[[SlotAllocator], Any]:
    return plain


@pytest.fixture
def admit() -> Callable[..., Any]:
    """Looks a request up, allocates `new` tokens (default: the rest) and, if admitted, advances and runs it."""

    def call(allocator: SlotAllocator, request: Request, new: int | None = None, **options: Any) -> Any:
        blocks, hit = allocator.get_computed_blocks(request)
        new = request.num_tokens - hit if new is None else new
        answer = allocator.allocate_slots(
            request, new, num_new_computed_tokens=hit, new_computed_blocks=blocks, **options
        )
        if answer is not None:
            request.num_computed_tokens = hit + new
            request.status = RequestStatus.RUNNING
        return answer

    return call

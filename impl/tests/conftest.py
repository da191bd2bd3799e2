from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from slotproof.impl import Request, RequestStatus, SlotAllocator


def _plain(value: Any) -> Any:
    """Every field of an allocator, all the way down, as comparable values; dictionaries keep their order."""
    if isinstance(value, dict):
        return [(key, _plain(entry)) for key, entry in value.items()]
    if isinstance(value, list | tuple | deque):
        return [_plain(entry) for entry in value]
    if hasattr(type(value), "__slots__") and not hasattr(type(value), "__dataclass_fields__"):
        return [(name, _plain(getattr(value, name))) for name in type(value).__slots__]
    return value


@pytest.fixture
def snapshot() -> Callable[[SlotAllocator], Any]:
    return _plain


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

"""All of an allocator as comparable values."""

from collections import deque
from typing import Any


def plain(value: Any) -> Any:
    """Every field of an allocator, all the way down, as comparable values; dictionaries keep their order."""
    if isinstance(value, dict):
        return [(key, plain(entry)) for key, entry in value.items()]
    if isinstance(value, list | tuple | deque):
        return [plain(entry) for entry in value]
    if hasattr(type(value), "__slots__") and not hasattr(type(value), "__dataclass_fields__"):
        return [(name, plain(getattr(value, name))) for name in type(value).__slots__]
    return value

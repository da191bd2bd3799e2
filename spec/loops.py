"""The two loops of the specification. The proofs replace them by the induction rule, so no other loop may touch a
pool.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

State = TypeVar("State")
Item = TypeVar("Item")


def repeat(count: int, step: Callable[[int, State], State], state: State) -> State:
    """Fold `step(index, state)` over the indices 0 … count - 1; `count` is not negative."""
    for index in range(count):
        state = step(index, state)
    return state


def foreach(items: Iterable[Item], step: Callable[[Item, State], State], state: State) -> State:
    """Fold `step(item, state)` over the items in order."""
    for item in items:
        state = step(item, state)
    return state

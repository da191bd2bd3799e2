"""A pool of few blocks: the queue is what it is on this path, reference counts and keys are any numbers."""

from dataclasses import dataclass, replace
from operator import index
from typing import Any

import z3

from slotproof.proofs.engine import CannotJoin, either, term_of
from slotproof.spec.pool import NO_BLOCK


class PoolMisused(Exception):
    """The pool was asked for something that it cannot do."""


@dataclass(frozen=True, slots=True)
class BoundedPool:
    """The pool's interface over tuples of symbolic integers; block ids are concrete, or run one by one.

    Of several blocks with one key the one with the least id got it first. That loses nothing of a lookup, because ids
    are names; how the order changes when keys are given and taken is not modelled.
    """

    refs: tuple[Any, ...]
    keys: tuple[Any, ...]
    queue: tuple[int, ...]

    @property
    def num_blocks(self) -> int:
        """All blocks, the null block included."""
        return len(self.refs)

    def ref(self, block: Any) -> Any:
        """The block's reference count."""
        return self.refs[block]

    def key_of(self, block: Any) -> Any:
        """The block's key, or NO_KEY."""
        return self.keys[block]

    def num_free(self) -> int:
        """Blocks in the free queue."""
        return len(self.queue)

    def head(self) -> int:
        """The block popped next."""
        if not self.queue:
            raise PoolMisused("a block is popped from an empty queue")
        return self.queue[0]

    def block_of(self, key: Any) -> Any:
        """The block offered for a key, or NO_BLOCK."""
        offered: Any = NO_BLOCK
        for block in reversed(range(1, self.num_blocks)):
            offered = either(term_of(self.keys[block] == key), block, offered)
        return offered

    def with_ref(self, block: Any, ref: Any) -> "BoundedPool":
        """The pool with another reference count."""
        return replace(self, refs=with_item(self.refs, index(block), ref))

    def with_key(self, block: Any, key: Any) -> "BoundedPool":
        """The pool with another key."""
        return replace(self, keys=with_item(self.keys, index(block), key))

    def unqueue(self, block: Any) -> "BoundedPool":
        """The pool with a queued block taken out."""
        if index(block) not in self.queue:
            raise PoolMisused(f"block {index(block)} is taken out of a queue that it is not in")
        return replace(self, queue=tuple(other for other in self.queue if other != index(block)))

    def enqueue_front(self, block: Any) -> "BoundedPool":
        """The pool with the block before all others."""
        return replace(self, queue=(self._not_queued(block), *self.queue))

    def enqueue_back(self, block: Any) -> "BoundedPool":
        """The pool with the block behind all others."""
        return replace(self, queue=(*self.queue, self._not_queued(block)))

    def _not_queued(self, block: Any) -> int:
        if index(block) in self.queue:
            raise PoolMisused(f"block {index(block)} is put into a queue that it is in")
        return index(block)

    def joined_with(self, condition: z3.BoolRef, other: "BoundedPool") -> "BoundedPool":
        """This pool where the condition holds, else the other, if the same blocks are queued in one order."""
        if self.queue != other.queue:
            raise CannotJoin
        return BoundedPool(
            either(condition, self.refs, other.refs), either(condition, self.keys, other.keys), self.queue
        )


def with_item(items: tuple[Any, ...], place: int, item: Any) -> tuple[Any, ...]:
    """The tuple with one item replaced."""
    return (*items[:place], item, *items[place + 1 :])

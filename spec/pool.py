"""The block pool: its interface, its tuple backend, and the steps that change one block at a time.

Nothing else in the specification touches a pool, so every backend of `Pool` (tuples here, arrays in the proofs, lists
in place in the suite) runs the same source.
"""

from dataclasses import dataclass
from typing import Self

NULL_BLOCK = 0
"""Stands for a block that is not there; never queued, keyed, counted or handed out (POOL-3)."""

NO_KEY = -1
NO_BLOCK = -1


@dataclass(frozen=True, slots=True)
class Pool:
    """Reference counts (POOL-2), keys, the free queue (POOL-1) and the index, as tuples.

    `refs` and `keys` are indexed by block id; `queue` holds the free blocks, the one popped next first; `keyed` holds
    the keyed blocks in the order in which they got their keys, which is the order in which duplicates of one key are
    offered.
    """

    refs: tuple[int, ...]
    keys: tuple[int, ...]
    queue: tuple[int, ...]
    keyed: tuple[int, ...]

    @classmethod
    def fresh(cls, num_blocks: int) -> Self:
        """A pool in which every block but the null block is free and keyless."""
        return cls((0,) * num_blocks, (NO_KEY,) * num_blocks, tuple(range(1, num_blocks)), ())

    @property
    def num_blocks(self) -> int:
        """All blocks, the null block included."""
        return len(self.refs)

    def ref(self, block: int) -> int:
        """The block's reference count."""
        return self.refs[block]

    def key_of(self, block: int) -> int:
        """The block's key, or NO_KEY."""
        return self.keys[block]

    def num_free(self) -> int:
        """Blocks in the free queue."""
        return len(self.queue)

    def head(self) -> int:
        """The block popped next; the queue must not be empty."""
        return self.queue[0]

    def block_of(self, key: int) -> int:
        """The block offered for a key, of several the one keyed first; or NO_BLOCK."""
        return next((block for block in self.keyed if self.keys[block] == key), NO_BLOCK)

    def with_ref(self, block: int, ref: int) -> "Pool":
        """The pool with another reference count."""
        return Pool(_replaced(self.refs, block, ref), self.keys, self.queue, self.keyed)

    def with_key(self, block: int, key: int) -> "Pool":
        """The pool with the block offered for `key`, or for nothing if that is NO_KEY."""
        others = _without(self.keyed, block) if self.keys[block] != NO_KEY else self.keyed
        keyed = others if key == NO_KEY else (*others, block)
        return Pool(self.refs, _replaced(self.keys, block, key), self.queue, keyed)

    def unqueue(self, block: int) -> "Pool":
        """The pool with a queued block taken out of the queue, from wherever it stands."""
        return Pool(self.refs, self.keys, _without(self.queue, block), self.keyed)

    def enqueue_front(self, block: int) -> "Pool":
        """The pool with the block to be popped next."""
        return Pool(self.refs, self.keys, (block, *self.queue), self.keyed)

    def enqueue_back(self, block: int) -> "Pool":
        """The pool with the block to be popped last."""
        return Pool(self.refs, self.keys, (*self.queue, block), self.keyed)


def pop_head(pool: Pool) -> tuple[Pool, int]:
    """Hand out the head of the queue: it loses its key and gets its first reference (COMMIT-2, INDEX-1)."""
    block = pool.head()
    return evict_block(block, pool.unqueue(block).with_ref(block, 1)), block


def pin_block(block: int, pool: Pool) -> Pool:
    """Add a reference to a hit; an idle block leaves the queue (COMMIT-1). The null block needs none."""
    if block == NULL_BLOCK:
        return pool
    if pool.ref(block) == 0:
        pool = pool.unqueue(block)
    return pool.with_ref(block, pool.ref(block) + 1)


def drop_reference(block: int, pool: Pool) -> Pool:
    """Take one reference away; a block that reaches 0 must be queued next (FREE-1)."""
    if block == NULL_BLOCK:
        return pool
    return pool.with_ref(block, pool.ref(block) - 1)


def enqueue_keyless(block: int, pool: Pool) -> Pool:
    """Queue a released keyless block to be popped next: nobody can hit it (FREE-1)."""
    if block == NULL_BLOCK or pool.ref(block) > 0 or pool.key_of(block) != NO_KEY:
        return pool
    return pool.enqueue_front(block)


def enqueue_keyed(block: int, pool: Pool) -> Pool:
    """Queue a released keyed block to be popped last, so that its prefix stays hittable (FREE-1)."""
    if block == NULL_BLOCK or pool.ref(block) > 0 or pool.key_of(block) == NO_KEY:
        return pool
    return pool.enqueue_back(block)


def enqueue_released(block: int, pool: Pool) -> Pool:
    """Queue a released block to be popped last, keyed or not: the `lru` order (FREE-1)."""
    if block == NULL_BLOCK or pool.ref(block) > 0:
        return pool
    return pool.enqueue_back(block)


def key_block(block: int, key: int, pool: Pool) -> Pool:
    """Offer a full block of finalized tokens for hits (HASH-2). The null block is skipped."""
    if block == NULL_BLOCK:
        return pool
    return pool.with_key(block, key)


def evict_block(block: int, pool: Pool) -> Pool:
    """Take a block's key away; references and queue stay (EVICT-1)."""
    if pool.key_of(block) == NO_KEY:
        return pool
    return pool.with_key(block, NO_KEY)


def _replaced(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _without(values: tuple[int, ...], value: int) -> tuple[int, ...]:
    index = values.index(value)
    return values[:index] + values[index + 1 :]

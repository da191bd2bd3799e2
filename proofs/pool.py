"""A pool of any number of blocks, as Z3 arrays, behind the interface through which the specification touches a pool.

The queue's order is a stamp a block: who is queued at the front gets a stamp below all others, at the back above all
others, and the head is a queued block with the least one (`is_least` states that for the blocks a theorem names). The
number of free blocks is a counter that moves with the queue; what it counts makes a head exist when it is above 0. What
the interface presumes (a queue that is not empty, a queued block taken out, an unqueued one put in) is an obligation
here, so "pops never underflow" comes out of running the specification.

A state is well formed if every block is. A theorem states that for the blocks it names, one of which is arbitrary, so
no statement needs a quantifier. A witness or a counterexample is a pool of four usable blocks, all of them well formed.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import z3

from slotproof.proofs.engine import Bool, Int, current_run, term_of
from slotproof.spec.pool import NO_KEY, NULL_BLOCK, Pool

WITNESS_BLOCKS = 5
"""Blocks, the null block included, of the pools that are shown."""

MOST = 4
"""The highest reference count and key in them."""


@dataclass(frozen=True, slots=True)
class SymbolicPool:
    """Any pool; no two states have one `version`, so their heads are different unknowns."""

    size: Any
    refs: Any
    keys: Any
    queued: Any
    stamps: Any
    front: Any
    back: Any
    free: Any
    version: str = field(default_factory=lambda: current_run().fresh_name())

    @classmethod
    def arbitrary(cls, size: Any = None, mark: str = "") -> "SymbolicPool":
        """A pool about which nothing is known; `mark` tells its unknowns from those of another one."""
        refs, keys, stamps = (
            z3.Array(f"{name}{mark}", z3.IntSort(), z3.IntSort()) for name in ("refs", "keys", "stamps")
        )
        queued = z3.Array(f"queued{mark}", z3.IntSort(), z3.BoolSort())
        front, back, free = (z3.Int(f"{name}{mark}") for name in ("front", "back", "free blocks"))
        return cls(z3.Int("pool size") if size is None else size, refs, keys, queued, stamps, front, back, free)

    def ref(self, block: Any) -> Int:
        """The block's reference count."""
        return Int(z3.Select(self.refs, term_of(block)))

    def key_of(self, block: Any) -> Int:
        """The block's key, or NO_KEY."""
        return Int(z3.Select(self.keys, term_of(block)))

    def num_free(self) -> Int:
        """Blocks in the free queue."""
        return Int(self.free)

    def head(self) -> Int:
        """A queued block; that its stamp is the least is stated by `is_least`."""
        run = current_run()
        run.oblige(self.free > 0, "the queue is not empty when its head is asked for")
        block = z3.Int(f"head of state {self.version}")
        run.know(block > 0, block < self.size, z3.Select(self.queued, block))
        run.mention(block)
        return Int(block)

    def with_ref(self, block: Any, ref: Any) -> "SymbolicPool":
        """The pool with another reference count."""
        return self._next(refs=z3.Store(self.refs, term_of(block), term_of(ref)))

    def with_key(self, block: Any, key: Any) -> "SymbolicPool":
        """The pool with another key."""
        return self._next(keys=z3.Store(self.keys, term_of(block), term_of(key)))

    def unqueue(self, block: Any) -> "SymbolicPool":
        """The pool with a queued block taken out."""
        current_run().oblige(z3.Select(self.queued, term_of(block)), "a block that is taken out of the queue is in it")
        return self._next(queued=z3.Store(self.queued, term_of(block), False), free=self.free - 1)

    def enqueue_front(self, block: Any) -> "SymbolicPool":
        """The pool with the block before all others."""
        return self._enqueued(block, self.front, front=self.front - 1)

    def enqueue_back(self, block: Any) -> "SymbolicPool":
        """The pool with the block behind all others."""
        return self._enqueued(block, self.back, back=self.back + 1)

    def _enqueued(self, block: Any, stamp: Any, **ends: Any) -> "SymbolicPool":
        term = term_of(block)
        current_run().oblige(z3.Not(z3.Select(self.queued, term)), "a block that is put into the queue is not in it")
        queued, stamps = z3.Store(self.queued, term, True), z3.Store(self.stamps, term, stamp)
        return self._next(queued=queued, stamps=stamps, free=self.free + 1, **ends)

    def joined_with(self, condition: Any, other: "SymbolicPool") -> "SymbolicPool":
        """This pool where the condition holds, else the other."""
        parts = [part.name for part in fields(self) if part.name != "version"]
        return self._next(**{part: z3.If(condition, getattr(self, part), getattr(other, part)) for part in parts})

    def _next(self, **parts: Any) -> "SymbolicPool":
        return replace(self, version=current_run().fresh_name(), **parts)


AnyPool = SymbolicPool | Pool


def is_queued(pool: AnyPool, block: Any) -> Any:
    """Whether the block is in the free queue."""
    if isinstance(pool, SymbolicPool):
        return Bool(z3.Select(pool.queued, term_of(block)))
    return block in pool.queue


def stands_before(pool: AnyPool, one: Any, other: Any) -> Any:
    """Whether one queued block is popped before another."""
    if isinstance(pool, SymbolicPool):
        return Bool(z3.Select(pool.stamps, term_of(one)) < z3.Select(pool.stamps, term_of(other)))
    return pool.queue.index(one) < pool.queue.index(other)


def is_least(pool: AnyPool, head: Any, other: Any) -> Any:
    """What makes a block the head: no other queued block stands before it."""
    if isinstance(pool, SymbolicPool):
        least = z3.Select(pool.stamps, term_of(head)) <= z3.Select(pool.stamps, term_of(other))
        return Bool(z3.Implies(z3.Select(pool.queued, term_of(other)), least))
    return pool.queue[0] == head


def is_well_formed(pool: AnyPool, block: Any) -> Any:
    """POOL-1 for one block, and a stamp between the ends if it is queued."""
    if not isinstance(pool, SymbolicPool):
        return pool.ref(block) >= 0 and (pool.ref(block) == 0) == (pool.queue.count(block) == 1)
    ref, queued = z3.Select(pool.refs, term_of(block)), z3.Select(pool.queued, term_of(block))
    return Bool(z3.And(ref >= 0, (ref == 0) == queued, is_between(pool, block).term))


def stamp(pool: SymbolicPool, block: Any) -> Int:
    """Where the block stands in the queue, or stood."""
    return Int(z3.Select(pool.stamps, term_of(block)))


def is_between(pool: SymbolicPool, block: Any) -> Bool:
    """Whether the block is not queued, or stands between the ends of the queue."""
    place = z3.Select(pool.stamps, term_of(block))
    queued = z3.Select(pool.queued, term_of(block))
    return Bool(z3.Implies(queued, z3.And(pool.front < place, place < pool.back)))


def is_usable(pool: AnyPool, block: Any) -> Any:
    """Whether the block is one of the pool's, and not null."""
    size = Int(pool.size) if isinstance(pool, SymbolicPool) else pool.num_blocks
    return (block > NULL_BLOCK) & (block < size)


def small_pool(pool: SymbolicPool) -> tuple[Any, ...]:
    """Conditions of a pool that can be shown: few blocks, all well formed, the queue in some order."""
    blocks = range(1, WITNESS_BLOCKS)
    queued = [z3.Select(pool.queued, block) for block in blocks]
    stamps = [z3.Select(pool.stamps, block) for block in blocks]
    return (
        pool.size == WITNESS_BLOCKS,
        pool.free == z3.Sum([z3.If(one, 1, 0) for one in queued]),
        z3.Distinct(*stamps),
        z3.Not(z3.Select(pool.queued, 0)),
        z3.Select(pool.refs, 0) == 0,
        z3.Select(pool.keys, 0) == NO_KEY,
        *[term_of(is_well_formed(pool, block)) for block in blocks],
        *[z3.Select(pool.refs, block) <= MOST for block in blocks],
        *[z3.And(z3.Select(pool.keys, block) >= NO_KEY, z3.Select(pool.keys, block) <= MOST) for block in blocks],
    )


def concrete_pool(model: Any, pool: SymbolicPool) -> Pool:
    """The pool that a model of `small_pool` describes."""

    def number(array: Any, block: int) -> int:
        return int(model.eval(z3.Select(array, block), model_completion=True).as_long())

    blocks = range(1, WITNESS_BLOCKS)
    refs = tuple(number(pool.refs, block) for block in range(WITNESS_BLOCKS))
    keys = tuple(number(pool.keys, block) for block in range(WITNESS_BLOCKS))
    free = [block for block in blocks if refs[block] == 0]
    queue = tuple(sorted(free, key=lambda block: number(pool.stamps, block)))
    return Pool(refs, keys, queue, tuple(block for block in blocks if keys[block] != NO_KEY))

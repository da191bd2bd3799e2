"""What the interpreter must do at least: each case's effect on flat lists, in one function, without checks or objects.

A floor is called as the real thing is, with keywords, and touches what every implementation in Python has to touch: a
count and a link per block that changes hands, a dictionary entry per key that comes or goes. It decides nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time
from typing import Any

from slotproof.conformance.bench.world import PROMPT_BLOCKS

Answer = tuple[int, ...]


@dataclass(slots=True)
class Row:
    """A request with nothing but what a call must know."""

    num_computed_tokens: int
    hashes: list[bytes]
    table: list[int]


class Flat:
    """A pool whose blocks all carry a key; its queue is a ring of links with block 0 as its end."""

    def __init__(self, num_blocks: int) -> None:
        self.after = [*range(1, num_blocks), 0]
        self.before = [num_blocks - 1, *range(num_blocks - 1)]
        self.refs = [0] * num_blocks
        self.hash_of: list[bytes] = [block.to_bytes(32, "big") for block in range(num_blocks)]
        self.offered = {key: block for block, key in enumerate(self.hash_of)}
        self.free = num_blocks - 1
        self.num_keys = num_blocks

    def new_sequence(self, num_keys: int) -> Row:
        """A request with keys that nobody has."""
        self.num_keys += num_keys
        first = self.num_keys - num_keys
        return Row(40, [key.to_bytes(32, "big") for key in range(first, first + num_keys)], [])

    def stay(self, request: Row, num_new_tokens: int, num_lookahead_tokens: int = 0) -> Answer:
        """One comparison."""
        return () if request.num_computed_tokens + num_new_tokens > 16 else (0,)

    def key_one(self, request: Row, num_new_tokens: int, num_lookahead_tokens: int = 0) -> Answer:
        """A block gets its key."""
        block, key = request.table[-1], request.hashes[-1]
        self.hash_of[block] = key
        self.offered[key] = block
        return ()

    def pop_one(self, request: Row, num_new_tokens: int, num_lookahead_tokens: int = 0) -> Answer:
        """A block leaves the queue and loses its key."""
        after = self.after
        block = after[0]
        after[0] = after[block]
        self.before[after[0]] = 0
        del self.offered[self.hash_of[block]]
        self.refs[block] = 1
        request.table.append(block)
        return (block,)

    def pop_and_key(self, request: Row, num_new_tokens: int, full_sequence_must_fit: bool) -> Answer:
        """128 blocks leave the queue, lose their keys and get new ones."""
        after, hash_of, offered, refs = self.after, self.hash_of, self.offered, self.refs
        table, block = request.table, 0
        for key in request.hashes:
            block = after[block]
            del offered[hash_of[block]]
            refs[block] = 1
            hash_of[block] = key
            offered[key] = block
            table.append(block)
        after[0] = after[block]
        self.before[after[block]] = 0
        return tuple(table)

    def hold(self, request: Row, num_new_tokens: int, new_computed_blocks: Answer) -> Answer:
        """128 idle blocks are held; they stand together, so the queue closes over them in one step."""
        refs = self.refs
        for block in new_computed_blocks:
            refs[block] += 1
        left, right = self.before[new_computed_blocks[-1]], self.after[new_computed_blocks[0]]
        self.after[left], self.before[right] = right, left
        request.table = list(new_computed_blocks)
        return ()

    def let_go(self, request: Row) -> None:
        """128 blocks go to the back of the queue."""
        after, before, refs = self.after, self.before, self.refs
        left = before[0]
        for block in reversed(request.table):
            refs[block] -= 1
            after[left] = block
            before[block] = left
            left = block
        after[left], before[0] = 0, left
        request.table = []

    def put_back(self, requests: list[Row]) -> None:
        """All of them ended."""
        for request in requests:
            self.let_go(request)

    def find(self, request: Row) -> Answer:
        """As many dictionary look-ups as there are hits."""
        get = self.offered.get
        found = []
        for key in request.hashes:
            block = get(key)
            if block is None:
                break
            found.append(block)
        return tuple(found)


def timed(call: Callable[..., object], requests: list[Row], **arguments: Any) -> float:
    """Seconds for one call a request."""
    started = thread_time()
    for request in requests:
        call(request=request, **arguments)
    return thread_time() - started


def time_steps(flat: Flat, calls: int) -> float:
    """A decode step that changes nothing, or is refused."""
    requests, stay = [flat.new_sequence(0) for _ in range(64)], flat.stay
    started = thread_time()
    for _ in range(calls // len(requests)):
        for request in requests:
            stay(request=request, num_new_tokens=1, num_lookahead_tokens=0)
    return thread_time() - started


def time_fills(flat: Flat, calls: int) -> float:
    """A block gets its key."""
    requests = [flat.new_sequence(1) for _ in range(calls)]
    for request in requests:
        flat.pop_one(request, 1)
    seconds = timed(flat.key_one, requests, num_new_tokens=1, num_lookahead_tokens=0)
    flat.put_back(requests)
    return seconds


def time_boundaries(flat: Flat, calls: int) -> float:
    """A block is popped."""
    requests = [flat.new_sequence(1) for _ in range(calls)]
    seconds = timed(flat.pop_one, requests, num_new_tokens=1, num_lookahead_tokens=0)
    for request in requests:
        flat.key_one(request, 1)
    flat.put_back(requests)
    return seconds


def time_admissions(flat: Flat, calls: int) -> float:
    """128 blocks are popped and keyed."""
    requests = [flat.new_sequence(PROMPT_BLOCKS) for _ in range(calls)]
    seconds = timed(flat.pop_and_key, requests, num_new_tokens=1, full_sequence_must_fit=True)
    flat.put_back(requests)
    return seconds


def time_holds(flat: Flat, calls: int) -> float:
    """128 idle blocks are held."""
    requests = [flat.new_sequence(PROMPT_BLOCKS) for _ in range(calls)]
    hits = [flat.pop_and_key(request, 1, True) for request in requests]
    flat.put_back(requests)
    seconds = 0.0
    for request, hit in zip(requests, hits, strict=True):
        seconds += timed(flat.hold, [request], num_new_tokens=1, new_computed_blocks=hit)
    flat.put_back(requests)
    return seconds


def time_frees(flat: Flat, calls: int) -> float:
    """128 blocks are let go."""
    requests = [flat.new_sequence(PROMPT_BLOCKS) for _ in range(calls)]
    for request in requests:
        flat.pop_and_key(request, 1, True)
    return timed(flat.let_go, requests)


def time_hits(flat: Flat, calls: int) -> float:
    """128 keys are found."""
    requests = [flat.new_sequence(PROMPT_BLOCKS) for _ in range(16)]
    for request in requests:
        flat.pop_and_key(request, 1, True)
    flat.put_back(requests)
    return sum(timed(flat.find, requests) for _ in range(calls // len(requests)))


def time_misses(flat: Flat, calls: int) -> float:
    """The first of 128 keys is not found."""
    requests, find = [flat.new_sequence(PROMPT_BLOCKS) for _ in range(64)], flat.find
    started = thread_time()
    for _ in range(calls // len(requests)):
        for request in requests:
            find(request=request)
    return thread_time() - started


FLOORS: dict[str, Callable[[Flat, int], float]] = {
    "decode": time_steps,
    "decode-fill": time_fills,
    "decode-boundary": time_boundaries,
    "admit-miss": time_admissions,
    "admit-hit": time_holds,
    "free": time_frees,
    "lookup-hit": time_hits,
    "lookup-miss": time_misses,
    "refuse-prompt": time_steps,
    "refuse-step": time_steps,
}
"""Seconds that so many calls of a case take at least; hashing has no floor but the hash function's."""

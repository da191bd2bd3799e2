"""A world as bytes, up to the names of blocks and requests, and back.

Block ids and request names are opaque to an allocator: only where a block stands, and what a request is, decides what
happens to it. So blocks are numbered by first occurrence (the tables of the requests in order, deferred frees, copies,
the free queue), and requests that are alike in everything but their blocks take the order that gives the smallest
bytes. The index, of blocks and of parts, is written key by key, because the order in which keys came matters only among
those of one key. Ended requests and the key table are left out: nothing that can still happen depends on them.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice, pairwise, permutations, product
from types import MappingProxyType

from slotproof.conformance.world import World
from slotproof.spec.config import Config
from slotproof.spec.keys import KeyTable
from slotproof.spec.pool import NULL_BLOCK, Pool
from slotproof.spec.request import Flight, Request, Status, append_tokens
from slotproof.spec.snapshot import Copy, Holding, Part, Snapshot, Table

STATUSES = tuple(Status)
Numbers = list[int]


def packed(world: World, *, renaming: bool = True) -> bytes:
    """The world in its canonical form, the allocator's part first; without `renaming` blocks keep their ids, requests
    their age, and the index its order.
    """
    alike = {name: _likeness(world, request) for name, request in world.requests.items()}
    if not renaming:
        same = dict(enumerate(range(world.snapshot.config.num_blocks)))
        return _written(world, list(alike), alike, same, world.snapshot.pool.keyed, world.snapshot.parts)
    return min(_renamed(world, order, alike) for order in _orders(world, alike))


Likeness = tuple[Numbers, Numbers]
"""What a request holds, blocks apart (nothing, or a group the cached counter and the table's length); and the rest of
it. No two of equal beginning end differently.
"""


def _likeness(world: World, request: Request) -> Likeness:
    name, rest = request.request_id, [len(request.token_ids), *request.token_ids, request.num_prompt_tokens]
    rest += (request.num_computed_tokens, STATUSES.index(request.status), name in world.loading, len(request.flights))
    for flight in request.flights:
        rest += (flight.num_tokens, flight.samples, len(flight.drafts), *flight.drafts)
    holding, held = world.snapshot.holdings.get(name), [0]
    if holding is not None:
        held = [1]
        for cached, table in zip(holding.cached, holding.tables, strict=True):
            held += (cached, len(table.entries))
    return held, rest


def _orders(world: World, alike: dict[str, Likeness]) -> Iterable[list[str]]:
    """The orders of the requests that may be the canonical one: several only where requests are alike down to what
    their blocks are.
    """
    names = sorted(alike, key=alike.__getitem__)
    if all(alike[one] != alike[other] for one, other in pairwise(names)):
        return (names,)
    full = {name: (alike[name], _blocks_of(world, name)) for name in names}
    names.sort(key=full.__getitem__)
    ties = [permutations(group) for _, group in groupby(names, key=full.__getitem__)]
    return (list(chain.from_iterable(order)) for order in product(*ties))


def _blocks_of(world: World, name: str) -> list[tuple[int, int, bool]]:
    """What the entries of a request's tables are, whatever their names."""
    pool = world.snapshot.pool
    return [(pool.refs[block], pool.keys[block], block == NULL_BLOCK) for block in _entries(world, [name])]


def _entries(world: World, names: Iterable[str]) -> Iterator[int]:
    holdings = world.snapshot.holdings
    for name in names:
        if name in holdings:
            for table in holdings[name].tables:
                yield from table.entries


def _renamed(world: World, names: list[str], alike: dict[str, Likeness]) -> bytes:
    """The world with its requests in this order and its blocks numbered by first occurrence."""
    snapshot = world.snapshot
    pool = snapshot.pool
    held = chain(_entries(world, names), *snapshot.waiting_frees, *snapshot.copies)
    met = chain((NULL_BLOCK,), held, pool.queue, range(pool.num_blocks))
    numbers = {block: number for number, block in enumerate(dict.fromkeys(met))}
    keyed, parts = sorted(pool.keyed, key=pool.keys.__getitem__), sorted(snapshot.parts, key=lambda part: part.key)
    return _written(world, names, alike, numbers, keyed, parts)


def _written(
    world: World,
    names: list[str],
    alike: dict[str, Likeness],
    numbers: dict[int, int],
    keyed: Iterable[int],
    parts: Sequence[Part],
) -> bytes:
    snapshot = world.snapshot
    pool = snapshot.pool
    written = [len(names)]
    for name in names:
        written += alike[name][0]
    written += [numbers[block] for block in _entries(world, names)]
    written.append(len(snapshot.waiting_frees))
    for blocks in (*snapshot.waiting_frees, pool.queue, keyed):
        renamed = [numbers[block] for block in blocks]
        written.append(len(renamed))
        written += renamed
    written += [pool.refs[block] for block in numbers]
    written += [pool.keys[block] for block in numbers]
    if snapshot.config.has_partial_hits:
        written += (len(snapshot.copies), *(numbers[block] for copy in snapshot.copies for block in copy))
        written += (len(parts), *chain.from_iterable((part.key, numbers[part.block]) for part in parts))
    for name in names:
        written += alike[name][1]
    return array("h", written).tobytes()


def unpacked(written: bytes, config: Config, keys: KeyTable) -> World:
    """The world that was packed, its requests named A, B, C … in their order; `keys` knows every key it names."""
    read = Reader(written)
    names = [chr(ord("A") + number) for number in range(read.one())]
    shapes = {name: _read_shape(read, len(config.groups)) for name in names}
    holdings = {name: _read_holding(read, shape) for name, shape in shapes.items() if shape is not None}
    waiting_frees = tuple(read.run() for _ in range(read.one()))
    queue, keyed = read.run(), read.run()
    refs, block_keys = read.many(config.num_blocks), read.many(config.num_blocks)
    snapshot = Snapshot(config, Pool(refs, block_keys, queue, keyed), MappingProxyType(holdings), waiting_frees)
    if config.has_partial_hits:
        copies = tuple(Copy(read.one(), read.one()) for _ in range(read.one()))
        parts = tuple(Part(read.one(), read.one()) for _ in range(read.one()))
        snapshot = replace(snapshot, parts=parts, copies=copies)
    requests, loading = dict[str, Request](), set[str]()
    for name in names:
        keys, requests[name], loads = _read_request(read, name, config, keys)
        if loads:
            loading.add(name)
    return World(snapshot, MappingProxyType(requests), frozenset(loading), (), keys)


class Reader:
    """Numbers, one after the other."""

    def __init__(self, written: bytes) -> None:
        self._numbers = iter(array("h", written))

    def one(self) -> int:
        """The next number."""
        return next(self._numbers)

    def many(self, count: int) -> tuple[int, ...]:
        """The next numbers."""
        return tuple(islice(self._numbers, count))

    def run(self) -> tuple[int, ...]:
        """As many numbers as the next one says."""
        return self.many(self.one())


Shape = list[tuple[int, int]]
"""Cached counter and table length, a group."""


def _read_shape(read: Reader, num_groups: int) -> Shape | None:
    return [(read.one(), read.one()) for _ in range(num_groups)] if read.one() else None


def _read_holding(read: Reader, shape: Shape) -> Holding:
    tables = tuple(Table(read.many(length)) for _, length in shape)
    return Holding(tables, tuple(cached for cached, _ in shape))


def _read_request(read: Reader, name: str, config: Config, keys: KeyTable) -> tuple[KeyTable, Request, bool]:
    tokens, num_prompt, computed, status, loads = read.run(), read.one(), read.one(), read.one(), read.one()
    flights = tuple(_read_flight(read) for _ in range(read.one()))
    blank = Request(name, (), (), num_prompt, computed, (), flights, STATUSES[status])
    keys, request = append_tokens(keys, blank, tokens, config.block_size, config.hash_size)
    return keys, request, bool(loads)


def _read_flight(read: Reader) -> Flight:
    num_tokens, samples = read.one(), bool(read.one())
    return Flight(num_tokens, read.run(), samples)

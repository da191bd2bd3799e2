"""A world as bytes, up to the names of blocks and requests, and back.

Block ids and request names are opaque to an allocator: only where a block stands, and what a request is, decides what
happens to it. So blocks are numbered by first occurrence (the tables of the requests in order, deferred frees, the
free queue), and requests that are alike in everything but their blocks take the order that gives the smallest bytes.
The index is written key by key, because the order in which keys came matters only among blocks of one key. Ended
requests and the key table are left out: nothing that can still happen depends on them.
"""

from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice, pairwise, permutations, product
from types import MappingProxyType

from slotproof.conformance.world import World
from slotproof.spec.config import Config
from slotproof.spec.keys import KeyTable
from slotproof.spec.pool import NULL_BLOCK, Pool
from slotproof.spec.request import Flight, Request, Status, append_tokens
from slotproof.spec.snapshot import Holding, Snapshot, Table

STATUSES = tuple(Status)
Numbers = list[int]


def packed(world: World, *, renaming: bool = True) -> bytes:
    """The world in its canonical form; without `renaming` blocks keep their ids, requests their age, and the index its
    order.
    """
    heads = {name: _head(world, request) for name, request in world.requests.items()}
    if not renaming:
        blocks = range(world.snapshot.config.num_blocks)
        return _written(world, list(heads), heads, dict(zip(blocks, blocks, strict=True)), world.snapshot.pool.keyed)
    return min(_renamed(world, order, heads) for order in _orders(world, heads))


def _head(world: World, request: Request) -> Numbers:
    """All about a request but its blocks; no two of equal beginning end differently."""
    name, numbers = request.request_id, [len(request.token_ids), *request.token_ids, request.num_prompt_tokens]
    numbers += (request.num_computed_tokens, STATUSES.index(request.status), name in world.loading)
    numbers.append(len(request.flights))
    for flight in request.flights:
        numbers += (flight.num_tokens, flight.samples, len(flight.drafts), *flight.drafts)
    holding = world.snapshot.holdings.get(name)
    if holding is None:
        numbers.append(0)
        return numbers
    numbers.append(1)
    for cached, table in zip(holding.cached, holding.tables, strict=True):
        numbers += (cached, len(table.entries))
    return numbers


def _orders(world: World, heads: dict[str, Numbers]) -> Iterable[list[str]]:
    """The orders of the requests, smallest first; several only where requests are alike down to what their blocks are.
    """
    names = sorted(heads, key=heads.__getitem__)
    if all(heads[one] != heads[other] for one, other in pairwise(names)):
        return (names,)
    full = {name: (heads[name], _blocks_of(world, name)) for name in names}
    names.sort(key=full.__getitem__)
    alike = [permutations(group) for _, group in groupby(names, key=full.__getitem__)]
    return (list(chain.from_iterable(order)) for order in product(*alike))


def _blocks_of(world: World, name: str) -> list[tuple[int, int, bool]]:
    """What the entries of a request's tables are, whatever their names."""
    pool = world.snapshot.pool
    entries = _entries(world, [name])
    return [(pool.refs[block], pool.keys[block], block == NULL_BLOCK) for block in entries]


def _entries(world: World, names: Iterable[str]) -> Iterator[int]:
    holdings = world.snapshot.holdings
    for name in names:
        if name in holdings:
            for table in holdings[name].tables:
                yield from table.entries


def _renamed(world: World, names: list[str], heads: dict[str, Numbers]) -> bytes:
    """The world with its requests in this order and its blocks numbered by first occurrence."""
    snapshot = world.snapshot
    pool = snapshot.pool
    met = chain((NULL_BLOCK,), _entries(world, names), *snapshot.waiting_frees, pool.queue, range(pool.num_blocks))
    numbers = {block: number for number, block in enumerate(dict.fromkeys(met))}
    return _written(world, names, heads, numbers, sorted(pool.keyed, key=pool.keys.__getitem__))


def _written(
    world: World, names: list[str], heads: dict[str, Numbers], numbers: dict[int, int], keyed: Iterable[int]
) -> bytes:
    snapshot = world.snapshot
    pool = snapshot.pool
    written = [len(names)]
    for name in names:
        written += heads[name]
    written += [numbers[block] for block in _entries(world, names)]
    written.append(len(snapshot.waiting_frees))
    for run in snapshot.waiting_frees:
        written.append(len(run))
        written += [numbers[block] for block in run]
    for blocks in (pool.queue, keyed):
        renamed = [numbers[block] for block in blocks]
        written.append(len(renamed))
        written += renamed
    for block in numbers:
        written += (pool.refs[block], pool.keys[block])
    return array("h", written).tobytes()


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


def unpacked(written: bytes, config: Config, keys: KeyTable) -> World:
    """The world that was packed, its requests named A, B, C … in their order; `keys` knows every key it names."""
    read = Reader(written)
    names = [chr(ord("A") + number) for number in range(read.one())]
    requests, loading, shapes = dict[str, Request](), set[str](), dict[str, list[tuple[int, int]]]()
    for name in names:
        keys, requests[name], loads = _read_request(read, name, config, keys)
        if loads:
            loading.add(name)
        if read.one():
            shapes[name] = [(read.one(), read.one()) for _ in config.groups]
    holdings = {name: _read_holding(read, shape) for name, shape in shapes.items()}
    waiting_frees = tuple(read.run() for _ in range(read.one()))
    queue, keyed = read.run(), read.run()
    blocks = [(read.one(), read.one()) for _ in range(config.num_blocks)]
    refs, block_keys = zip(*blocks, strict=True)
    snapshot = Snapshot(config, Pool(refs, block_keys, queue, keyed), MappingProxyType(holdings), waiting_frees)
    return World(snapshot, MappingProxyType(requests), frozenset(loading), (), keys)


def _read_request(read: Reader, name: str, config: Config, keys: KeyTable) -> tuple[KeyTable, Request, bool]:
    tokens, num_prompt, computed, status, loads = read.run(), read.one(), read.one(), read.one(), read.one()
    flights = tuple(_read_flight(read) for _ in range(read.one()))
    blank = Request(name, (), (), num_prompt, computed, (), flights, STATUSES[status])
    return *append_tokens(keys, blank, tokens, config.block_size), bool(loads)


def _read_flight(read: Reader) -> Flight:
    num_tokens, samples = read.one(), bool(read.one())
    return Flight(num_tokens, read.run(), samples)


def _read_holding(read: Reader, shape: list[tuple[int, int]]) -> Holding:
    tables = tuple(Table(read.many(length)) for _, length in shape)
    return Holding(tables, tuple(cached for cached, _ in shape))

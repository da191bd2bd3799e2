"""The canonical form of a world: lossless up to names, and equal exactly for worlds that differ by names only."""

import random
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import pytest

from slotproof.conformance.model import SpecModel
from slotproof.conformance.renaming import packed, unpacked
from slotproof.conformance.scope import Scope, make_scope
from slotproof.conformance.search import search
from slotproof.conformance.world import World
from slotproof.spec.pool import Pool
from slotproof.spec.request import Request, Status
from slotproof.spec.snapshot import Copy, Holding, Part, Snapshot, Table

SCOPE = make_scope(blocks=5, requests=3, tokens=4, groups="full,window:2", extras=("load", "defer"))
PARTIAL = make_scope(blocks=5, requests=3, tokens=5, block_size=3, groups="partial")
SCOPES = pytest.mark.parametrize("scope", [SCOPE, PARTIAL], ids=["whole", "partial"])
NUM_WORLDS = 400


@cache
def worlds(scope: Scope = SCOPE) -> list[World]:
    """The first worlds of a scope, as they are."""
    model = SpecModel(scope, renaming=False)
    found = search(model, max_states=NUM_WORLDS)
    return [model.unpack(key).world for key in found.keys]  # type: ignore[arg-type]


def with_other_names(world: World, chance: random.Random) -> World:
    """The same world, its blocks and requests called by other names."""
    usable = list(range(1, world.snapshot.config.num_blocks))
    blocks = dict(zip([0, *usable], [0, *chance.sample(usable, len(usable))], strict=True))
    names = list(world.requests)
    called = dict(zip(names, chance.sample(names, len(names)), strict=True))
    pool = world.snapshot.pool
    back = sorted(blocks, key=blocks.__getitem__)
    renamed = Pool(
        tuple(pool.refs[block] for block in back),
        tuple(pool.keys[block] for block in back),
        tuple(blocks[block] for block in pool.queue),
        tuple(blocks[block] for block in pool.keyed),
    )
    holdings = {
        called[name]: Holding(
            tuple(Table(tuple(blocks[b] for b in table.entries)) for table in held.tables), held.cached
        )
        for name, held in world.snapshot.holdings.items()
    }
    runs = tuple(tuple(blocks[block] for block in run) for run in world.snapshot.waiting_frees)
    parts = tuple(Part(part.key, blocks[part.block]) for part in world.snapshot.parts)
    copies = tuple(Copy(*(blocks[end] for end in copy)) for copy in world.snapshot.copies)
    snapshot = Snapshot(world.snapshot.config, renamed, MappingProxyType(holdings), runs, parts, copies)
    requests = {
        called[name]: replace(world.requests[name], request_id=called[name])
        for name in chance.sample(names, len(names))
    }
    loading = frozenset(called[name] for name in world.loading)
    return World(snapshot, MappingProxyType(requests), loading, (), world.keys)


@SCOPES
def test_names_make_no_difference(scope: Scope) -> None:
    chance = random.Random(1)
    for world in worlds(scope):
        assert packed(with_other_names(world, chance)) == packed(world)


def test_alike_requests_may_stand_in_any_order() -> None:
    """Two requests differ in nothing but that the block of one is offered before the equal block of the other."""
    pool = Pool((0, 1, 1, 0), (-1, 5, 5, -1), (3,), (1, 2))
    held = {"A": Holding((Table((1,)),), (1,)), "B": Holding((Table((2,)),), (1,))}
    snapshot = Snapshot(make_scope(blocks=4).config, pool, MappingProxyType(held))
    alike = {name: Request(name, (1, 2), (0,), 2, 2, status=Status.RUNNING) for name in "AB"}
    orders = [MappingProxyType({name: alike[name] for name in order}) for order in ("AB", "BA")]
    first, second = (packed(World(snapshot, requests)) for requests in orders)
    assert first == second


@SCOPES
def test_nothing_but_names_is_lost(scope: Scope) -> None:
    keys = scope.known_keys()
    for world in worlds(scope):
        exact = packed(world, renaming=False)
        again = unpacked(exact, scope.config, keys)
        assert again.snapshot == world.snapshot
        assert again.requests == world.requests
        assert again.loading == world.loading
        assert packed(again, renaming=False) == exact
        assert packed(unpacked(packed(world), scope.config, keys)) == packed(world)


def test_the_worlds_tried_have_what_can_be_lost() -> None:
    tried = worlds()
    assert any(world.loading for world in tried)
    assert any(world.snapshot.waiting_frees for world in tried)
    assert any(len({len(request.flights) for request in world.requests.values()}) > 1 for world in tried)
    assert any(len(world.requests) == 3 for world in tried)
    assert len({packed(world) for world in tried}) < len(tried)
    finer = worlds(PARTIAL)
    assert any(world.snapshot.copies for world in finer)
    assert any(len({part.key for part in world.snapshot.parts}) > 1 for world in finer)


def test_what_differs_in_more_than_names_stays_apart() -> None:
    world = next(world for world in worlds() if len(world.snapshot.pool.queue) > 2 and world.snapshot.pool.keyed)
    pool = world.snapshot.pool
    keyed = pool.keyed[0]
    others = [
        replace(pool, refs=(*pool.refs[:keyed], pool.refs[keyed] + 1, *pool.refs[keyed + 1 :])),
        replace(pool, keys=(*pool.keys[:keyed], pool.keys[keyed] + 1, *pool.keys[keyed + 1 :])),
        replace(pool, keyed=pool.keyed[1:]),
        replace(pool, queue=pool.queue[1:]),
    ]
    forms = {packed(world.with_snapshot(world.snapshot.with_pool(other))) for other in (pool, *others)}
    assert len(forms) == 1 + len(others)


def test_the_order_of_the_index_matters_within_one_key_only() -> None:
    pool = Pool((0,) * 4, (-1, 5, 5, 6), (1, 2, 3), (1, 2, 3))
    config = make_scope(blocks=4).config

    def form(keyed: tuple[int, ...]) -> bytes:
        return packed(World(Snapshot(config, replace(pool, keyed=keyed), MappingProxyType({}))))

    assert form((1, 2, 3)) == form((3, 1, 2)) == form((1, 3, 2))
    assert form((1, 2, 3)) != form((2, 1, 3))


def test_the_order_of_parts_matters_within_one_key_only() -> None:
    """Of several blocks that hold one part the first to offer it is copied from."""
    pool = Pool((0,) * 4, (-1, 5, 5, 6), (1, 2, 3), (1, 2, 3))
    empty = Snapshot(make_scope(blocks=4, groups="partial").config, pool, MappingProxyType({}))

    def form(*parts: Part) -> bytes:
        return packed(World(replace(empty, parts=parts)))

    first, second, other = Part(5, 1), Part(5, 2), Part(6, 3)
    assert form(first, second, other) == form(other, first, second) == form(first, other, second)
    assert form(first, second, other) != form(second, first, other)
    assert form(first, second) != form(first)


@pytest.mark.parametrize(("groups", "lookahead"), [("full", 1), ("window:2", 0), ("full,window:2", 1), ("partial", 0)])
def test_without_renaming_the_same_worlds_are_found_as_with_it(groups: str, lookahead: int) -> None:
    """The quotient of the exploration of all worlds is the exploration of the canonical ones, step by step."""
    scope = make_scope(blocks=4, requests=2, tokens=4, groups=groups, lookahead=lookahead, drafts=0)
    exact, renamed = SpecModel(scope, renaming=False), SpecModel(scope)
    plain, quotient = search(exact), search(renamed)
    assert plain.exhausted
    assert quotient.exhausted
    assert plain.states > 2 * quotient.states
    steps: dict[bytes, set[bytes]] = {}
    for key in plain.keys:
        state = exact.unpack(key)  # type: ignore[arg-type]
        following = {renamed.canonical(after) for _, after in exact.successors(state)}
        assert steps.setdefault(renamed.canonical(state), following) == following
    assert set(steps) == set(quotient.keys)
    for key in quotient.keys:
        state = renamed.unpack(key)  # type: ignore[arg-type]
        assert {renamed.canonical(after) for _, after in renamed.successors(state)} == steps[key]  # type: ignore[index]

"""The linear backend against the tuples."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from slotproof.conformance.adapter import NO_HIT, Hit
from slotproof.conformance.driver import SeededChooser
from slotproof.conformance.linear import LinearKeyTable, LinearPool, LinearSnapshot, LinearTable, linear_snapshot
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.subject import ALLOCATOR
from slotproof.conformance.targets.reference import PROFILE, ReferenceAdapter
from slotproof.spec import (
    Allocation,
    Call,
    Config,
    FullAttention,
    Holding,
    KeyTable,
    Refusal,
    Request,
    SlidingWindow,
    Snapshot,
    Table,
    admit,
    allocate_slots,
    commit,
    defer_free,
    empty,
    evict_blocks,
    free,
    get_computed_blocks,
    new_request,
    preempt,
    release_copy,
    reset_prefix_cache,
    return_deferred,
)
from slotproof.spec.lookup import Hit as SpecHit
from slotproof.spec.pool import NO_KEY, Pool

GROUPS = ("full", "window", "full,window", "full,window,window", "partial", "partial,partial:1")


def in_tuples(snapshot: Snapshot) -> Snapshot:
    """The same state on the tuple backend."""
    pool = snapshot.pool
    holdings = {
        name: Holding(tuple(Table(table.entries) for table in holding.tables), holding.cached)
        for name, holding in snapshot.holdings.items()
    }
    tuples = Pool(pool.refs, pool.keys, pool.queue, pool.keyed)
    others = snapshot.waiting_frees, snapshot.parts, snapshot.copies
    return Snapshot(snapshot.config, tuples, MappingProxyType(holdings), *others)


def pool_in_tuples(pool: Pool) -> Pool:
    return Pool(pool.refs, pool.keys, pool.queue, pool.keyed)


class Twins(Session):
    """A session of the reference in which every call is made of the linear backend too."""

    def __init__(self, config: Config) -> None:
        super().__init__(ReferenceAdapter(), config, Tally.fresh(), law_ids=("POOL-4",))
        self.linear: Snapshot = linear_snapshot(config)

    def look_up(self, request: Request) -> Hit:
        hit = super().look_up(request)
        assert get_computed_blocks(self.linear, request) == SpecHit(hit.num_tokens, hit.blocks, hit.tails)
        return hit

    def allocate(self, call: Call, hit: Hit = NO_HIT) -> int | None:
        due, answer = admit(self.snapshot, call), admit(self.linear, call)
        assert replace(answer, snapshot=in_tuples(answer.snapshot)) == due
        adopted = super().allocate(call, hit)
        self._move_to(answer.snapshot)
        return adopted

    def allocate_batch(self, calls: Sequence[Call]) -> int:
        served = super().allocate_batch(calls)
        for call in calls:
            answer = admit(self.linear, call)
            self.linear = answer.snapshot
            if isinstance(answer, Refusal):
                break
        self._move_to(self.linear)
        return served

    def commit(self, request: Request, num_computed_tokens: int) -> None:
        super().commit(request, num_computed_tokens)
        self._move_to(commit(self.linear, request, num_computed_tokens))

    def free(self, request: Request) -> None:
        super().free(request)
        self._move_to(free(self.linear, request.request_id))

    def preempt(self, request: Request) -> None:
        super().preempt(request)
        self._move_to(preempt(self.linear, request)[0])

    def defer_free(self, request: Request) -> None:
        super().defer_free(request)
        self._move_to(defer_free(self.linear, request.request_id))

    def return_deferred(self) -> None:
        super().return_deferred()
        self._move_to(return_deferred(self.linear))

    def release_copy(self) -> None:
        super().release_copy()
        self._move_to(release_copy(self.linear))

    def evict(self, blocks: tuple[int, ...]) -> None:
        super().evict(blocks)
        self._move_to(evict_blocks(self.linear, blocks))

    def reset_prefix_cache(self) -> None:
        super().reset_prefix_cache()
        self._move_to(reset_prefix_cache(self.linear)[0])

    def _move_to(self, linear: Snapshot) -> None:
        assert in_tuples(linear) == self.snapshot
        assert linear.pool.num_free() == self.snapshot.pool.num_free()
        self.linear = linear


def walk(seed: str, settings: Settings, after_each: Callable[[Twins, SeededChooser], None]) -> None:
    """One episode of the suite's own random walk."""
    print("seed", seed)
    chooser = SeededChooser(seed)
    twins = Twins(settings.draw(chooser, PROFILE))
    for _ in range(150):
        verb = chooser.pick(ALLOCATOR.deck(twins.config))
        arguments = verb.propose(twins, chooser)
        if arguments is not None:
            verb.run(twins, arguments)
            after_each(twins, chooser)


@pytest.mark.parametrize("free_order", ["unhashed-first", "lru"])
@pytest.mark.parametrize("groups", GROUPS)
def test_random_runs_have_equal_answers_and_equal_states(groups: str, free_order: str) -> None:
    for number in range(8):
        settings = Settings(groups=groups, free_order=free_order, caching=number < 6)
        walk(f"twins:{groups}:{free_order}:{number}", settings, lambda twins, chooser: None)


def leave(snapshot: Snapshot, name: str) -> list[Snapshot]:
    """What becomes of a snapshot in which a request ends, at once or later, and all keys are lost."""
    freed, deferred = free(snapshot, name), defer_free(snapshot, name)
    blocks = range(1, snapshot.config.num_blocks)
    return [freed, deferred, evict_blocks(freed, blocks), return_deferred(deferred), reset_prefix_cache(freed)[0]]


@pytest.mark.parametrize("groups", GROUPS)
def test_older_snapshots_stay_what_they_were_and_can_be_left_in_another_direction(groups: str) -> None:
    for number in range(4):
        visited: list[tuple[Snapshot, Snapshot]] = []

        def go_elsewhere_from_an_older_snapshot(
            twins: Twins, chooser: SeededChooser, visited: list[tuple[Snapshot, Snapshot]] = visited
        ) -> None:
            visited.append((twins.snapshot, twins.linear))
            tuples, linear = chooser.pick(visited)
            for name in tuples.holdings if chooser.chance(30) else ():
                assert [in_tuples(after) for after in leave(linear, name)] == leave(tuples, name)

        walk(f"branches:{groups}:{number}", Settings(groups=groups), go_elsewhere_from_an_older_snapshot)
        assert [in_tuples(linear) for _, linear in visited] == [tuples for tuples, _ in visited]


# One pool.


def random_step(pool: Pool, chooser: random.Random) -> Callable[[Pool], Pool]:
    """Any step of the pool interface that is possible from here."""
    block, number = chooser.randrange(1, pool.num_blocks), chooser.randrange(4)
    steps: list[Callable[[Pool], Pool]] = [
        lambda pool: pool.with_ref(block, number),
        lambda pool: pool.with_key(block, number),
        lambda pool: pool.with_key(block, NO_KEY),
    ]
    if block in pool.queue:
        steps.append(lambda pool: pool.unqueue(block))
    else:
        steps += [lambda pool: pool.enqueue_front(block), lambda pool: pool.enqueue_back(block)]
    return chooser.choice(steps)


@pytest.mark.parametrize("seed", range(20))
def test_every_version_of_a_pool_stays_what_it_was(seed: int) -> None:
    chooser = random.Random(seed)
    versions: list[tuple[Pool, Pool]] = [(Pool.fresh(6), LinearPool.fresh(6))]
    for _ in range(150):
        tuples, linear = versions[-1] if chooser.random() < 0.7 else chooser.choice(versions)
        step = random_step(tuples, chooser)
        versions.append((step(tuples), step(linear)))
    chooser.shuffle(versions)
    for tuples, linear in versions:
        assert pool_in_tuples(linear) == tuples
        assert [linear.block_of(key) for key in range(-1, 4)] == [tuples.block_of(key) for key in range(-1, 4)]
        assert (linear.num_free(), linear.num_blocks) == (tuples.num_free(), 6)
        assert not tuples.queue or linear.head() == tuples.head()


def test_duplicates_of_a_key_are_offered_in_the_order_in_which_they_were_keyed() -> None:
    both = LinearPool.fresh(5).with_key(3, 7).with_key(1, 7)
    later = both.with_key(3, NO_KEY).with_key(4, 7)
    assert [both.block_of(7), later.block_of(7), later.with_key(1, NO_KEY).block_of(7)] == [3, 1, 4]
    assert both.keyed == (3, 1)


def test_what_no_pool_can_do_is_an_error_and_changes_nothing() -> None:
    pool = LinearPool.fresh(3)
    taken = pool.unqueue(1)
    with pytest.raises(ValueError, match="block 1 is not linked"):
        taken.unqueue(1)
    with pytest.raises(ValueError, match="block 2 is linked already"):
        taken.enqueue_back(2)
    with pytest.raises(IndexError, match="the free queue is empty"):
        taken.unqueue(2).head()
    assert (taken.queue, taken.num_free(), pool.queue, pool.num_free()) == ((2,), 1, (1, 2), 2)


def test_a_version_that_many_updates_came_after_is_still_there() -> None:
    fresh = LinearPool.fresh(3)
    newest = fresh
    for ref in range(100_000):
        newest = newest.with_ref(1, ref)
    assert (fresh.refs, newest.refs, fresh.refs) == ((0, 0, 0), (0, 99_999, 0), (0, 0, 0))


# Tables, holdings and keys.


def test_an_older_table_keeps_its_entries_and_counts() -> None:
    short = LinearTable.of(Table((4, 5)))
    long = short.append(6).append(7)
    nulled = long.with_null(0)
    other = short.append(8)
    tables = {"short": short, "long": long, "nulled": nulled, "other": other, "again": nulled.with_null(0)}
    assert {name: (table.entries, table.length, table.num_live()) for name, table in tables.items()} == {
        "short": ((4, 5), 2, 2),
        "long": ((4, 5, 6, 7), 4, 4),
        "nulled": ((0, 5, 6, 7), 4, 3),
        "other": ((4, 5, 8), 3, 3),
        "again": ((0, 5, 6, 7), 4, 3),
    }
    assert (nulled.entry(0), long.entry(0), nulled.reversed().entries) == (0, 4, (7, 6, 5, 0))
    assert (nulled.tail(2), long.tail(1), nulled.head(2).entries) == ((6, 7), (5, 6, 7), (0, 5))


def test_an_adopted_hit_becomes_a_linear_table() -> None:
    snapshot: Snapshot = linear_snapshot(Config(8, (FullAttention(2),), 100, 100))
    keys, donor = new_request(KeyTable(), "donor", (1, 2, 3), 2)
    snapshot = free(allocate_slots(snapshot, donor, 3).snapshot, "donor")
    _, heir = new_request(keys, "heir", (1, 2, 3), 2)
    answer = allocate_slots(snapshot, heir, 1, hit=get_computed_blocks(snapshot, heir))
    [table] = answer.snapshot.holding("heir").tables
    assert isinstance(answer.snapshot, LinearSnapshot)
    assert isinstance(table, LinearTable)
    assert table.entries == (1, 2)


def test_older_snapshots_keep_their_holdings() -> None:
    fresh = linear_snapshot(Config(8, (FullAttention(2),), 100, 100))
    held = fresh.with_holding("r", Holding((Table((1,)),), (0,)))
    changed = held.with_holding("r", Holding((Table((1, 2)),), (1,)))
    gone = changed.without_holding("r")
    names: list[list[Any]] = [list(snapshot.holdings) for snapshot in (fresh, held, changed, gone)]
    assert names == [[], ["r"], ["r"], []]
    assert [snapshot.holding("r").cached for snapshot in (fresh, held, changed, gone)] == [(0,), (0,), (1,), (0,)]
    assert gone.without_holding("r").key() == gone.key() == fresh.key()


def test_a_key_table_hands_out_the_same_keys_from_each_of_its_versions() -> None:
    prefixes = [(-1, (1,), ()), (0, (2,), ()), (-1, (1,), ("salt:s",)), (-1, (1,), ())]

    def intern_all(table: KeyTable) -> tuple[list[int], dict[Any, int]]:
        handed_out = []
        for prefix in prefixes:
            table, key = table.intern(*prefix)
            handed_out.append(key)
        return handed_out, dict(table.entries)

    older = LinearKeyTable()
    assert intern_all(older) == intern_all(KeyTable()) == intern_all(older)
    assert (dict(older.entries), intern_all(older)[0]) == ({}, [0, 1, 2, 0])


# Volume.


def test_a_pool_of_100_000_blocks_serves_requests_of_200_blocks() -> None:
    live = 500
    snapshot: Snapshot = linear_snapshot(Config(100_001, (FullAttention(16), SlidingWindow(16, 64)), 10_000, 10_000))
    keys: KeyTable = LinearKeyTable()
    for number in range(live + 250):
        if number >= live:
            snapshot = free(snapshot, str(number - live))
        keys, request = new_request(keys, str(number), tuple(range(number, number + 1_600)), 16)
        answer = allocate_slots(snapshot, request, 1_600, full_sequence_must_fit=True)
        assert isinstance(answer, Allocation)
        snapshot = answer.snapshot
    assert len(snapshot.holdings) == live
    assert snapshot.pool.num_free() == 0
    for name in list(snapshot.holdings):
        snapshot = free(snapshot, name)
    assert snapshot.pool.num_free() == 100_000


def test_the_empty_snapshots_are_equal_states() -> None:
    config = Config(9, (FullAttention(4), SlidingWindow(4, 6)), 100, 100)
    assert in_tuples(linear_snapshot(config)) == empty(config)

from dataclasses import replace
from types import MappingProxyType

from slotproof.spec import Config, FullAttention, Holding, SlidingWindow, Snapshot, Table, empty
from slotproof.spec.pool import Pool
from slotproof.spec.snapshot import nothing_held

CONFIG = Config(6, (FullAttention(4), SlidingWindow(4, 8)), 100, 100)
HOLDING = Holding((Table((1, 2)), Table((3,))), (2, 1))


def test_a_table_grows_and_loses_entries_as_a_new_value() -> None:
    table = Table((4, 5))
    assert (table.append(6), table.with_null(0), table) == (Table((4, 5, 6)), Table((0, 5)), Table((4, 5)))


def test_what_a_table_tells() -> None:
    table = Table((0, 5, 6))
    assert (table.length, table.entry(1), table.num_live(), table.reversed().entries) == (3, 5, 2, (6, 5, 0))
    assert (table.head(2).entries, table.tail(1)) == ((0, 5), (5, 6))
    assert (table.behind_nulls(2).entries, table.behind_nulls(4).entries) == ((0, 0, 6), (0, 0, 0, 0))


def test_the_empty_snapshot_holds_nothing() -> None:
    assert empty(CONFIG) == Snapshot(CONFIG, Pool.fresh(6), MappingProxyType({}), ())


def test_an_untracked_request_holds_empty_tables() -> None:
    assert empty(CONFIG).holding("r") == nothing_held(2) == Holding((Table(), Table()), (0, 0))


def test_holdings_come_and_go_as_new_values() -> None:
    held = empty(CONFIG).with_holding("r", HOLDING).with_holding("q", nothing_held(2))
    assert dict(held.holdings) == {"r": HOLDING, "q": nothing_held(2)}
    assert dict(held.without_holding("r").holdings) == {"q": nothing_held(2)}
    assert held.holding("r") == HOLDING


def test_the_same_pool_gives_the_same_snapshot() -> None:
    snapshot = empty(CONFIG)
    assert snapshot.with_pool(snapshot.pool) is snapshot
    assert snapshot.with_pool(snapshot.pool.unqueue(3)).pool.queue == (1, 2, 4, 5)


def test_the_key_is_equal_for_equal_states_whatever_the_order_of_requests_and_differs_in_every_part() -> None:
    snapshot = empty(CONFIG)
    one = snapshot.with_holding("r", HOLDING).with_holding("q", nothing_held(2))
    other = snapshot.with_holding("q", nothing_held(2)).with_holding("r", HOLDING)
    assert one.key() == other.key()
    assert hash(one.key()) == hash(other.key())
    variants = [
        snapshot,
        one,
        snapshot.with_pool(snapshot.pool.unqueue(1)),
        snapshot.with_holding("r", replace(HOLDING, cached=(0, 0))),
        replace(snapshot, waiting_frees=((1,),)),
    ]
    assert len({variant.key() for variant in variants}) == len(variants)


def test_usage_counts_held_blocks_only() -> None:
    snapshot = empty(CONFIG)
    assert snapshot.usage == 0.0
    assert snapshot.with_pool(snapshot.pool.unqueue(1).unqueue(2)).usage == 1.0 - 3 / 5

"""Each duty of a caller: the call that neglects it, and nothing but it, is refused by name before anything is done."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slotproof.spec import (
    PRECONDITIONS,
    Config,
    FullAttention,
    Hit,
    KeyTable,
    PreconditionError,
    Request,
    SlidingWindow,
    Snapshot,
    allocate_slots,
    commit,
    empty,
    evict_blocks,
    free,
    get_computed_blocks,
    new_request,
    schedule,
)
from slotproof.spec.request import Flight

CONFIG = Config(30, (FullAttention(4), SlidingWindow(4, 5)), max_model_len=24, max_in_flight_tokens=24)
KEYS, FRESH = new_request(KeyTable(), "r", tuple(range(10)), 4)


def after_a_donor() -> Snapshot:
    """The prefix of the request is idle in blocks 1 and 2, and 4 and 5 of the window group."""
    _, donor = new_request(KEYS, "donor", tuple(range(10)), 4)
    return free(allocate_slots(empty(CONFIG), donor, 10).snapshot, "donor")


def running() -> tuple[Snapshot, Request]:
    """The request with 5 tokens computed in two blocks a group."""
    return allocate_slots(empty(CONFIG), FRESH, 5).snapshot, schedule(FRESH, 0, 5)


def ask(snapshot: Snapshot, request: Request, new: int, **options: Any) -> Callable[[], object]:
    return lambda: allocate_slots(snapshot, request, new, **options)


def hit(num_tokens: int, *blocks: tuple[int, ...]) -> Callable[[], object]:
    return ask(after_a_donor(), FRESH, 1, hit=Hit(num_tokens, blocks))


def tail(num_tokens: int, *tails: int) -> Callable[[], object]:
    """A hit in a pool that offers the first two tokens of block 2 for copying."""
    config = Config(30, (FullAttention(4),), max_model_len=24, max_in_flight_tokens=24, hash_size=2)
    keys, request = new_request(KeyTable(), "r", tuple(range(10)), 4, hash_size=2)
    _, donor = new_request(keys, "donor", tuple(range(6)), 4, hash_size=2)
    snapshot = commit(allocate_slots(empty(config), donor, 6).snapshot, donor, 6)
    return ask(snapshot, request, 1, hit=Hit(num_tokens, ((1,),), tails))


def neglects() -> list[tuple[str, str, Callable[[], object]]]:
    """The name of a duty, how it is neglected, and the call."""
    snapshot, request = running()
    counts, held = "counts-not-negative", "commit-is-held"
    return [
        (counts, "new", ask(empty(CONFIG), FRESH, -1)),
        (counts, "external", ask(empty(CONFIG), FRESH, 2, num_external_computed_tokens=-1)),
        (counts, "lookahead", ask(empty(CONFIG), FRESH, 1, num_lookahead_tokens=-1)),
        (counts, "reserved", ask(empty(CONFIG), FRESH, 1, reserved_blocks=-1)),
        (counts, "committed", lambda: commit(snapshot, request, -1)),
        ("something-to-allocate", "nothing new or adopted", ask(empty(CONFIG), FRESH, 0, num_lookahead_tokens=4)),
        ("within-model-length", "new", ask(empty(CONFIG), FRESH, 25)),
        ("within-model-length", "external", ask(empty(CONFIG), FRESH, 20, num_external_computed_tokens=5)),
        ("table-covers-computed", "no table", ask(empty(CONFIG), replace(FRESH, num_computed_tokens=1), 1)),
        ("table-covers-computed", "a short table", ask(snapshot, replace(request, num_computed_tokens=9), 1)),
        ("adopt-before-holding", "external", ask(snapshot, request, 1, num_external_computed_tokens=1)),
        (
            "in-flight-is-computed",
            "more in flight",
            ask(snapshot, replace(request, flights=(Flight(6, (), False),)), 1),
        ),
        ("hit-is-whole-blocks", "a part of a block", hit(5, (1,), (4,))),
        ("hit-is-whole-blocks", "a group is missing", hit(8, (1, 2))),
        ("hit-is-whole-blocks", "blocks of no token", hit(0, (1, 2), (4, 5))),
        ("hit-is-whole-blocks", "groups differ", hit(8, (1, 2), (4,))),
        (
            "hit-is-whole-blocks",
            "nothing left to compute",
            ask(
                after_a_donor(),
                new_request(KEYS, "r", tuple(range(8)), 4)[1],
                1,
                hit=Hit(8, ((1, 2), (4, 5))),
            ),
        ),
        ("hit-is-current", "a block twice", hit(8, (1, 1), (0, 5))),
        ("hit-is-current", "another position's block", hit(8, (2, 1), (0, 5))),
        ("hit-is-current", "another group's block", hit(8, (1, 5), (0, 2))),
        ("hit-is-current", "null where it is read", hit(8, (0, 2), (0, 5))),
        ("hit-is-current", "an evicted block", ask(empty(CONFIG), FRESH, 1, hit=Hit(4, ((1,), (4,))))),
        ("tail-is-current", "no block to copy from", tail(6, 3)),
        ("tail-is-current", "between two hashes", tail(5, 2)),
        ("tail-is-current", "of nothing", tail(4, 2)),
        ("tail-is-current", "a block too many", tail(6, 2, 2)),
        (
            "tail-is-current",
            "no finer granularity",
            ask(after_a_donor(), FRESH, 1, hit=Hit(5, ((1,), (4,)), (2, 5))),
        ),
        (held, "not finalized", lambda: commit(allocate_slots(empty(CONFIG), FRESH, 12).snapshot, FRESH, 11)),
        (held, "not held", lambda: commit(snapshot, request, 9)),
        ("block-exists", "the null block", lambda: evict_blocks(empty(CONFIG), (0,))),
        ("block-exists", "behind the pool", lambda: evict_blocks(empty(CONFIG), (1, 30))),
    ]


@pytest.mark.parametrize(
    ("name", "call"), [pytest.param(name, call, id=f"{name}: {how}") for name, how, call in neglects()]
)
def test_a_neglected_duty_is_named(name: str, call: Callable[[], object]) -> None:
    with pytest.raises(PreconditionError) as refused:
        call()
    assert (refused.value.name, str(refused.value)) == (name, f"precondition {name}: {PRECONDITIONS[name]}")


def test_every_duty_is_neglected_here() -> None:
    assert {name for name, _, _ in neglects()} == set(PRECONDITIONS)


def test_a_neglected_duty_is_a_value_error() -> None:
    assert issubclass(PreconditionError, ValueError)


def test_calls_at_the_very_edge_of_the_duties_are_answered() -> None:
    """What the calls above neglect by one."""
    snapshot, request = running()
    found = get_computed_blocks(after_a_donor(), FRESH)
    assert found == Hit(8, ((1, 2), (0, 5)))
    assert allocate_slots(empty(CONFIG), FRESH, 24).new_blocks == ((1, 2, 3, 4, 5, 6), (7, 8, 9, 10, 11, 12))  # type: ignore[union-attr]
    assert allocate_slots(after_a_donor(), FRESH, 0, hit=found).new_blocks == ((), ())  # type: ignore[union-attr]
    assert allocate_slots(after_a_donor(), FRESH, 1, hit=Hit(8, ((1, 2), (4, 5)))).new_blocks == ((6,), (3,))  # type: ignore[union-attr]
    assert allocate_slots(snapshot, replace(request, num_computed_tokens=8), 1).new_blocks == ((5,), (6,))  # type: ignore[union-attr]
    assert commit(snapshot, request, 8).holding("r").cached == (2, 2)
    assert evict_blocks(after_a_donor(), (29, 1, 1)).pool.keyed == (2, 4, 5)

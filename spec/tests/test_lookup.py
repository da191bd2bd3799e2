"""Which cached blocks a request may start from."""

from collections.abc import Callable
from typing import Any

import pytest

from slotproof.spec import FullAttention, Hit, SlidingWindow
from slotproof.spec.keys import block_key

EngineOf = Callable[..., Any]
FULL_16 = FullAttention(16)


@pytest.mark.parametrize(("num_tokens", "hit"), [(64, 48), (65, 64), (16, 0), (1, 0)])
def test_at_least_one_token_is_left_to_compute(engine_of: EngineOf, num_tokens: int, hit: int) -> None:
    engine = engine_of(11, FULL_16)
    engine.admit("donor", range(65))
    engine.request("r", range(num_tokens))
    assert engine.look_up("r") == Hit(hit, ((1, 2, 3, 4)[: hit // 16],))


def test_blocks_are_offered_at_scheduling_time_and_after_their_owner_is_gone(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16)
    engine.admit("donor", range(40))
    engine.request("r", range(40))
    same_step = engine.look_up("r")
    engine.free("donor")
    assert engine.look_up("r") == same_step == Hit(32, ((1, 2),))


def test_duplicates_offer_the_block_keyed_first(engine_of: EngineOf) -> None:
    """Two requests without a common step fill the same prefix: both keep their blocks, the older one is offered."""
    engine = engine_of(11, FullAttention(4))
    engine.admit("one", [1, 2, 3, 4])
    engine.admit("two", [1, 2, 3, 4])
    engine.request("r", [1, 2, 3, 4, 5])
    assert (engine.tables("one"), engine.tables("two"), engine.keyed) == (((1,),), ((2,),), (1, 2))
    assert engine.look_up("r") == Hit(4, ((1,),))
    engine.evict(1)
    assert engine.look_up("r") == Hit(4, ((2,),))


def test_salt_and_extra_keys_separate_requests(engine_of: EngineOf) -> None:
    engine = engine_of(11, FullAttention(4))
    engine.request("donor", range(9), cache_salt="s", extra_keys=("lora",))
    engine.ask("donor")
    hits = {}
    identities: dict[str, Any] = {
        "equal": {"cache_salt": "s", "extra_keys": ("lora",)},
        "other salt": {"cache_salt": "t", "extra_keys": ("lora",)},
        "no salt": {"extra_keys": ("lora",)},
        "no extra keys": {"cache_salt": "s"},
        "plain": {},
    }
    for name, identity in identities.items():
        engine.request(name, range(9), **identity)
        hits[name] = engine.look_up(name).num_tokens
    assert hits == {"equal": 8, "other salt": 0, "no salt": 0, "no extra keys": 0, "plain": 0}


def test_nothing_is_found_with_caching_off(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16, caching=False)
    engine.admit("donor", range(65))
    engine.request("r", range(65))
    assert engine.look_up("r") == Hit(0, ((),))


class Hybrid:
    """vLLM's unit test of a hybrid: one full group and two windows of two blocks, a first request of 55 tokens."""

    def __init__(self, engine_of: EngineOf) -> None:
        self.engine = engine_of(21, FULL_16, SlidingWindow(16, 32), SlidingWindow(16, 32))
        self.engine.admit("donor", range(55))
        self.engine.request("r", [*range(48), *range(100, 107)])

    def block(self, group: int, index: int) -> Any:
        key = block_key(self.engine.requests["r"].prefix_key(index), group, 3)
        return self.engine.snapshot.pool.block_of(key)


def test_a_hybrid_hit_has_one_length_and_null_where_no_window_reads(engine_of: EngineOf) -> None:
    hybrid = Hybrid(engine_of)
    assert hybrid.engine.tables("donor") == ((1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12))
    assert hybrid.engine.look_up("r") == Hit(48, ((1, 2, 3), (0, 6, 7), (0, 10, 11)))
    assert hybrid.engine.ask("r").new_blocks == ((13,), (14,), (15,))
    assert hybrid.engine.refs(1, 2, 3, 5, 6, 7, 9, 10, 11) == [2, 2, 2, 1, 2, 2, 1, 2, 2]


@pytest.mark.parametrize(
    ("lost", "length"),
    [
        (((1, 0), (2, 0)), 3),
        (((0, 0),), 0),
        (((0, 2), (1, 2), (2, 2)), 2),
        (((0, 2),), 2),
        (((1, 2),), 2),
        (((2, 2),), 2),
        (((0, 2), (1, 0), (2, 0)), 0),
    ],
)
def test_a_hybrid_hit_is_the_longest_that_every_group_accepts(
    engine_of: EngineOf, lost: tuple[tuple[int, int], ...], length: int
) -> None:
    hybrid = Hybrid(engine_of)
    hybrid.engine.evict(*[hybrid.block(group, index) for group, index in lost])
    assert hybrid.engine.look_up("r").num_tokens == 16 * length


def test_windows_of_different_sizes_shorten_the_hit_until_both_accept_it(engine_of: EngineOf) -> None:
    """Each group alone accepts a length the other does not: 9 and 4 the small window, 7 and 4 the large one."""
    engine = engine_of(60, SlidingWindow(1, 2), SlidingWindow(1, 4))
    engine.admit("donor", range(10))
    engine.request("r", range(10))
    small, large = engine.tables("donor")
    engine.evict(*[small[index] for index in (4, 5, 6, 7)], *[large[index] for index in (7, 8)])
    assert engine.look_up("r") == Hit(4, ((0, 0, 0, small[3]), (0, *large[1:4])))

"""Hits that end inside a block: what is offered for copying, and when. Blocks hold 4 tokens, parts of them 2."""

from collections.abc import Callable
from typing import Any

import pytest

from slotproof.spec import FullAttention, Hit, Part

EngineOf = Callable[..., Any]
FULL_4 = FullAttention(4)


@pytest.fixture
def engine(engine_of: EngineOf) -> Any:
    return engine_of(9, FULL_4, hash_size=2)


def computed(engine: Any, name: str, prompt: Any) -> None:
    """Admit a request, and commit its prompt when its step is done."""
    engine.admit(name, prompt)
    engine.commit(name, engine.requests[name].num_tokens)


def hit(engine: Any, name: str, prompt: Any) -> Hit:
    engine.request(name, prompt)
    found: Hit = engine.look_up(name)
    return found


def test_a_hit_goes_on_inside_the_block_where_two_prompts_part(engine: Any) -> None:
    computed(engine, "donor", range(7))
    assert hit(engine, "r", [0, 1, 2, 3, 4, 5, 8, 9]) == Hit(6, ((1,),), (2,))
    assert hit(engine, "other", [0, 1, 8, 9, 9]) == Hit(2, ((),), (1,))


def test_a_scheduled_block_is_offered_and_its_parts_only_when_they_are_computed(engine: Any) -> None:
    engine.admit("donor", range(7))
    assert hit(engine, "r", range(8)) == Hit(4, ((1,),))
    engine.commit("donor", 5)
    assert hit(engine, "s", range(8)) == Hit(4, ((1,),))
    engine.commit("donor", 6)
    assert hit(engine, "t", range(8)) == Hit(6, ((1,),), (2,))


def test_at_least_one_token_is_left_to_compute(engine: Any) -> None:
    computed(engine, "donor", range(9))
    assert [hit(engine, f"r{n}", range(n)).num_tokens for n in range(1, 10)] == [0, 0, 2, 2, 4, 4, 6, 6, 8]


def test_one_key_a_block_unless_a_finer_granularity_is_asked_for(engine_of: EngineOf) -> None:
    for options in ({}, {"hash_size": 4}):
        engine = engine_of(9, FULL_4, **options)
        computed(engine, "donor", range(7))
        assert hit(engine, "r", [0, 1, 2, 3, 4, 5, 8]) == Hit(4, ((1,),))
        assert (engine.snapshot.parts, len(engine.snapshot.key()), engine.requests["r"].part_keys) == ((), 3, ())


def test_caching_off_offers_nothing(engine_of: EngineOf) -> None:
    engine = engine_of(9, FULL_4, hash_size=2, caching=False)
    computed(engine, "donor", range(7))
    assert (engine.snapshot.parts, engine.keyed, hit(engine, "r", range(7))) == ((), (), Hit(0, ((),)))


def test_the_last_block_is_keyed_by_its_longest_part_until_it_is_full(engine: Any) -> None:
    engine.admit("r", range(10), 6)
    parts = [key for keys in engine.requests["r"].part_keys for key in keys]
    for tokens, due in ((5, parts[0:0]), (6, parts[1:2])):
        engine.commit("r", tokens)
        assert [engine.snapshot.pool.key_of(2)] == (due or [-1])
    engine.ask("r", 2)
    assert engine.snapshot.pool.key_of(2) == engine.requests["r"].prefix_keys[1]
    assert Part(parts[1], 2) in engine.snapshot.parts


def test_a_shorter_commit_takes_nothing_back(engine: Any) -> None:
    computed(engine, "r", range(7))
    before = engine.snapshot
    engine.commit("r", 2)
    engine.commit("r", 5)
    assert engine.snapshot is before


def test_a_draft_is_part_of_nothing_that_is_offered(engine: Any) -> None:
    """5 finalized tokens and 2 drafts; one draft is accepted, and makes the 6th token final."""
    engine.request("r", range(5))
    engine.ask("r", drafts=(5, 7))
    engine.commit("r", 5)
    assert hit(engine, "s", range(8)).num_tokens == 4
    engine.output("r", token=9, accepted=1)
    engine.commit("r", 6)
    assert hit(engine, "t", range(8)) == Hit(6, ((1,),), (2,))
    assert hit(engine, "u", [0, 1, 2, 3, 4, 5, 7, 7]).num_tokens == 6


def test_a_freed_last_block_is_queued_as_a_keyed_one_and_still_offered(engine: Any) -> None:
    computed(engine, "donor", range(7))
    engine.free("donor")
    assert engine.queue == (3, 4, 5, 6, 7, 8, 2, 1)
    assert hit(engine, "r", range(7)) == Hit(6, ((1,),), (2,))


def test_eviction_takes_all_keys_of_a_block(engine: Any) -> None:
    computed(engine, "donor", range(7))
    engine.evict(1)
    assert hit(engine, "r", range(7)) == Hit(0, ((),))
    engine.evict(2)
    assert (engine.snapshot.parts, engine.keyed) == ((), ())
    engine.commit("donor", 7)
    assert {part.block for part in engine.snapshot.parts} == {2}


def test_a_popped_block_offers_nothing_of_what_it_held(engine_of: EngineOf) -> None:
    engine = engine_of(4, FULL_4, hash_size=2)
    computed(engine, "donor", range(7))
    engine.free("donor")
    engine.admit("r", range(20, 28))
    assert engine.tables("r") == ((3, 2),)
    assert {part.block for part in engine.snapshot.parts} == {1}


def test_a_reset_offers_nothing(engine: Any) -> None:
    computed(engine, "donor", range(7))
    engine.free("donor")
    assert engine.reset()
    assert engine.snapshot.parts == ()


def test_of_several_blocks_with_one_part_the_first_is_copied_from(engine: Any) -> None:
    for name, tail in (("one", [1, 1]), ("two", [2, 2])):
        engine.admit(name, [0, 0, *tail])
    engine.commit("two", 4)
    engine.commit("one", 4)
    assert hit(engine, "r", [0, 0, 3]) == Hit(2, ((),), (2,))
    engine.evict(2)
    assert hit(engine, "s", [0, 0, 3]) == Hit(2, ((),), (1,))


def test_a_part_must_be_offered_in_every_group(engine_of: EngineOf) -> None:
    engine = engine_of(13, FULL_4, FULL_4, hash_size=2)
    computed(engine, "donor", range(7))
    assert engine.tables("donor") == ((1, 2), (3, 4))
    assert hit(engine, "r", range(7)) == Hit(6, ((1,), (3,)), (2, 4))
    engine.evict(4)
    assert hit(engine, "s", range(7)) == Hit(4, ((1,), (3,)))


def test_salts_and_extra_keys_keep_parts_apart(engine: Any) -> None:
    engine.request("donor", range(7), cache_salt="s", extra_keys=("x",))
    engine.ask("donor")
    engine.commit("donor", 7)
    hits = {}
    for name, identity in {"equal": {"cache_salt": "s", "extra_keys": ("x",)}, "salt": {"extra_keys": ("x",)}}.items():
        engine.request(name, range(3), **identity)
        hits[name] = engine.look_up(name).num_tokens
    assert hits == {"equal": 2, "salt": 0}

"""What a hit that ends inside a block costs, and who holds both ends of the copy. Blocks hold 4 tokens, parts 2."""

from collections.abc import Callable
from typing import Any

import pytest

from slotproof.spec import Allocation, Copy, FullAttention, Hit, PreconditionError, Refusal

EngineOf = Callable[..., Any]
FULL_4 = FullAttention(4)


def with_a_donor(engine_of: EngineOf, num_blocks: int, *, idle: bool, **options: Any) -> Any:
    """Blocks 1 (keyed) and 2 (its first two tokens keyed) hold 7 tokens, and are idle or held."""
    engine = engine_of(num_blocks, FULL_4, hash_size=2, **options)
    engine.admit("donor", range(7))
    engine.commit("donor", 7)
    if idle:
        engine.free("donor")
    return engine


def test_the_end_of_a_hit_is_copied_into_a_block_of_its_own(engine_of: EngineOf) -> None:
    engine = with_a_donor(engine_of, 6, idle=False)
    answer = engine.admit("r", [*range(6), 8, 9])
    assert (answer.new_blocks, engine.tables("r")) == (((3,),), ((1, 3),))
    assert engine.snapshot.copies == (Copy(2, 3),)
    assert engine.refs(1, 2, 3) == [2, 2, 2]


def test_both_ends_stay_held_until_the_copy_is_done(engine_of: EngineOf) -> None:
    engine = with_a_donor(engine_of, 6, idle=False)
    engine.admit("r", [*range(6), 8])
    engine.free("r")
    engine.preempt("donor")
    assert (engine.refs(1, 2, 3), engine.queue) == ([0, 1, 1], (4, 5, 1))
    engine.release_copy()
    assert (engine.refs(2, 3), engine.queue, engine.snapshot.copies) == ([0, 0], (3, 4, 5, 1, 2), ())


def test_a_copy_that_is_done_leaves_its_blocks_to_their_owners(engine_of: EngineOf) -> None:
    engine = with_a_donor(engine_of, 6, idle=False)
    engine.admit("r", [*range(6), 8])
    engine.release_copy()
    assert (engine.refs(1, 2, 3), engine.queue) == ([2, 1, 1], (4, 5))
    engine.release_copy()
    assert engine.refs(1, 2, 3) == [2, 1, 1]


@pytest.mark.parametrize(("idle", "usable"), [(False, 3), (True, 3)])
def test_a_private_block_is_charged_and_an_idle_source_too(engine_of: EngineOf, idle: bool, usable: int) -> None:
    """Held hits: one block of one free. Idle hits: three blocks of three free. One less is refused."""
    engine = with_a_donor(engine_of, usable + 1, idle=idle)
    assert isinstance(engine.admit("r", [*range(6), 8]), Allocation)
    assert (engine.num_free, engine.tables("r"), engine.snapshot.copies) == (0, ((1, 3),), (Copy(2, 3),))
    engine = with_a_donor(engine_of, usable + 1, idle=idle)
    before = engine.snapshot
    refusal = engine.admit("r", [*range(6), 8], reserved_blocks=1)
    assert isinstance(refusal, Refusal)
    assert refusal.needed == (3 if idle else 1)
    assert engine.snapshot is before


def test_what_is_copied_from_is_never_the_block_popped(engine_of: EngineOf) -> None:
    """Block 2 is the front of the queue and the source: it is pinned before anything is popped."""
    engine = with_a_donor(engine_of, 4, idle=True)
    engine.admit("filler", range(50, 54))
    assert engine.queue == (2, 1)
    assert isinstance(engine.admit("r", [*range(6), 8]), Refusal)
    engine.free("filler")
    assert engine.queue == (2, 1, 3)
    assert isinstance(engine.admit("s", [*range(6), 8]), Allocation)
    assert (engine.tables("s"), engine.snapshot.copies) == (((1, 3),), (Copy(2, 3),))


def test_a_request_that_can_never_have_its_copy_hears_so(engine_of: EngineOf) -> None:
    """3 usable blocks: 1 whole, the source and the copy leave none for the last token."""
    engine = with_a_donor(engine_of, 4, idle=True)
    refusal = engine.admit("r", [*range(6), 8, 9, 10])
    assert isinstance(refusal, Refusal)
    assert refusal.never
    assert isinstance(engine.admit("s", [*range(6), 8, 9]), Allocation)


def test_who_can_never_have_its_copy_may_fit_with_the_whole_blocks_of_its_hit(engine_of: EngineOf) -> None:
    engine = with_a_donor(engine_of, 4, idle=True)
    engine.admit("r", [*range(6), 8, 9, 10])
    engine.look_up = lambda name: Hit(4, ((1,),))
    assert isinstance(engine.ask("r"), Allocation)
    assert (engine.tables("r"), engine.snapshot.copies) == (((1, 3, 2),), ())


def test_external_tokens_go_on_behind_the_copy(engine_of: EngineOf) -> None:
    engine = with_a_donor(engine_of, 9, idle=False)
    answer = engine.admit("r", [*range(6), *range(20, 30)], num_external_computed_tokens=5)
    assert (engine.tables("r"), answer.new_blocks) == (((1, 3, 4, 5),), ((5,),))
    assert engine.snapshot.copies == (Copy(2, 3),)


def test_each_group_copies_for_itself(engine_of: EngineOf) -> None:
    engine = engine_of(13, FULL_4, FULL_4, hash_size=2)
    engine.admit("donor", range(7))
    engine.commit("donor", 7)
    engine.admit("r", [*range(6), 8])
    assert engine.tables("r") == ((1, 5), (3, 6))
    assert engine.snapshot.copies == (Copy(2, 5), Copy(4, 6))


def test_copies_end_in_the_order_in_which_they_began(engine_of: EngineOf) -> None:
    engine = with_a_donor(engine_of, 9, idle=False)
    for name in "rs":
        engine.admit(name, [*range(6), 8])
    assert (engine.snapshot.copies, engine.refs(2)) == ((Copy(2, 3), Copy(2, 4)), [3])
    engine.release_copy()
    assert (engine.snapshot.copies, engine.refs(2, 3, 4)) == ((Copy(2, 4),), [2, 1, 2])


def test_the_copy_gets_its_full_key_when_it_fills(engine_of: EngineOf) -> None:
    engine = with_a_donor(engine_of, 9, idle=False)
    engine.admit("r", [*range(6), 8, 9, 10])
    assert engine.snapshot.pool.key_of(3) == engine.requests["r"].prefix_keys[1]
    assert engine.counters("r") == (2,)


@pytest.mark.parametrize(
    "wrong",
    [
        Hit(6, ((1,),), (1,)),
        Hit(6, ((1,),), ()),
        Hit(6, ((1,),), (2, 2)),
        Hit(5, ((1,),), (2,)),
        Hit(4, ((1,),), (2,)),
    ],
    ids=["of another block", "no tail", "two tails", "between two hashes", "of nothing"],
)
def test_a_hit_that_was_not_found_so_is_refused_by_name(engine_of: EngineOf, wrong: Hit) -> None:
    engine = with_a_donor(engine_of, 9, idle=False)
    engine.request("r", [*range(6), 8])
    engine.look_up = lambda name: wrong
    with pytest.raises(PreconditionError) as refused:
        engine.ask("r")
    assert refused.value.name == ("tail-is-current" if wrong.tails else "hit-is-whole-blocks")

from collections.abc import Callable

import pytest

from slotproof.spec.pool import (
    NO_BLOCK,
    NO_KEY,
    NULL_BLOCK,
    Pool,
    drop_reference,
    enqueue_keyed,
    enqueue_keyless,
    enqueue_released,
    evict_block,
    key_block,
    pin_block,
    pop_head,
)

Step = Callable[[int, Pool], Pool]

FRESH = Pool(refs=(0, 0, 0, 0), keys=(-1, -1, -1, -1), queue=(1, 2, 3), keyed=())
RELEASED = Pool(refs=(0, 0, 0, 1), keys=(-1, -1, 9, -1), queue=(), keyed=(2,))
"""Block 1 is keyless and released, block 2 keyed and released, block 3 still held."""


def test_a_fresh_pool_queues_all_but_the_null_block() -> None:
    assert Pool.fresh(4) == FRESH
    assert (FRESH.num_blocks, FRESH.num_free(), FRESH.head(), FRESH.key_of(1)) == (4, 3, 1, NO_KEY)


def test_popping_takes_the_head_with_its_first_reference_and_without_its_key() -> None:
    keyed = FRESH.with_key(1, 7)
    assert pop_head(keyed) == (Pool((0, 1, 0, 0), (-1, -1, -1, -1), (2, 3), ()), 1)


def test_pinning_an_idle_block_takes_it_out_of_the_queue_from_wherever_it_stands() -> None:
    pinned = pin_block(2, FRESH)
    assert pinned == Pool((0, 0, 1, 0), (-1, -1, -1, -1), (1, 3), ())
    assert pin_block(2, pinned) == Pool((0, 0, 2, 0), (-1, -1, -1, -1), (1, 3), ())


def test_dropping_a_reference_queues_nothing_yet() -> None:
    assert drop_reference(3, RELEASED) == Pool((0, 0, 0, 0), (-1, -1, 9, -1), (), (2,))


@pytest.mark.parametrize(
    ("enqueue", "queued"),
    [(enqueue_keyless, (1,)), (enqueue_keyed, (2,)), (enqueue_released, (1, 2))],
)
def test_each_rule_of_the_queue_takes_the_released_blocks_it_is_about(enqueue: Step, queued: tuple[int, ...]) -> None:
    assert tuple(block for block in (1, 2, 3) if enqueue(block, RELEASED).queue == (block,)) == queued


def test_keyless_blocks_go_to_the_front_and_keyed_ones_to_the_back() -> None:
    pool = Pool((0, 0, 0, 0), (-1, -1, 9, -1), (3,), (2,))
    assert (enqueue_keyless(1, pool).queue, enqueue_keyed(2, pool).queue) == ((1, 3), (3, 2))
    assert enqueue_released(1, pool).queue == (3, 1)


def test_of_several_blocks_with_one_key_the_first_keyed_is_offered() -> None:
    both = FRESH.with_key(3, 7).with_key(1, 7)
    assert (both.block_of(7), both.keyed, both.block_of(8)) == (3, (3, 1), NO_BLOCK)
    assert both.with_key(3, NO_KEY).block_of(7) == 1
    assert both.with_key(3, 7).block_of(7) == 1


def test_evicting_takes_the_key_only() -> None:
    pool = pin_block(2, key_block(2, 7, FRESH))
    assert evict_block(2, pool) == Pool((0, 0, 1, 0), (-1, -1, -1, -1), (1, 3), ())
    assert evict_block(1, pool) is pool


@pytest.mark.parametrize(
    "step",
    [
        pin_block,
        drop_reference,
        enqueue_keyless,
        enqueue_keyed,
        enqueue_released,
        lambda block, pool: key_block(block, 7, pool),
        evict_block,
    ],
)
def test_no_step_touches_the_null_block(step: Step) -> None:
    assert step(NULL_BLOCK, RELEASED) is RELEASED

import pytest

from slotproof.impl import AllocatorConfig, FullAttention, Request
from slotproof.impl.pool import BlockPool


def pool_of(num_blocks: int, free_order: str = "unhashed-first") -> BlockPool:
    return BlockPool(AllocatorConfig(num_blocks, (FullAttention(2),), 100, free_order=free_order))


@pytest.mark.parametrize(
    ("free_order", "expected"),
    [("unhashed-first", [5, 6, 7, 8, 4, 3, 2, 1]), ("lru", [6, 7, 8, 5, 4, 3, 2, 1])],
)
def test_free_order_of_four_keyed_blocks_and_a_tail(free_order: str, expected: list[int]) -> None:
    pool = pool_of(9, free_order)
    table = pool.take(5)
    pool.store_keys(Request("r", range(9), block_size=2), table, 0, 4, 0)
    pool.release(reversed(table))
    assert list(pool.queue) == expected


def test_shared_block_is_queued_when_the_last_holder_lets_go() -> None:
    pool = pool_of(4)
    [block] = pool.take(1)
    pool.touch([block], [])
    assert (pool.refs[block], pool.queue.count) == (2, 2)
    pool.release([block])
    assert (pool.refs[block], pool.queue.count) == (1, 2)
    pool.release([block])
    assert (pool.refs[block], pool.queue.count) == (0, 3)


def test_an_idle_run_leaves_the_queue_in_one_step() -> None:
    pool = pool_of(8)
    table = pool.take(5)
    pool.release(reversed(table))
    assert list(pool.queue) == [5, 4, 3, 2, 1, 6, 7]
    assert [pool.is_idle_run(blocks) for blocks in ([1, 2, 3], [4, 5], [2], [3, 2], [1, 3], [])] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    pool.touch_run([2, 3, 4])
    assert (list(pool.queue), pool.refs[1:6], pool.queue.count) == ([5, 1, 6, 7], [0, 1, 1, 1, 0], 4)
    assert not pool.is_idle_run([1, 2])


def test_touching_an_idle_block_takes_it_out_of_the_middle() -> None:
    pool = pool_of(6)
    pool.store_keys(Request("r", range(6), block_size=2), pool.take(3), 0, 3, 0)
    pool.release([1, 2, 3])
    pool.touch([2], [2])
    assert (list(pool.queue), pool.refs[2]) == ([4, 5, 1, 3], 1)


def test_taking_drops_keys() -> None:
    pool = pool_of(3)
    pool.store_keys(Request("r", range(4), block_size=2), [0, *pool.take(1)], 0, 2, 0)
    assert list(pool.index) == [1]
    pool.release([1])
    assert (list(pool.queue), pool.refs) == ([2, 1], [0, 0, 0])
    assert (pool.take(2), list(pool.index)) == ([2, 1], [])


def test_keys_are_cleared_only_when_nothing_is_held() -> None:
    pool = pool_of(4)
    pool.store_keys(Request("r", range(2), block_size=2), pool.take(1), 0, 1, 0)
    assert (pool.clear_keys(), list(pool.index)) == (False, [1])
    pool.release([1])
    assert (pool.clear_keys(), list(pool.index), list(pool.queue)) == (True, [], [2, 3, 1])

import random
from collections import deque

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
    pool.release(table)
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
    pool.release(table)
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
    assert (list(pool.queue), pool.refs[2]) == ([4, 5, 3, 1], 1)


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


@pytest.mark.parametrize("free_order", ["unhashed-first", "lru"])
def test_agrees_with_a_deque_on_random_tables(free_order: str) -> None:
    rng, pool, queue = random.Random(3), pool_of(20, free_order), deque(range(1, 20))
    holders, keyed, tables, freed, named, runs = [0] * 20, set[int](), list[list[int]](), list[int](), 0, 0
    for _ in range(3000):
        step = rng.randrange(3)
        if step == 0 and queue:
            count = rng.randint(1, min(len(queue), 6))
            table = [pool.take_one()] if count == 1 else pool.take(count)
            assert table == [queue.popleft() for _ in range(count)]
            keyed -= set(table)
            full, named = rng.choice([count, rng.randint(0, count)]), named + 1
            pool.store_keys(Request("r", [named] * 2 * count, block_size=2), table, 0, full, 0)
            keyed |= set(table[:full])
            tables.append(table)
        elif step == 1 and keyed:
            table = rng.sample(sorted(keyed), rng.randint(1, min(len(keyed), 3)))
            if freed and keyed.issuperset(freed):
                table = freed[::-1]
            idle = [block for block in table if not holders[block]]
            if pool.is_idle_run(table):
                assert [queue[queue.index(table[-1]) + place] for place in range(len(table))] == table[::-1]
                pool.touch_run(table)
                runs += 1
            else:
                pool.touch(table, idle)
            for block in idle:
                queue.remove(block)
            tables.append(table)
        elif step == 2 and tables:
            table = tables.pop(rng.randrange(len(tables)))
            pool.release(table)
            freed = [block for block in reversed(table) if holders[block] == 1]
            front = [block for block in freed if free_order != "lru" and block not in keyed]
            queue.extend(block for block in freed if block not in front)
            queue.extendleft(reversed(front))
        holders = [sum(table.count(block) for table in tables) for block in range(20)]
        assert (list(pool.queue), pool.queue.count, pool.refs) == (list(queue), len(queue), holders)
        assert set(pool.index) == keyed
    assert runs > 10

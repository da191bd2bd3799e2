import random
from collections import deque

from slotproof.impl.free_queue import FreeQueue


def test_starts_with_every_block_but_null() -> None:
    queue = FreeQueue(5)
    assert (list(queue), queue.count) == ([1, 2, 3, 4], 4)


def test_runs_keep_their_order_at_the_front() -> None:
    queue = FreeQueue(7)
    assert queue.pop(6) == [1, 2, 3, 4, 5, 6]
    assert (list(queue), queue.count) == ([], 0)
    queue.push_front([3, 1])
    queue.push_front([6, 5])
    assert (list(queue), queue.count) == ([6, 5, 3, 1], 4)
    assert (queue.pop(2), list(queue), queue.count) == ([6, 5], [3, 1], 2)


def test_removes_at_the_ends_and_in_the_middle() -> None:
    queue = FreeQueue(6)
    queue.remove([3, 1, 5])
    assert (list(queue), queue.count, queue.pop(2)) == ([2, 4], 2, [2, 4])


def test_popping_nothing_changes_nothing() -> None:
    queue = FreeQueue(3)
    assert (queue.pop(0), list(queue)) == ([], [1, 2])


def test_agrees_with_a_deque_on_random_operations() -> None:
    rng = random.Random(1)
    queue, model, out = FreeQueue(20), deque(range(1, 20)), list[int]()
    for _ in range(5000):
        step = rng.randrange(3)
        if step == 0:
            count = rng.randint(0, len(model))
            popped = queue.pop(count)
            assert popped == [model.popleft() for _ in range(count)]
            out += popped
        elif step == 1 and model:
            removed = rng.sample(list(model), rng.randint(1, min(len(model), 3)))
            queue.remove(removed)
            for block in removed:
                model.remove(block)
            out += removed
        elif step == 2:
            rng.shuffle(out)
            run, out = out[: len(out) // 2], out[len(out) // 2 :]
            queue.push_front(run)
            model.extendleft(reversed(run))
        assert (list(queue), queue.count) == (list(model), len(model))

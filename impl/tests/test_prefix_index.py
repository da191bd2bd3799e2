import random

from slotproof.impl.prefix_index import PrefixIndex


def add(index: PrefixIndex, block: int, group: int, key: bytes) -> None:
    index.add(group, [block], [key], 0, 1)


def drop(index: PrefixIndex, block: int) -> bytes | None:
    """The hash that the block had."""
    had, before = index.hash_of[block], index.num_dropped
    index.drop([block])
    assert index.num_dropped - before == (had is not None)
    return had


def find(index: PrefixIndex, group: int, key: bytes) -> int:
    return index.offered[group].get(key, 0)


def test_null_entries_get_no_key() -> None:
    index = PrefixIndex(5, 1)
    index.add(0, [0, 3, 0, 4], [b"a", b"b", b"c", b"d"], 1, 4)
    assert index.hash_of == [None, None, None, b"b", b"d"]
    assert dict(index.offered[0]) == {b"b": 3, b"d": 4}


def test_offers_the_block_keyed_first_that_still_carries_the_key() -> None:
    index = PrefixIndex(10, 1)
    for block in (5, 2, 7):
        add(index, block, 0, b"k")
    assert (find(index, 0, b"k"), list(index)) == (5, [5, 2, 7])
    assert drop(index, 5) == b"k"
    assert (find(index, 0, b"k"), list(index)) == (2, [2, 7])
    assert drop(index, 7) == b"k"
    add(index, 5, 0, b"k")
    assert list(index) == [2, 5]
    assert (drop(index, 2), drop(index, 5), drop(index, 5)) == (b"k", b"k", None)
    assert (find(index, 0, b"k"), list(index)) == (0, [])


def test_groups_are_apart() -> None:
    index = PrefixIndex(10, 2)
    add(index, 3, 1, b"k")
    assert (find(index, 0, b"k"), find(index, 1, b"k")) == (0, 3)
    assert index.first_stale(1, [3], [b"k"], 0) is None
    assert (index.first_stale(0, [3], [b"k"], 0), index.first_stale(1, [3], [b"x"], 0)) == (0, 0)


def test_first_stale_position() -> None:
    index = PrefixIndex(4, 1)
    add(index, 2, 0, b"a")
    add(index, 3, 0, b"b")
    hashes = [b"a", b"b"]
    assert index.first_stale(0, [2, 3], hashes, 0) is None
    assert [index.first_stale(0, [2, bad], hashes, 1) for bad in (-1, 0, 1, 2, 4, 99)] == [1] * 6
    assert (index.first_stale(0, [0, 3], hashes, 1), index.first_stale(0, [0, 3], hashes, 0)) == (None, 0)


def test_clear_leaves_nothing() -> None:
    index = PrefixIndex(6, 2)
    for block, group, key in ((1, 0, b"a"), (2, 0, b"a"), (3, 0, b"b"), (4, 1, b"a")):
        add(index, block, group, key)
    index.clear()
    assert (list(index), index.hash_of) == ([], [None] * 6)


def test_agrees_with_ordered_lists_on_random_operations() -> None:
    rng = random.Random(2)
    index, model = PrefixIndex(12, 2), dict[tuple[int, bytes], list[int]]()
    keyed = dict[int, tuple[int, bytes]]()
    for _ in range(5000):
        block = rng.randrange(1, 12)
        if block in keyed:
            model[keyed[block]].remove(block)
            assert drop(index, block) == keyed.pop(block)[1]
        else:
            key = (rng.randrange(2), rng.choice([b"a", b"b"]))
            add(index, block, *key)
            model.setdefault(key, []).append(block)
            keyed[block] = key
        for key, blocks in model.items():
            assert find(index, *key) == (blocks[0] if blocks else 0)
            assert [block for block in index if keyed[block] == key] == blocks

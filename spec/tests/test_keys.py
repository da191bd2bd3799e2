from slotproof.spec import KeyTable
from slotproof.spec.keys import ROOT_KEY, block_key


def test_equal_prefixes_have_equal_keys_and_different_ones_do_not() -> None:
    first_table, first = KeyTable().intern(ROOT_KEY, (1, 2), ())
    table, second = first_table.intern(first, (1, 2), ())
    table, salted = table.intern(ROOT_KEY, (1, 2), ("salt:s",))
    table, again = table.intern(ROOT_KEY, (1, 2), ())
    assert [first, second, salted, again] == [0, 1, 2, 0]


def test_a_table_that_knows_the_prefix_is_returned_as_it_is() -> None:
    table, key = KeyTable().intern(ROOT_KEY, (1,), ())
    assert table.intern(ROOT_KEY, (1,), ()) == (table, key)
    assert table.intern(ROOT_KEY, (1,), ())[0] is table


def test_learning_a_prefix_leaves_the_older_table_alone() -> None:
    older = KeyTable()
    older.intern(ROOT_KEY, (1,), ())
    assert dict(older.entries) == {}


def test_groups_never_share_a_key() -> None:
    keys = [block_key(prefix, group, num_groups=3) for prefix in range(4) for group in range(3)]
    assert keys == list(range(12))

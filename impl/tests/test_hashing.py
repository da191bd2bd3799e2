from itertools import combinations

import pytest

from slotproof.impl.hashing import BlockHasher, ExtraKey

PLAIN = BlockHasher(4, None, ())


def test_every_token_matters() -> None:
    base = PLAIN.digest(None, [1, 2, 3, 4])
    for position in range(4):
        for other in (0, 5, -1, 2**40):
            tokens = [1, 2, 3, 4]
            tokens[position] = other
            assert PLAIN.digest(None, tokens) != base
    assert PLAIN.digest(None, [1, 2, 3, 4]) == base
    assert len(base) == 32


def test_token_boundaries_are_unambiguous() -> None:
    digests = {PLAIN.digest(None, tokens) for tokens in ([1, 0, 0, 0], [0, 1, 0, 0], [256, 0, 0, 0], [11, 1, 0, 0])}
    assert len(digests) == 4


def test_parent_matters() -> None:
    first, second = PLAIN.digest(None, [0] * 4), PLAIN.digest(None, [1] * 4)
    assert len({PLAIN.digest(parent, [7] * 4) for parent in (None, first, second)}) == 3


def test_salt_and_extra_keys_are_told_apart() -> None:
    salts: tuple[str | None, ...] = (None, "", "a", "ab", "asb")
    keys: tuple[tuple[ExtraKey, ...], ...] = (
        (),
        ("",),
        ("", ""),
        ("a",),
        ("ab",),
        ("a", "b"),
        ("asb",),
        ("b", "a"),
        (b"a",),
        (1,),
        ("1",),
        (-1,),
        ("\ud800",),
    )
    digests = [BlockHasher(4, salt, key).digest(None, [0] * 4) for salt in salts for key in keys]
    assert all(one != other for one, other in combinations(digests, 2))


def test_salt_counts_in_the_first_block_only_and_extra_keys_in_every_block() -> None:
    salted, keyed = BlockHasher(4, "salt", ()), BlockHasher(4, None, ("adapter",))
    parent = PLAIN.digest(None, [0] * 4)
    assert salted.digest(parent, [1] * 4) == PLAIN.digest(parent, [1] * 4)
    assert keyed.digest(parent, [1] * 4) != PLAIN.digest(parent, [1] * 4)


def test_unknown_kind_of_extra_key_is_named() -> None:
    with pytest.raises(ValueError, match=r"extra key 1\.5 is a float; use str, int or bytes"):
        BlockHasher(4, None, (1.5,))  # type: ignore[arg-type]

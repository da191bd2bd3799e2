"""The content oracle: a request reads its own prefix and nothing else."""

import pytest

from slotproof.conformance.oracle import ContentOracle
from slotproof.spec.keys import KeyTable
from slotproof.spec.request import Request, new_request

BLOCK_SIZE = 2


def request(*tokens: int, salt: str | None = None, extra: tuple[str, ...] = ()) -> Request:
    return new_request(KeyTable(), "A", tokens, BLOCK_SIZE, salt, extra)[1]


@pytest.fixture
def oracle() -> ContentOracle:
    """Blocks 1 and 2 hold the prefix 1 2 3 4."""
    oracle = ContentOracle(BLOCK_SIZE)
    oracle.write([[1, 2]], oracle.contents(request(1, 2, 3, 4)), 0, 4)
    return oracle


def test_a_prefix_that_was_written_is_read_by_every_request_that_begins_with_it(oracle: ContentOracle) -> None:
    assert oracle.misread([[1, 2]], oracle.contents(request(1, 2, 3, 4)), 4) is None
    assert oracle.misread([[1, 2]], oracle.contents(request(1, 2, 3, 4, 5)), 4) is None
    assert oracle.misread([[1, 9]], oracle.contents(request(1, 2, 9, 9)), 2) is None


def test_a_block_behind_another_prefix_is_seen_though_its_own_tokens_are_equal(oracle: ContentOracle) -> None:
    """Given tokens 3 4 behind 1 2, when they are read behind nothing, then the prefix before them is named."""
    misread = oracle.misread([[2]], oracle.contents(request(3, 4)), 2)
    assert misread == "block 2 is read for position 0 of [3] and holds [1 2 3]"


def test_a_block_that_was_never_written_holds_nothing_known(oracle: ContentOracle) -> None:
    misread = oracle.misread([[1, 3]], oracle.contents(request(1, 2, 3, 4)), 3)
    assert misread == "block 3 is read for position 2 of [1 2 3] and holds [nothing known]"


def test_a_salt_and_extra_keys_are_part_of_the_content(oracle: ContentOracle) -> None:
    misread = oracle.misread([[1]], oracle.contents(request(1, 2, salt="s", extra=("x",))), 1)
    assert misread == "block 1 is read for position 0 of [1 under ('s', ('x',))] and holds [1]"


def test_only_what_is_read_must_be_right(oracle: ContentOracle) -> None:
    contents = oracle.contents(request(1, 2, 3, 9))
    assert oracle.misread([[1, 2]], contents, 3) is None
    assert oracle.misread([[1, 2]], contents, 4) == "block 2 is read for position 3 of [1 2 3 9] and holds [1 2 3 4]"


def test_a_null_entry_is_not_read(oracle: ContentOracle) -> None:
    assert oracle.misread([[0, 2]], oracle.contents(request(1, 2, 3, 4)), 4) is None


def test_reading_past_the_table_is_seen(oracle: ContentOracle) -> None:
    misread = oracle.misread([[1]], oracle.contents(request(1, 2, 3)), 3)
    assert misread == "3 tokens are read through a table of 1 blocks"


def test_every_group_is_read(oracle: ContentOracle) -> None:
    oracle.write([[3, 4]], oracle.contents(request(7, 7)), 0, 2)
    misread = oracle.misread([[1], [3]], oracle.contents(request(1, 2)), 2)
    assert misread == "block 3 is read for position 0 of [1] and holds [7]"


def test_another_request_that_writes_a_block_takes_it_over(oracle: ContentOracle) -> None:
    oracle.write([[2]], oracle.contents(request(8, 9)), 0, 2)
    assert oracle.misread([[2]], oracle.contents(request(8, 9)), 2) is None
    misread = oracle.misread([[1, 2]], oracle.contents(request(1, 2, 3, 4)), 4)
    assert misread == "block 2 is read for position 2 of [1 2 3] and holds [8]"


def test_a_draft_is_content_until_the_final_token_is_written_over_it(oracle: ContentOracle) -> None:
    """Given a draft 5 behind 1 2 3 4, when token 6 is computed instead, then 6 is read and no longer 5."""
    drafted = oracle.contents(request(1, 2, 3, 4), drafts=(5,))
    oracle.write([[1, 2, 3]], drafted, 4, 5)
    assert oracle.misread([[1, 2, 3]], oracle.contents(request(1, 2, 3, 4, 5)), 5) is None

    final = oracle.contents(request(1, 2, 3, 4, 6))
    expected = "block 3 is read for position 4 of [1 2 3 4 6] and holds [1 2 3 4 5]"
    assert oracle.misread([[1, 2, 3]], final, 5) == expected

    oracle.write([[1, 2, 3]], final, 4, 5)
    assert oracle.misread([[1, 2, 3]], final, 5) is None


def test_a_token_that_is_not_sampled_yet_is_nothing_known(oracle: ContentOracle) -> None:
    oracle.write([[1, 2, 3]], oracle.contents(request(1, 2, 3, 4)), 4, 5)
    misread = oracle.misread([[1, 2, 3]], oracle.contents(request(1, 2, 3, 4, 5)), 5)
    assert misread == "block 3 is read for position 4 of [1 2 3 4 5] and holds [nothing known]"


def test_a_step_does_not_write_past_its_table(oracle: ContentOracle) -> None:
    oracle.write([[3]], oracle.contents(request(1, 2, 3, 4)), 0, 4)
    assert oracle.misread([[3]], oracle.contents(request(1, 2)), 2) is None


def test_copies_are_made_of_what_blocks_held_before_all_of_them() -> None:
    oracle, donor = ContentOracle(2), request(1, 2, 3, 4)
    contents = oracle.contents(donor)
    oracle.write([(1, 2)], contents, 0, 4)
    oracle.copy([(1, 2), (2, 1), (1, 3)])
    assert oracle.misread([(2, 1)], contents, 4) is None
    assert oracle.misread([(3, 1)], contents, 4) is None
    oracle.write([(3,)], oracle.contents(request(1, 9)), 1, 2)
    assert oracle.misread([(2, 1)], contents, 4) is None
    assert oracle.misread([(3, 1)], contents, 4) == "block 3 is read for position 1 of [1 2] and holds [1 9]"

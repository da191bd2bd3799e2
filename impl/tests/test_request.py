import pytest

from slotproof.impl import Request, RequestStatus


def test_starts_waiting_with_its_prompt_hashed() -> None:
    request = Request("r", range(10), block_size=4)
    assert (request.num_tokens, request.num_prompt_tokens, len(request.block_hashes)) == (10, 10, 2)
    assert (request.num_computed_tokens, request.num_in_flight_tokens) == (0, 0)
    assert request.status is RequestStatus.WAITING
    assert repr(request) == "Request('r', 10 tokens, 0 computed, waiting)"


def test_appending_gives_the_hashes_of_the_whole() -> None:
    whole = Request("whole", range(23), block_size=4)
    grown = Request("grown", range(3), block_size=4)
    for tokens in ([3], [4, 5, 6, 7, 8], [], range(9, 23)):
        grown.append(tokens)
    assert grown.token_ids == whole.token_ids
    assert grown.block_hashes == whole.block_hashes
    assert (len(grown.block_hashes), grown.num_prompt_tokens) == (5, 3)


def test_hashes_agree_exactly_on_the_common_full_blocks() -> None:
    one = Request("one", [1, 2, 3, 4, 5, 6, 7, 8], block_size=2)
    other = Request("other", [1, 2, 3, 4, 5, 0, 7, 8], block_size=2)
    assert [a == b for a, b in zip(one.block_hashes, other.block_hashes, strict=True)] == [True, True, False, False]


def test_salt_reaches_every_block_through_the_chain() -> None:
    plain = Request("plain", range(8), block_size=2)
    salted = Request("salted", range(8), block_size=2, cache_salt="s")
    assert not set(plain.block_hashes) & set(salted.block_hashes)
    assert salted.block_hashes == Request("again", range(8), block_size=2, cache_salt="s").block_hashes


@pytest.mark.parametrize("bad", [[2**63], [-(2**63) - 1], ["x"], [None], [1.5]])
def test_bad_token_changes_nothing(bad: list[int]) -> None:
    request = Request("r", [1, 2, 3], block_size=2)
    before = list(request.token_ids), list(request.block_hashes)
    with pytest.raises(ValueError, match="request 'r': token ids must be 64-bit signed integers"):
        request.append([4, *bad])
    assert (request.token_ids, request.block_hashes) == before


def test_extreme_tokens_are_fine() -> None:
    assert len(Request("r", [2**63 - 1, -(2**63)], block_size=1).block_hashes) == 2


def test_block_size_must_be_positive() -> None:
    with pytest.raises(ValueError, match="request 'r': block_size is 0; give at least 1 token"):
        Request("r", [1], block_size=0)

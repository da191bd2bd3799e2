from dataclasses import replace

import pytest

from slotproof.spec import KeyTable, Request, Status, append_tokens, new_request, schedule, settle
from slotproof.spec.request import Flight, await_load, propose, withdraw


def request_of(*tokens: int, block_size: int = 4, **identity: object) -> Request:
    return new_request(KeyTable(), "r", tokens, block_size, **identity)[1]  # type: ignore[arg-type]


def test_a_new_request_waits_and_has_a_key_for_each_full_block() -> None:
    assert request_of(1, 2, 3, 4, 5, 6, 7, 8, 9) == Request(
        "r", (1, 2, 3, 4, 5, 6, 7, 8, 9), (0, 1), num_prompt_tokens=9, status=Status.WAITING
    )


def test_a_request_has_at_least_one_token() -> None:
    with pytest.raises(ValueError) as refused:
        request_of()
    assert str(refused.value) == "the prompt of request r is empty: a request has at least one token"


def test_keys_stand_for_whole_prefixes() -> None:
    keys, one = new_request(KeyTable(), "one", (1, 1, 2, 2), 2)
    keys, two = new_request(keys, "two", (2, 2, 1, 1), 2)
    keys, three = new_request(keys, "three", (1, 1, 1, 1), 2)
    assert (one.prefix_keys, two.prefix_keys, three.prefix_keys) == ((0, 1), (2, 3), (0, 4))


def test_a_salt_changes_every_key_through_the_first_block_and_extra_keys_enter_each() -> None:
    keys, plain = new_request(KeyTable(), "plain", (1, 2), 1)
    keys, salted = new_request(keys, "salted", (1, 2), 1, "s")
    keys, adapted = new_request(keys, "adapted", (1, 2), 1, None, ("lora",))
    assert (plain.prefix_keys, salted.prefix_keys, adapted.prefix_keys) == ((0, 1), (2, 3), (4, 5))
    assert [prefix for prefix, key in keys.entries.items() if key in (2, 3, 4, 5)] == [
        (-1, (1,), ("salt:s",)),
        (2, (2,), ()),
        (-1, (1,), ("lora",)),
        (4, (2,), ("lora",)),
    ]


def test_tokens_that_fill_a_block_give_it_its_key() -> None:
    keys, request = new_request(KeyTable(), "r", (1, 2, 3), 4)
    assert request.prefix_keys == ()
    keys, request = append_tokens(keys, request, (4,), 4)
    assert (request.token_ids, request.prefix_keys, request.prefix_key(0)) == ((1, 2, 3, 4), (0,), 0)


def test_a_step_up_to_the_end_samples_and_a_chunk_does_not() -> None:
    request = request_of(1, 2, 3, 4, 5)
    chunk = schedule(request, 0, 3)
    rest = schedule(chunk, 0, 2)
    assert chunk == replace(
        request, num_computed_tokens=3, flights=(Flight(3, (), samples=False),), status=Status.RUNNING
    )
    assert rest.flights == (Flight(3, (), samples=False), Flight(2, (), samples=True))
    assert (rest.num_computed_tokens, rest.num_in_flight_tokens, rest.num_uncomputed_tokens) == (5, 5, 1)


def test_adopted_tokens_are_computed_and_not_in_flight() -> None:
    request = schedule(request_of(1, 2, 3, 4, 5), 4, 1)
    assert (request.num_computed_tokens, request.num_in_flight_tokens, request.num_uncomputed_tokens) == (5, 1, 1)


def test_drafts_come_last_in_a_step_and_are_used_up_by_it() -> None:
    running = schedule(propose(request_of(1, 2, 3), (7, 8)), 0, 5)
    assert (running.draft_token_ids, running.flights) == ((), (Flight(5, (7, 8), samples=True),))
    assert running.num_uncomputed_tokens == 1


def test_rejected_drafts_are_uncomputed_and_accepted_ones_become_final() -> None:
    running = schedule(propose(request_of(1, 2, 3), (7, 8)), 0, 5)
    _, one_accepted = settle(KeyTable(), running, 1, 9, 4)
    _, none_accepted = settle(KeyTable(), running, 0, 9, 4)
    _, all_accepted = settle(KeyTable(), running, 2, 9, 4)
    assert [(after.token_ids, after.num_computed_tokens) for after in (none_accepted, one_accepted, all_accepted)] == [
        ((1, 2, 3, 9), 3),
        ((1, 2, 3, 7, 9), 4),
        ((1, 2, 3, 7, 8, 9), 5),
    ]
    assert all_accepted.flights == ()


def test_a_chunk_in_flight_settles_without_a_token() -> None:
    _, after = settle(KeyTable(), schedule(request_of(1, 2, 3), 0, 2), 0, 9, 4)
    assert (after.token_ids, after.num_computed_tokens, after.num_in_flight_tokens) == ((1, 2, 3), 2, 0)


def test_a_load_counts_as_computed_and_the_request_keeps_waiting() -> None:
    loading = await_load(request_of(1, 2, 3), 2)
    assert (loading.num_computed_tokens, loading.num_in_flight_tokens, loading.status) == (2, 0, Status.WAITING)


def test_a_withdrawn_request_starts_again() -> None:
    request = request_of(1, 2, 3)
    running = propose(schedule(request, 0, 3), (7,))
    assert withdraw(running) == replace(request, status=Status.PREEMPTED)

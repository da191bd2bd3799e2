"""Worked examples with every id, from the lesson the project grew from and from vLLM's tests and documents."""

from collections.abc import Callable
from typing import Any

import pytest

from slotproof.impl import AllocatorConfig, FullAttention, Request, RequestStatus, SlidingWindow, SlotAllocator
from slotproof.impl.groups import Group

Admit = Callable[..., Any]
FULL_16 = FullAttention(16)


def allocator_of(num_blocks: int, *groups: Group, max_model_len: int = 10_000, **options: Any) -> SlotAllocator:
    return SlotAllocator(AllocatorConfig(num_blocks, groups, max_model_len, **options))


class Lesson:
    """100 blocks, 40 free; a cached prefix of 128 tokens in blocks 1-8, of which 3-8 are idle."""

    def __init__(self, admit: Admit, watermark_blocks: int = 5, held_blocks: int = 2) -> None:
        self.allocator = allocator_of(100, FULL_16, watermark_blocks=watermark_blocks)
        donor = Request("donor", range(128), block_size=16)
        sharer = Request("sharer", [*range(16 * held_blocks), -1], block_size=16)
        admit(self.allocator, donor)
        admit(self.allocator, sharer)
        self.allocator.free(donor)
        fill = self.allocator.num_free_blocks - 40
        admit(self.allocator, Request("fill", range(1000, 1000 + 16 * fill), block_size=16))
        self.request = Request("r", [*range(128), *range(5000, 5172)], block_size=16)

    def admit(self) -> Any:
        blocks, hit = self.allocator.get_computed_blocks(self.request)
        assert (blocks, hit) == ((tuple(range(1, 9)),), 128)
        return self.step(100, num_new_computed_tokens=hit, new_computed_blocks=blocks, full_sequence_must_fit=True)

    def decode(self, **options: Any) -> Any:
        self.request.append([7])
        return self.step(1, **options)

    def step(self, new: int, **options: Any) -> Any:
        """Returns the new ids, free blocks, table length and keyed entries."""
        answer = self.allocator.allocate_slots(self.request, new, **options)
        assert answer is not None
        self.request.num_computed_tokens += options.get("num_new_computed_tokens", 0) + new
        self.request.status = RequestStatus.RUNNING
        [table] = self.allocator.block_table("r")
        return [*answer[0]], self.allocator.num_free_blocks, len(table), *self.allocator.cached_count("r")


def test_lesson_call_by_call(admit: Admit, snapshot: Callable[..., Any]) -> None:
    lesson = Lesson(admit)
    assert lesson.allocator.num_free_blocks == 40
    assert lesson.admit() == ([66, 67, 68, 69, 70, 71, 72], 27, 15, 14)
    assert lesson.step(72) == ([73, 74, 75, 76], 23, 19, 18)
    assert [lesson.decode() for _ in range(6)] == [
        ([], 23, 19, 18),
        ([], 23, 19, 18),
        ([], 23, 19, 18),
        ([], 23, 19, 19),
        ([77], 22, 20, 19),
        ([], 22, 20, 19),
    ]
    assert lesson.decode(num_lookahead_tokens=16) == ([78], 21, 21, 19)
    before = snapshot(lesson.allocator)
    second = Request("second", range(9000, 9600), block_size=16)
    assert lesson.allocator.allocate_slots(second, 100, full_sequence_must_fit=True) is None
    assert snapshot(lesson.allocator) == before


def test_lesson_exercise_without_a_watermark_still_refuses(admit: Admit) -> None:
    lesson = Lesson(admit, watermark_blocks=0)
    lesson.admit()
    lesson.step(72)
    second = Request("second", range(9000, 9600), block_size=16)
    assert lesson.allocator.allocate_slots(second, 100, full_sequence_must_fit=True) is None


def test_lesson_exercise_with_all_hits_held(admit: Admit) -> None:
    new_ids, free, length, _ = Lesson(admit, held_blocks=8).admit()
    assert (len(new_ids), free, length) == (7, 33, 15)


def test_lesson_exercise_with_lookahead_on_every_step(admit: Admit) -> None:
    lesson = Lesson(admit)
    lesson.admit()
    lesson.step(72)
    steps = [lesson.decode(num_lookahead_tokens=16) for _ in range(6)]
    assert [(len(new_ids), length) for new_ids, _, length, _ in steps] == [
        (1, 20),
        (0, 20),
        (0, 20),
        (0, 20),
        (1, 21),
        (0, 21),
    ]


@pytest.mark.parametrize(
    ("free_order", "after_first", "after_second", "new_third", "left"),
    [
        ("unhashed-first", (5, 8, 9, 10, 4, 3), (7, 5, 8, 9, 10, 4, 3, 6, 2, 1), (7, 5, 8, 9, 10), (4, 6)),
        ("lru", (8, 9, 10, 5, 4, 3), (8, 9, 10, 5, 4, 3, 7, 6, 2, 1), (8, 9, 10, 5, 4), (7, 6)),
    ],
)
def test_prefix_caching_document_example(
    admit: Admit, free_order: str, after_first: Any, after_second: Any, new_third: Any, left: Any
) -> None:
    allocator = allocator_of(11, FullAttention(4), free_order=free_order)
    first = Request("0", range(15), block_size=4)
    assert admit(allocator, first) == ((1, 2, 3, 4),)
    first.append([15])
    assert allocator.allocate_slots(first, 1) == ((),)
    first.num_computed_tokens = 16
    assert allocator.cached_count("0") == (4,)
    first.append([16])
    assert allocator.allocate_slots(first, 1) == ((5,),)
    second = Request("1", [*range(10), 60, 61, 62, 63], block_size=4)
    assert allocator.get_computed_blocks(second) == (((1, 2),), 8)
    assert admit(allocator, second) == ((6, 7),)
    assert [allocator.ref_count(block) for block in (1, 2)] == [2, 2]
    allocator.free(first)
    assert allocator.free_queue() == after_first
    allocator.free(second)
    assert allocator.free_queue() == after_second
    third = Request("2", [*range(12), *range(70, 87)], block_size=4)
    assert allocator.get_computed_blocks(third) == (((1, 2, 3),), 12)
    assert admit(allocator, third) == (new_third,)
    assert allocator.free_queue() == left


def test_vllm_prefill_unit_test(admit: Admit) -> None:
    allocator = allocator_of(11, FULL_16)
    common = range(48)
    first = Request("0", [*common, *[3] * 7], block_size=16)
    second = Request("1", [*common, *[4] * 5], block_size=16)
    third = Request("2", [*common, *[5] * 6], block_size=16)
    assert admit(allocator, first) == ((1, 2, 3, 4),)
    assert sorted(allocator.cached_blocks()) == [1, 2, 3]
    assert admit(allocator, second) == ((5,),)
    assert [allocator.ref_count(block) for block in (1, 2, 3)] == [2, 2, 2]
    assert allocator.num_free_blocks == 5
    allocator.free(first)
    allocator.free(second)
    assert allocator.free_queue() == (5, 4, 6, 7, 8, 9, 10, 3, 2, 1)
    assert admit(allocator, third) == ((5,),)
    assert allocator.num_free_blocks == 6
    allocator.free(third)
    last = Request("3", range(100, 260), block_size=16)
    assert admit(allocator, last) == ((5, 4, 6, 7, 8, 9, 10, 3, 2, 1),)
    assert (allocator.num_free_blocks, allocator.usage) == (0, 1.0)


def test_vllm_hybrid_unit_test(admit: Admit) -> None:
    allocator = allocator_of(21, FULL_16, SlidingWindow(16, 32), SlidingWindow(16, 32))
    first = Request("0", [*range(48), *[3] * 7], block_size=16)
    assert admit(allocator, first) == ((1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12))
    second = Request("1", [*range(48), *[4] * 5], block_size=16)
    assert allocator.get_computed_blocks(second) == (((1, 2, 3), (0, 6, 7), (0, 10, 11)), 48)
    assert admit(allocator, second) == ((13,), (14,), (15,))
    assert [allocator.ref_count(block) for block in (1, 2, 3, 5, 6, 7, 9, 10, 11)] == [2, 2, 2, 1, 2, 2, 1, 2, 2]


@pytest.mark.parametrize(
    ("evicted", "length"),
    [((5, 9), 3), ((1,), 0), ((3, 7, 11), 2), ((3,), 2), ((7,), 2), ((11,), 2), ((3, 5, 9), 0)],
)
def test_vllm_hybrid_unit_test_after_evictions(admit: Admit, evicted: tuple[int, ...], length: int) -> None:
    allocator = allocator_of(21, FULL_16, SlidingWindow(16, 32), SlidingWindow(16, 32))
    admit(allocator, Request("0", [*range(48), *[3] * 7], block_size=16))
    allocator.evict_blocks(evicted)
    blocks, hit = allocator.get_computed_blocks(Request("1", [*range(48), *[4] * 5], block_size=16))
    assert (hit, [len(table) for table in blocks]) == (16 * length, [length] * 3)


@pytest.mark.parametrize(
    ("at_once", "expected"),
    [(True, (8, 7, 4, 3, 9, 10, 2, 1, 6, 5)), (False, (8, 7, 4, 3, 9, 10, 6, 5, 2, 1))],
)
def test_free_order_over_two_groups(admit: Admit, at_once: bool, expected: tuple[int, ...]) -> None:
    allocator = allocator_of(11, FullAttention(2), SlidingWindow(2, 16))
    request = Request("r", range(4), block_size=2)
    admit(allocator, request, num_lookahead_tokens=4)
    assert allocator.block_table("r") == ((1, 2, 3, 4), (5, 6, 7, 8))
    if at_once:
        allocator.free(request)
    else:
        allocator.defer_free(request)
        assert (allocator.block_table("r"), allocator.num_free_blocks) == (((), ()), 2)
        assert [allocator.ref_count(block) for block in (1, 8)] == [1, 1]
        assert not allocator.reset_prefix_cache()
        assert allocator.return_deferred()
        assert not allocator.return_deferred()
    assert allocator.free_queue() == expected


def test_several_keyless_tails_and_no_caching_at_all(admit: Admit) -> None:
    allocator = allocator_of(8, FullAttention(2))
    request = Request("r", range(4), block_size=2)
    admit(allocator, request, num_lookahead_tokens=6)
    allocator.free(request)
    assert allocator.free_queue() == (5, 4, 3, 6, 7, 2, 1)
    uncached = allocator_of(6, FullAttention(2), enable_caching=False)
    request = Request("r", range(6), block_size=2)
    assert (admit(uncached, request), uncached.cached_blocks()) == (((1, 2, 3),), {})
    assert uncached.get_computed_blocks(Request("s", range(9), block_size=2)) == (((),), 0)
    uncached.free(request)
    assert uncached.free_queue() == (3, 2, 1, 4, 5)


def test_deferred_frees_return_oldest_first(admit: Admit) -> None:
    allocator = allocator_of(6, FullAttention(2))
    for request_id in "ab":
        request = Request(request_id, [1, 2, 3], block_size=2)
        admit(allocator, request)
        allocator.defer_free(request)
    assert (allocator.free_queue(), allocator.ref_count(1)) == ((4, 5), 2)
    allocator.return_deferred()
    assert (allocator.free_queue(), allocator.ref_count(1)) == ((2, 4, 5), 1)
    allocator.return_deferred()
    assert allocator.free_queue() == (3, 2, 4, 5, 1)


def test_hit_leaves_a_token_to_compute(admit: Admit) -> None:
    allocator = allocator_of(20, FULL_16)
    admit(allocator, Request("0", range(64), block_size=16))
    assert allocator.get_computed_blocks(Request("64", range(64), block_size=16))[1] == 48
    assert allocator.get_computed_blocks(Request("65", range(65), block_size=16))[1] == 64


def test_duplicates_keep_their_blocks_and_the_first_keyed_serves(admit: Admit) -> None:
    allocator = allocator_of(10, FullAttention(2))
    one, other = Request("one", range(2), block_size=2), Request("other", range(2), block_size=2)
    assert (admit(allocator, one), admit(allocator, other)) == (((1,),), ((2,),))
    reader = Request("reader", range(3), block_size=2)
    assert (allocator.get_computed_blocks(reader), allocator.index_order()) == ((((1,),), 2), (1, 2))
    allocator.evict_blocks([1])
    assert allocator.get_computed_blocks(reader) == (((2,),), 2)


def test_draft_tokens_get_no_key(admit: Admit) -> None:
    # 31 finalized tokens and 5 drafts: one key, not two; the same when 30 of them are external.
    allocator = allocator_of(20, FULL_16)
    request = Request("r", range(31), block_size=16)
    assert allocator.allocate_slots(request, 36) == ((1, 2, 3),)
    assert (sorted(allocator.cached_blocks()), allocator.cached_count("r")) == ([1], (1,))
    external = Request("e", range(100, 131), block_size=16)
    assert allocator.allocate_slots(external, 6, num_external_computed_tokens=30) == ((6,),)
    assert (sorted(allocator.cached_blocks()), allocator.block_table("e")) == ([1, 4], ((4, 5, 6),))


def test_drafts_that_become_tokens_are_keyed_by_the_next_call() -> None:
    allocator = allocator_of(20, FullAttention(4))
    request = Request("r", range(3), block_size=4)
    assert allocator.allocate_slots(request, 6) == ((1, 2),)
    request.status = RequestStatus.RUNNING
    request.append([3, 4])
    request.num_computed_tokens = 4
    assert allocator.cached_blocks() == {}
    assert allocator.allocate_slots(request, 1) == ((),)
    assert sorted(allocator.cached_blocks()) == [1]


def test_more_drafts_pop_more_and_so_evict_keys(admit: Admit) -> None:
    hits = []
    for new in (1, 21):
        allocator = allocator_of(6, FULL_16)
        idle = Request("idle", range(32), block_size=16)
        admit(allocator, idle)
        allocator.free(idle)
        running = Request("running", range(100, 132), block_size=16)
        admit(allocator, running, 31)
        running.append([0])
        running.num_computed_tokens = 32
        allocator.allocate_slots(running, new)
        hits.append(allocator.get_computed_blocks(Request("again", range(33), block_size=16))[1])
    assert hits == [32, 16]


def test_delayed_call_keys_nothing_until_the_commit() -> None:
    allocator = allocator_of(20, FullAttention(4), SlidingWindow(4, 8))
    request = Request("r", range(10), block_size=4)
    answer = allocator.allocate_slots(request, 0, num_external_computed_tokens=9, delay_cache_blocks=True)
    assert (answer, allocator.block_table("r")) == (((), ()), ((1, 2, 3), (4, 5, 6)))
    assert (allocator.cached_blocks(), allocator.cached_count("r")) == ({}, (0, 0))
    request.num_computed_tokens = 9
    allocator.cache_blocks(request, 7)
    assert (sorted(allocator.cached_blocks()), allocator.cached_count("r")) == ([1, 4], (1, 1))
    allocator.cache_blocks(request, 10_000)
    assert (sorted(allocator.cached_blocks()), allocator.cached_count("r")) == ([1, 2, 4, 5], (2, 2))


def test_commit_is_capped_by_what_the_table_holds() -> None:
    allocator = allocator_of(20, FullAttention(4))
    request = Request("r", range(12), block_size=4)
    allocator.allocate_slots(request, 8, delay_cache_blocks=True)
    allocator.cache_blocks(request, 12)
    assert allocator.cached_count("r") == (2,)
    allocator.cache_blocks(Request("unknown", range(12), block_size=4), 12)


def test_external_prefix_behind_a_hit_pops_after_every_hit_is_held(admit: Admit) -> None:
    allocator = allocator_of(9, FullAttention(2), SlidingWindow(2, 3))
    cached = Request("cached", range(4), block_size=2)
    admit(allocator, cached)
    allocator.free(cached)
    assert allocator.free_queue() == (5, 6, 7, 8, 2, 1, 4, 3)
    request = Request("r", range(9), block_size=2)
    answer = admit(allocator, request, 1, num_external_computed_tokens=2)
    assert allocator.block_table("r") == ((1, 2, 5, 7), (0, 0, 6, 8))
    assert (answer, allocator.cached_count("r")) == (((7,), (8,)), (3, 3))


def test_window_keeps_what_the_oldest_token_in_flight_may_need(admit: Admit) -> None:
    allocator = allocator_of(20, SlidingWindow(2, 4))
    request = Request("r", range(12), block_size=2)
    admit(allocator, request, 9)
    request.num_in_flight_tokens = 3
    allocator.allocate_slots(request, 1)
    assert allocator.block_table("r") == ((0, 2, 3, 4, 5),)
    request.num_in_flight_tokens = 0
    allocator.allocate_slots(request, 1)
    assert allocator.block_table("r") == ((0, 0, 0, 4, 5),)


def test_window_releases_in_one_run_last_first_and_reuses_it_at_once() -> None:
    allocator = allocator_of(5, SlidingWindow(2, 2), enable_caching=False)
    request = Request("r", range(16), block_size=2)
    assert allocator.allocate_slots(request, 8) == ((1, 2, 3, 4),)
    request.num_computed_tokens = 8
    assert allocator.allocate_slots(request, 6) == ((3, 2, 1),)
    assert allocator.block_table("r") == ((0, 0, 0, 4, 3, 2, 1),)


def test_refusal_with_a_window_changes_what_stage_1_alone_would() -> None:
    # vLLM: window 32, 6 blocks held, 20 asked for: refused, yet 4 blocks came free.
    allocator = allocator_of(7, SlidingWindow(16, 32))
    request = Request("r", range(96), block_size=16)
    assert allocator.allocate_slots(request, 96) == ((1, 2, 3, 4, 5, 6),)
    request.num_computed_tokens = 96
    request.status = RequestStatus.RUNNING
    assert not allocator.can_allocate(request, 320)
    assert allocator.num_free_blocks == 0
    assert allocator.allocate_slots(request, 320) is None
    assert (allocator.num_free_blocks, allocator.block_table("r")) == (4, ((0, 0, 0, 0, 5, 6),))
    assert allocator.free_queue() == (4, 3, 2, 1)


def test_refused_newcomer_leaves_no_entry_in_any_group(snapshot: Callable[..., Any]) -> None:
    allocator = allocator_of(4, FullAttention(2), SlidingWindow(2, 3))
    before = snapshot(allocator)
    request = Request("r", range(20), block_size=2)
    assert allocator.allocate_slots(request, 20) is None
    assert allocator.allocate_slots(request, 1, full_sequence_must_fit=True) is None
    assert allocator.allocate_slots(request, 1, num_external_computed_tokens=19) is None
    assert snapshot(allocator) == before


def test_stage_0_passes_and_stage_2_refuses_when_only_the_lookahead_does_not_fit() -> None:
    allocator = allocator_of(8, FULL_16)
    request = Request("r", range(112), block_size=16)
    assert allocator.allocate_slots(request, 112, full_sequence_must_fit=True, num_lookahead_tokens=1) is None
    assert allocator.allocate_slots(request, 112, full_sequence_must_fit=True) is not None


def test_lookahead_ends_at_max_model_len() -> None:
    allocator = allocator_of(8, FULL_16, max_model_len=32)
    assert allocator.allocate_slots(Request("r", range(30), block_size=16), 30, num_lookahead_tokens=50) == ((1, 2),)


def test_stage_0_charges_at_most_max_model_len() -> None:
    allocator = allocator_of(3, FULL_16, max_model_len=32)
    request = Request("r", range(100), block_size=16)
    assert allocator.allocate_slots(request, 16, full_sequence_must_fit=True) == ((1,),)


def test_stage_0_charges_a_window_at_most_its_cap() -> None:
    # Cap: ceil((31 + 64) / 16) + 1 = 7 blocks for a prompt of 25.
    options: dict[str, Any] = {"max_in_flight_tokens": 64}
    request = Request("r", range(400), block_size=16)
    seven = allocator_of(8, SlidingWindow(16, 32), **options)
    six = allocator_of(7, SlidingWindow(16, 32), **options)
    assert seven.allocate_slots(request, 64, full_sequence_must_fit=True) is not None
    assert six.allocate_slots(request, 64, full_sequence_must_fit=True) is None


def test_reserved_blocks_count_in_stage_2_only_and_equality_admits() -> None:
    allocator = allocator_of(6, FULL_16)
    request = Request("r", range(32), block_size=16)
    assert allocator.allocate_slots(request, 32, reserved_blocks=4, full_sequence_must_fit=True) is None
    assert allocator.allocate_slots(request, 32, reserved_blocks=3, full_sequence_must_fit=True) == ((1, 2),)
    request.num_computed_tokens = 16
    request.status = RequestStatus.RUNNING
    assert allocator.allocate_slots(request, 1, reserved_blocks=4) is None
    assert allocator.allocate_slots(request, 1, reserved_blocks=3) == ((),)


@pytest.mark.parametrize(
    ("status", "has_scheduled_reqs", "admitted"),
    [
        (RequestStatus.WAITING, True, False),
        (RequestStatus.PREEMPTED, True, False),
        (RequestStatus.RUNNING, True, True),
        (RequestStatus.WAITING, False, True),
        (RequestStatus.PREEMPTED, False, True),
    ],
)
@pytest.mark.parametrize("full_sequence_must_fit", [True, False])
def test_watermark(
    status: RequestStatus, has_scheduled_reqs: bool, admitted: bool, full_sequence_must_fit: bool
) -> None:
    allocator = allocator_of(6, FULL_16, watermark_blocks=2)
    request = Request("r", range(64), block_size=16)
    request.status = status
    options = {"has_scheduled_reqs": has_scheduled_reqs, "full_sequence_must_fit": full_sequence_must_fit}
    assert allocator.can_allocate(request, 64, **options) is admitted
    assert (allocator.allocate_slots(request, 64, **options) is not None) is admitted


def test_watermark_refuses_a_parked_request_even_without_a_need() -> None:
    allocator = allocator_of(4, FULL_16, watermark_blocks=2)
    request = Request("r", range(20), block_size=16)
    assert allocator.allocate_slots(request, 17, has_scheduled_reqs=False) == ((1, 2),)
    request.num_computed_tokens = 17
    assert allocator.allocate_slots(request, 1) is None
    request.status = RequestStatus.RUNNING
    assert allocator.allocate_slots(request, 1) == ((),)


def test_preempted_request_hits_its_own_blocks_again(admit: Admit) -> None:
    allocator = allocator_of(20, FullAttention(4))
    request = Request("r", range(11), block_size=4)
    admit(allocator, request)
    request.num_in_flight_tokens = 1
    allocator.preempt(request)
    assert request.status is RequestStatus.PREEMPTED
    assert (request.num_computed_tokens, request.num_in_flight_tokens) == (0, 0)
    assert allocator.num_free_blocks == 19
    assert allocator.get_computed_blocks(request) == (((1, 2),), 8)


def test_evicted_block_is_not_keyed_again_by_its_holder(admit: Admit) -> None:
    allocator = allocator_of(10, FullAttention(2))
    request = Request("r", range(5), block_size=2)
    admit(allocator, request)
    order = allocator.free_queue()
    allocator.evict_blocks([2, 0, 9])
    assert (allocator.free_queue(), allocator.block_table("r")) == (order, ((1, 2, 3),))
    request.append([5])
    allocator.allocate_slots(request, 1)
    assert (sorted(allocator.cached_blocks()), allocator.cached_count("r")) == ([1, 3], (3,))
    assert allocator.get_computed_blocks(Request("s", range(9), block_size=2))[1] == 2
    allocator.free(request)
    assert allocator.free_queue() == (2, *order, 3, 1)


def test_evicting_an_unknown_block_changes_nothing(admit: Admit) -> None:
    allocator = allocator_of(10, FullAttention(2))
    admit(allocator, Request("r", range(4), block_size=2))
    for bad in (-1, 10):
        with pytest.raises(ValueError, match=f"evict_blocks: no block {bad} in a pool of 10"):
            allocator.evict_blocks([1, bad])
    assert sorted(allocator.cached_blocks()) == [1, 2]


def test_reset_needs_every_block_free_and_keeps_the_order(admit: Admit) -> None:
    allocator = allocator_of(6, FullAttention(2))
    request = Request("r", range(4), block_size=2)
    admit(allocator, request)
    assert not allocator.reset_prefix_cache()
    allocator.free(request)
    assert allocator.reset_prefix_cache()
    assert (allocator.free_queue(), allocator.cached_blocks()) == ((3, 4, 5, 2, 1), {})


def test_freeing_twice_or_the_unknown_does_nothing(admit: Admit, snapshot: Callable[..., Any]) -> None:
    allocator = allocator_of(6, FullAttention(2))
    request = Request("r", range(4), block_size=2)
    admit(allocator, request)
    allocator.free(request)
    before = snapshot(allocator)
    allocator.free(request)
    allocator.defer_free(request)
    assert snapshot(allocator) == before
    assert not allocator.return_deferred()


def test_salts_and_extra_keys_never_share(admit: Admit) -> None:
    allocator = allocator_of(40, FullAttention(2))
    admit(allocator, Request("plain", range(8), block_size=2))
    admit(allocator, Request("salted", range(8), block_size=2, cache_salt="s"))
    admit(allocator, Request("keyed", range(8), block_size=2, extra_keys=("adapter",)))
    hits = {
        name: allocator.get_computed_blocks(Request(name, range(9), block_size=2, **options))[0]
        for name, options in {
            "none": {},
            "salt": {"cache_salt": "s"},
            "keys": {"extra_keys": ("adapter",)},
            "both": {"cache_salt": "s", "extra_keys": ("adapter",)},
        }.items()
    }
    assert hits == {"none": ((1, 2, 3, 4),), "salt": ((5, 6, 7, 8),), "keys": ((9, 10, 11, 12),), "both": ((),)}


def test_usage_counts_held_blocks_only(admit: Admit) -> None:
    allocator = allocator_of(101, FullAttention(2))
    request = Request("r", range(40), block_size=2)
    admit(allocator, request)
    assert allocator.usage == 1.0 - 80 / 100
    allocator.free(request)
    assert allocator.usage == 0.0


def test_unknown_request_has_empty_tables_and_is_untracked() -> None:
    allocator = allocator_of(5, FullAttention(2), SlidingWindow(2, 3))
    assert (allocator.block_table("x"), allocator.cached_count("x")) == (((), ()), (None, None))


@pytest.mark.parametrize(
    ("groups", "busy_steps"),
    [
        # Step 15 fills block 6, step 16 needs block 7; the window lets go of 3 blocks at 97 computed and one at 103.
        ((FULL_16,), [15, 16]),
        ((FULL_16, SlidingWindow(16, 40)), [1, 7, 15, 16]),
    ],
)
def test_quiet_decode_touches_nothing_and_shares_its_answer(
    groups: tuple[Group, ...], busy_steps: list[int], admit: Admit, snapshot: Callable[..., Any]
) -> None:
    allocator = allocator_of(30, *groups)
    request = Request("r", range(97), block_size=16)
    admit(allocator, request)
    busy = []
    for step in range(1, 17):
        request.append([1])
        before = snapshot(allocator)
        answers = [allocator.allocate_slots(request, 1) for _ in range(2)]
        if snapshot(allocator) != before or answers[0] is not answers[1]:
            busy.append(step)
        request.num_computed_tokens += 1
    assert busy == busy_steps

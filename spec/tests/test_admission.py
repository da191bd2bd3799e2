"""`allocate_slots` by worked examples with every id: the lesson, vLLM's tests and documents, and runs of real vLLM."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slotproof.spec import (
    Allocation,
    FreeOrder,
    FullAttention,
    Hit,
    Reason,
    Refusal,
    SlidingWindow,
    Status,
    allocate_slots,
    get_computed_blocks,
)

EngineOf = Callable[..., Any]
FULL_16 = FullAttention(16)


class Lesson:
    """99 usable blocks, 40 free; a cached prefix of 128 tokens in blocks 1-8, `held` of them held."""

    def __init__(self, engine_of: EngineOf, watermark_blocks: int = 5, held: int = 2) -> None:
        self.engine = engine = engine_of(100, FULL_16, watermark_blocks=watermark_blocks)
        engine.admit("donor", range(128))
        engine.admit("sharer", [*range(16 * held), -1])
        engine.free("donor")
        engine.admit("fill", range(1000, 1000 + 16 * (engine.num_free - 40)), has_scheduled_reqs=False)
        engine.request("r", [*range(128), *range(5000, 5172)])

    def trace(self, lookahead: int = 0) -> list[tuple[int, int, int]]:
        """New blocks, free blocks and table length after the admission, the second chunk and six decoded tokens."""
        ask, decode = self.engine.ask, self.engine.decode
        seen = [self._numbers(ask("r", 100, full_sequence_must_fit=True))]
        self.engine.output("r")
        seen.append(self._numbers(ask("r", 72)))
        return seen + [self._numbers(decode("r", num_lookahead_tokens=lookahead)) for _ in range(6)]

    def speculate(self) -> tuple[int, int, int]:
        return self._numbers(self.engine.decode("r", num_lookahead_tokens=16))

    def _numbers(self, answer: Any) -> tuple[int, int, int]:
        return len(answer.new_blocks[0]), self.engine.num_free, len(self.engine.tables("r")[0])


# The lesson.


def test_the_lesson_call_by_call(engine_of: EngineOf) -> None:
    lesson = Lesson(engine_of)
    assert lesson.engine.num_free == 40
    assert lesson.trace() == [
        (7, 27, 15),
        (4, 23, 19),
        (0, 23, 19),
        (0, 23, 19),
        (0, 23, 19),
        (0, 23, 19),
        (1, 22, 20),
        (0, 22, 20),
    ]
    assert lesson.speculate() == (1, 21, 21)
    before = lesson.engine.snapshot
    refusal = lesson.engine.admit("second", range(7000, 7600), 100, full_sequence_must_fit=True)
    assert refusal == Refusal(Reason.WHOLE_PROMPT, False, needed=38, watermark=5, free=21, reserved=0, snapshot=before)


def test_the_lesson_id_by_id(engine_of: EngineOf) -> None:
    lesson = Lesson(engine_of)
    lesson.trace()
    assert lesson.engine.tables("r") == ((*range(1, 9), *range(66, 78)),)
    assert lesson.engine.refs(1, 2, 3, 66) == [2, 2, 1, 1]
    assert lesson.engine.counters("r") == (19,)
    assert lesson.engine.snapshot.usage == 1.0 - 22 / 99


def test_without_a_watermark_the_second_request_is_still_refused(engine_of: EngineOf) -> None:
    lesson = Lesson(engine_of, watermark_blocks=0)
    lesson.trace()
    lesson.speculate()
    refusal = lesson.engine.admit("second", range(7000, 7600), 100, full_sequence_must_fit=True)
    assert (refusal.reason, refusal.needed, refusal.watermark, refusal.free) == (Reason.WHOLE_PROMPT, 38, 0, 21)


def test_hits_that_are_held_cost_nothing(engine_of: EngineOf) -> None:
    assert Lesson(engine_of, held=8).trace()[0] == (7, 33, 15)


def test_a_lookahead_of_one_block_takes_each_block_one_block_of_tokens_earlier(engine_of: EngineOf) -> None:
    new, _, lengths = zip(*Lesson(engine_of).trace(lookahead=16)[2:], strict=True)
    assert (new, lengths) == ((1, 0, 0, 0, 1, 0), (20, 20, 20, 20, 21, 21))


# Refusals.


@pytest.mark.parametrize(
    ("status", "scheduled", "watermark"),
    [
        (Status.WAITING, True, 2),
        (Status.PREEMPTED, True, 2),
        (Status.RUNNING, True, 0),
        (Status.WAITING, False, 0),
        (Status.PREEMPTED, False, 0),
    ],
)
@pytest.mark.parametrize("reason", list(Reason))
def test_the_watermark_counts_for_who_enters_while_others_run(
    engine_of: EngineOf, reason: Reason, status: Status, scheduled: bool, watermark: int
) -> None:
    """Equality admits: of 10 free blocks a prompt takes all that the watermark leaves, and not one more."""
    engine = engine_of(11, FULL_16, watermark_blocks=2)
    whole = reason == Reason.WHOLE_PROMPT

    def ask(num_blocks: int) -> Allocation | Refusal:
        request = replace(engine.request("r", range(16 * num_blocks)), status=status)
        options: dict[str, Any] = {"full_sequence_must_fit": whole, "has_scheduled_reqs": scheduled}
        return allocate_slots(engine.snapshot, request, 16 * num_blocks, **options)

    assert isinstance(ask(10 - watermark), Allocation)
    never = watermark == 0
    assert ask(11 - watermark) == Refusal(reason, never, 11 - watermark, watermark, 10, 0, engine.snapshot)


def test_reserved_blocks_count_in_the_step_and_not_for_the_whole_prompt(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16)
    engine.request("r", range(160))
    refusal = engine.ask("r", 16, full_sequence_must_fit=True, reserved_blocks=10)
    assert refusal == Refusal(Reason.STEP, False, 1, watermark=0, free=10, reserved=10, snapshot=engine.snapshot)
    assert isinstance(engine.ask("r", 16, full_sequence_must_fit=True, reserved_blocks=9), Allocation)


def test_a_need_of_nothing_is_refused_too_when_more_is_reserved_than_is_free(engine_of: EngineOf) -> None:
    engine = engine_of(3, FULL_16)
    engine.admit("r", range(17))
    refusal = engine.decode("r", reserved_blocks=1)
    assert refusal == Refusal(Reason.STEP, False, 0, watermark=0, free=0, reserved=1, snapshot=engine.snapshot)


def test_the_whole_prompt_is_capped_by_the_length_of_the_model_and_ignores_lookahead_and_drafts(
    engine_of: EngineOf,
) -> None:
    engine = engine_of(8, FULL_16)
    refusal = engine.admit("r", range(112), 112, full_sequence_must_fit=True, num_lookahead_tokens=1)
    assert (refusal.reason, refusal.never, refusal.needed, refusal.free) == (Reason.STEP, True, 8, 7)
    capped = engine_of(8, FULL_16, max_model_len=112)
    answer = capped.admit("r", range(200), 112, full_sequence_must_fit=True, num_lookahead_tokens=1)
    assert answer.new_blocks == ((1, 2, 3, 4, 5, 6, 7),)


def test_never_is_said_of_what_does_not_fit_an_otherwise_empty_pool(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16, watermark_blocks=9)
    engine.admit("other", range(16), has_scheduled_reqs=False)
    engine.request("fits", range(160))
    engine.request("too long", range(161))
    never = {
        name: engine.ask(name, 16, full_sequence_must_fit=True, reserved_blocks=10).never
        for name in ("fits", "too long")
    }
    assert never == {"fits": False, "too long": True}


def test_hits_do_not_make_a_prompt_fit_that_is_larger_than_the_pool(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16)
    engine.admit("donor", range(161), 160)
    engine.request("r", range(161))
    refusal = engine.ask("r")
    assert (refusal.reason, refusal.never, refusal.needed, refusal.free) == (Reason.STEP, True, 1, 0)


def test_a_refused_step_has_given_back_what_the_window_left_behind(engine_of: EngineOf) -> None:
    """Real vLLM: window 32, 6 blocks held, nothing free, 20 more asked for: None, and 4 blocks are free."""
    engine = engine_of(7, SlidingWindow(16, 32))
    engine.admit("r", range(416), 96)
    engine.output("r")
    assert (engine.num_free, engine.tables("r")) == (0, ((1, 2, 3, 4, 5, 6),))
    refusal = engine.ask("r", 320)
    assert refusal == Refusal(Reason.STEP, True, 20, 0, free=4, reserved=0, snapshot=engine.snapshot)
    assert engine.tables("r") == ((0, 0, 0, 0, 5, 6),)
    assert engine.queue == (4, 3, 2, 1)


def test_a_refusal_of_the_whole_prompt_gives_nothing_back(engine_of: EngineOf) -> None:
    engine = engine_of(7, SlidingWindow(16, 32))
    engine.admit("r", range(416), 96)
    engine.output("r")
    before = engine.snapshot
    refusal = engine.ask("r", 16, full_sequence_must_fit=True)
    assert refusal == Refusal(Reason.WHOLE_PROMPT, True, 20, watermark=0, free=0, reserved=0, snapshot=before)


def test_what_is_in_flight_may_still_read_what_the_window_will_leave_behind(engine_of: EngineOf) -> None:
    engine = engine_of(7, SlidingWindow(16, 32))
    engine.admit("r", range(416), 96)
    before = engine.snapshot
    assert engine.ask("r", 320).free == 0
    assert engine.snapshot == before


class Windowed:
    """Window 32, block 16, cap 7: a prompt of 400 tokens, 320 of them cached in idle blocks, and 5 blocks free."""

    def __init__(self, engine_of: EngineOf) -> None:
        self.engine = engine = engine_of(31, SlidingWindow(16, 32), max_in_flight_tokens=64)
        engine.admit("donor", range(321))
        engine.free("donor")
        engine.admit("toucher", range(321))
        engine.free("toucher")
        engine.admit("fill", range(1000, 1000 + 16 * 25))
        engine.request("r", range(400))


def test_the_whole_prompt_of_a_window_is_charged_less_than_its_next_step(engine_of: EngineOf) -> None:
    """Real vLLM: charged 2, its next chunk of 64 tokens needs 6."""
    engine = Windowed(engine_of).engine
    assert engine.look_up("r") == Hit(320, ((*(0,) * 18, 19, 20),))
    assert engine.queue == (3, 2, 1, 20, 19)
    refusal = engine.ask("r", 64, full_sequence_must_fit=True)
    assert refusal == Refusal(Reason.STEP, False, 6, watermark=0, free=5, reserved=0, snapshot=engine.snapshot)
    engine.admit("more", range(2000, 2048))
    assert (engine.queue, engine.ask("r", 64, full_sequence_must_fit=True).reason) == ((20, 19), Reason.STEP)
    engine.admit("sharer", range(321), 0)
    assert engine.ask("r", 64, full_sequence_must_fit=True).needed == 4


def test_a_parked_load_of_a_window_is_charged_nothing_when_its_next_step_needs_four(engine_of: EngineOf) -> None:
    engine = engine_of(24, SlidingWindow(16, 32), max_in_flight_tokens=64)
    engine.request("r", range(400))
    engine.ask("r", 0, num_external_computed_tokens=320, delay_cache_blocks=True)
    assert engine.tables("r") == ((*(0,) * 18, 1, 2),)
    engine.admit("fill", range(1000, 1000 + 16 * 18))
    refusal = engine.ask("r", 64, full_sequence_must_fit=True)
    assert refusal == Refusal(Reason.STEP, False, 4, watermark=0, free=3, reserved=0, snapshot=engine.snapshot)


# Taking blocks.


def test_hits_of_all_groups_are_pinned_before_any_block_is_popped(engine_of: EngineOf) -> None:
    """All free blocks are hits or needed: a pop before the second group's pin would take its hit."""
    engine = engine_of(7, FULL_16, SlidingWindow(16, 17))
    engine.admit("donor", range(32))
    engine.free("donor")
    assert engine.queue == (5, 6, 2, 1, 4, 3)
    engine.request("r", range(33))
    assert engine.ask("r").new_blocks == ((5,), (6,))
    assert (engine.tables("r"), engine.queue) == (((1, 2, 5), (0, 4, 6)), (3,))


def test_blocks_for_external_tokens_are_popped_first_and_not_in_the_answer(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16, SlidingWindow(16, 32))
    answer = engine.admit("r", range(40), 10, num_external_computed_tokens=30)
    assert answer.new_blocks == ((5,), (6,))
    assert (engine.tables("r"), engine.counters("r")) == (((1, 2, 5), (3, 4, 6)), (2, 2))


def test_lookahead_stops_at_the_length_of_the_model(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16, max_model_len=40)
    assert engine.admit("r", range(30), num_lookahead_tokens=100).new_blocks == ((1, 2, 3),)


def test_more_drafts_pop_more_blocks_and_so_evict_keys(engine_of: EngineOf) -> None:
    """Real vLLM, 5 usable blocks, an idle prefix of 2: one new token leaves a hit of 32, 20 drafts more leave 16."""
    hits = {}
    for drafts in (0, 20):
        engine = engine_of(6, FULL_16)
        engine.admit("donor", range(33))
        engine.free("donor")
        engine.admit("r", range(1000, 1032))
        engine.output("r", 7)
        engine.ask("r", 1 + drafts, drafts=(8,) * drafts)
        engine.request("heir", range(33))
        hits[drafts] = engine.look_up("heir").num_tokens
    assert hits == {0: 32, 20: 16}


# Keys.


@pytest.mark.parametrize("external", [0, 30])
def test_drafts_never_get_keys(engine_of: EngineOf, external: int) -> None:
    """31 known tokens and 5 drafts: one key, not two, also when 30 of the tokens are loaded."""
    engine = engine_of(11, FULL_16)
    engine.request("r", range(31))
    engine.ask("r", 36 - external, drafts=(1, 2, 3, 4, 5), num_external_computed_tokens=external)
    assert (engine.tables("r"), engine.keyed) == (((1, 2, 3),), (1,))


def test_blocks_get_their_keys_when_they_are_scheduled_full(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16)
    engine.admit("r", range(40), 20)
    assert (engine.keyed, engine.counters("r")) == ((1,), (1,))
    engine.output("r")
    engine.ask("r", 12)
    assert (engine.keyed, engine.counters("r")) == ((1, 2), (2,))


def test_a_delayed_call_gives_no_keys_and_commit_catches_up(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16)
    engine.request("r", range(40))
    engine.ask("r", 0, num_external_computed_tokens=32, delay_cache_blocks=True)
    assert (engine.keyed, engine.counters("r"), engine.status("r")) == ((), (0,), Status.WAITING)
    engine.commit("r", 31)
    assert (engine.keyed, engine.counters("r")) == ((1,), (1,))
    engine.commit("r", 32)
    engine.commit("r", 16)
    assert (engine.keyed, engine.counters("r")) == ((1, 2), (2,))


def test_drafts_that_become_final_get_their_key_by_commit(engine_of: EngineOf) -> None:
    engine = engine_of(11, FullAttention(4))
    engine.request("r", range(3))
    engine.ask("r", drafts=(7, 8))
    assert engine.keyed == ()
    engine.output("r", 9, accepted=2)
    engine.commit("r", 5)
    assert (engine.keyed, engine.counters("r")) == ((1,), (1,))


def test_a_commit_of_no_full_block_changes_nothing(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16)
    engine.admit("r", range(40))
    engine.request("untracked", range(40))
    before = engine.snapshot
    engine.commit("r", 40)
    engine.commit("untracked", 0)
    assert engine.snapshot is before


def test_nothing_gets_a_key_with_caching_off(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16, caching=False)
    engine.admit("r", range(40))
    engine.commit("r", 32)
    assert (engine.keyed, engine.counters("r"), engine.tables("r")) == ((), (0,), ((1, 2, 3),))


# vLLM's own tests and documents.


def test_prefill_of_four_requests_that_share_three_blocks(engine_of: EngineOf) -> None:
    """vLLM's unit test of prefix caching, block 16, 10 usable blocks."""
    engine = engine_of(11, FULL_16)
    shared = list(range(48))
    assert engine.admit("0", [*shared, *[3] * 7]).new_blocks == ((1, 2, 3, 4),)
    assert engine.keyed == (1, 2, 3)
    assert engine.admit("1", [*shared, *[4] * 5]).new_blocks == ((5,),)
    assert (engine.refs(1, 2, 3, 4, 5), engine.num_free) == ([2, 2, 2, 1, 1], 5)
    engine.free("0")
    engine.free("1")
    assert engine.queue == (5, 4, 6, 7, 8, 9, 10, 3, 2, 1)
    assert engine.admit("2", [*shared, *[5] * 6]).new_blocks == ((5,),)
    assert engine.num_free == 6
    engine.free("2")
    assert engine.admit("3", range(1000, 1160)).new_blocks == ((5, 4, 6, 7, 8, 9, 10, 3, 2, 1),)
    assert engine.num_free == 0


@pytest.mark.parametrize(
    ("free_order", "queues", "taken", "left"),
    [
        (
            FreeOrder.UNHASHED_FIRST,
            [(5, 8, 9, 10, 4, 3), (7, 5, 8, 9, 10, 4, 3, 6, 2, 1)],
            (7, 5, 8, 9, 10),
            (4, 6),
        ),
        (FreeOrder.LRU, [(8, 9, 10, 5, 4, 3), (8, 9, 10, 5, 4, 3, 7, 6, 2, 1)], (8, 9, 10, 5, 4), (7, 6)),
    ],
)
def test_the_example_of_the_design_document(
    engine_of: EngineOf,
    free_order: FreeOrder,
    queues: list[tuple[int, ...]],
    taken: tuple[int, ...],
    left: tuple[int, ...],
) -> None:
    """Block 4: a request of 15 tokens that decodes, one that shares 10 tokens, one that shares 12."""
    engine = engine_of(11, FullAttention(4), free_order=free_order)
    assert engine.admit("0", range(15)).new_blocks == ((1, 2, 3, 4),)
    engine.decode("0", 15)
    assert engine.decode("0", 16).new_blocks == ((5,),)
    assert engine.keyed == (1, 2, 3, 4)
    assert engine.admit("1", [*range(10), 90, 91, 92, 93]).new_blocks == ((6, 7),)
    engine.free("0")
    seen = [engine.queue]
    engine.free("1")
    assert [*seen, engine.queue] == queues
    engine.request("2", [*range(12), *range(50, 67)])
    assert engine.look_up("2") == Hit(12, ((1, 2, 3),))
    assert engine.ask("2").new_blocks == (taken,)
    assert engine.queue == left


def test_a_decoding_duplicate_keeps_its_own_block(engine_of: EngineOf) -> None:
    """The document's duplicated blocks, block 4: the second request decodes the tokens of the first."""
    engine = engine_of(11, FullAttention(4))
    for name in ("one", "two"):
        engine.admit(name, "ABCDEF")
        for token in "GHI":
            engine.decode(name, token)
    assert (engine.tables("one"), engine.tables("two")) == (((1, 2, 3),), ((1, 4, 5),))
    assert engine.keyed == (1, 2, 4)
    assert engine.requests["one"].prefix_keys == engine.requests["two"].prefix_keys


def test_a_stale_snapshot_is_answered_as_it_was(engine_of: EngineOf) -> None:
    engine = engine_of(11, FULL_16)
    request = engine.request("r", range(40))
    fresh = engine.snapshot
    first = allocate_slots(fresh, request, 40)
    assert allocate_slots(fresh, request, 40) == first
    assert get_computed_blocks(fresh, request) == Hit(0, ((),))

"""The session: what a target answers, raises and shows, and which law is said to be broken when that is not right."""

import inspect
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.conformance.actions import Action, perform
from slotproof.conformance.adapter import NO_HIT, BlockIds, Hit, Profile, RequestView, Strictness
from slotproof.conformance.deviations import Deviation
from slotproof.conformance.driver import walk_episode
from slotproof.conformance.errors import AdapterError
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.strictness import level_of
from slotproof.conformance.targets.impl import ImplAdapter
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.conformance.violation import Violation
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention, SlidingWindow
from slotproof.spec.laws import LAWS
from slotproof.spec.pool import NO_KEY
from slotproof.spec.snapshot import Copy
from slotproof.spec.transition import Allocated, Committed, LookedUp

from .faults import FAULTS, SEEN_IN_THE_WILD, Fault, plant

CONFIG = Config(6, (FullAttention(2),), 16, 16)
WINDOW_CONFIG = Config(6, (SlidingWindow(2, 3),), 16, 16)


def admit(name: str, *prompt: int, **arguments: object) -> Action:
    return Action("admit", {"request": name, "prompt": prompt, **arguments})


def on(verb: str, name: str, **arguments: object) -> Action:
    return Action(verb, {"request": name, **arguments})


def session_of(adapter: Any, *actions: Action, config: Config = CONFIG) -> Session:
    session = Session(adapter, config, Tally.fresh())
    for action in actions:
        perform(session, action)
    return session


def violation_of(adapter: Any, *actions: Action, config: Config = CONFIG) -> Violation:
    """The violation of the last action; the others must pass."""
    session = session_of(adapter, *actions[:-1], config=config)
    with pytest.raises(Violation) as caught:
        perform(session, actions[-1])
    return caught.value


class OutOfBlocks(Exception):
    """What some allocators raise instead of refusing."""


class Raising(ReferenceAdapter):
    """The specification, except that it raises where it should refuse."""

    def allocate_slots(self, request: RequestView, num_new_tokens: int, **arguments: Any) -> BlockIds | None:
        answer = super().allocate_slots(request, num_new_tokens, **arguments)
        if answer is None:
            raise OutOfBlocks("5 blocks are not enough")
        return answer


class TestExceptions:
    TOO_LONG = admit("A", *(1,) * 11)

    def test_that_the_profile_declares_is_a_refusal(self) -> None:
        class Declared(Raising):
            profile = replace(Raising.profile, refusals=(OutOfBlocks,))

        session = session_of(Declared(), self.TOO_LONG)
        assert [event.answer for event in session.answers if isinstance(event, Allocated)] == [None]
        assert session.world.waiting() == [session.world.requests["A"]]

    def test_that_is_not_declared_breaks_the_law_about_the_call(self) -> None:
        violation = violation_of(Raising(), self.TOO_LONG)
        raised = "the call raised OutOfBlocks: 5 blocks are not enough"
        assert violation.law_ids == ("COUNT-1",)
        assert (violation.objection, violation.expected, violation.got) == (raised, "no exception", raised)

    @pytest.mark.parametrize(
        ("call", "action", "law"),
        [
            ("get_computed_blocks", admit("B", 1, 1), "LOOKUP-1"),
            ("commit", on("output", "A", accepted=0, token=1), "HASH-2"),
            ("free", on("free", "A"), "FREE-1"),
            ("preempt", on("preempt", "A"), "FREE-1"),
            ("defer_free", on("defer", "A"), "FREE-1"),
            ("evict", Action("evict", {"blocks": (1,)}), "EVICT-1"),
            ("reset_prefix_cache", Action("reset"), "RESET-1"),
            ("can_allocate", on("extend", "A"), "CAN-1"),
        ],
    )
    def test_of_any_call_breaks_the_law_about_it(self, call: str, action: Action, law: str) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise RuntimeError("no")

        adapter = ImplAdapter()
        session = session_of(adapter, admit("A", 1, 1, 1))
        setattr(adapter, call, fail)
        with pytest.raises(Violation) as caught:
            perform(session, action)
        assert (caught.value.law_ids, caught.value.objection) == ((law,), "the call raised RuntimeError: no")

    def test_of_a_reset_is_the_adapters_fault(self) -> None:
        class NoReset(ReferenceAdapter):
            def reset(self, config: Config) -> None:
                raise RuntimeError("not now")

        with pytest.raises(AdapterError) as caught:
            session_of(NoReset())
        assert str(caught.value) == "reset raised RuntimeError: not now"


WRONG_ANSWERS: dict[str, tuple[str, object, str]] = {
    "a number for blocks": (
        "allocate_slots",
        3,
        "allocate_slots returned 3: return block ids, one tuple a group (or a flat list)",
    ),
    "text for blocks": (
        "allocate_slots",
        "12",
        "allocate_slots returned '12': return block ids, one tuple a group (or a flat list)",
    ),
    "a block that is no number": (
        "allocate_slots",
        ((1, "2"),),
        "allocate_slots returned '2' where a block id is due: return integers",
    ),
    "True for a count": (
        "num_free_blocks",
        True,
        "num_free_blocks returned True: return a number of blocks",
    ),
    "nothing for a count": (
        "num_free_blocks",
        None,
        "num_free_blocks returned None: return a number of blocks",
    ),
    "a pair for a hit": (
        "get_computed_blocks",
        (((1,),), 2),
        "get_computed_blocks returned (((1,),), 2): return a Hit",
    ),
    "a number for yes or no": (
        "can_allocate",
        1,
        "can_allocate returned 1: return True or False",
    ),
    "an unknown event": (
        "take_events",
        [("moved", 1)],
        "take_events returned an event of kind 'moved': use stored, removed or cleared",
    ),
}
"""What is wrong, the call, what it returns, and the whole message."""


class TestWrongAnswers:
    @pytest.mark.parametrize("wrong", WRONG_ANSWERS)
    def test_are_the_adapters_fault(self, wrong: str) -> None:
        call, answer, message = WRONG_ANSWERS[wrong]
        adapter = ImplAdapter()
        session = session_of(adapter, admit("A", 1, 1, 1))
        setattr(adapter, call, lambda *_, **__: answer)
        with pytest.raises(AdapterError) as caught:
            perform(session, admit("B", 1, 1, 1))
        assert str(caught.value) == message

    def test_of_a_reset_of_the_cache_too(self) -> None:
        adapter = ImplAdapter()
        session = session_of(adapter)
        adapter.reset_prefix_cache = lambda: None  # type: ignore[method-assign,assignment,return-value]
        with pytest.raises(AdapterError, match=r"^reset_prefix_cache returned None: return True or False$"):
            perform(session, Action("reset"))

    def test_about_the_number_of_groups(self) -> None:
        hybrid = Config(6, (FullAttention(2), SlidingWindow(2, 3)), 16, 16)
        adapter = ImplAdapter()
        session = session_of(adapter, config=hybrid)
        adapter.allocate_slots = lambda *_, **__: ((1,),)  # type: ignore[method-assign]
        with pytest.raises(AdapterError) as caught:
            perform(session, admit("A", 1))
        assert str(caught.value) == "allocate_slots returned 1 groups of block ids; the configuration has 2"


class Minimal:
    """As little as an adapter can be: no cache, blocks numbered from 0, flat lists, nothing to look into."""

    profile = Profile("minimal", caching=(False,), null_block=None)

    def reset(self, config: Config) -> None:
        self.block_size = config.block_size
        self.unused = list(range(config.usable_blocks))
        self.tables: dict[str, list[int]] = {}

    def allocate_slots(self, request: RequestView, num_new_tokens: int, *, hit: Hit = NO_HIT) -> Any:
        table = self.tables.get(request.request_id, [])
        missing = -(-(request.num_computed_tokens + num_new_tokens) // self.block_size) - len(table)
        if missing > len(self.unused):
            return None
        new = [self.unused.pop() for _ in range(missing)]
        self.tables[request.request_id] = table + new
        return new

    def free(self, request: RequestView) -> None:
        self.unused += self.tables.pop(request.request_id, [])

    def block_table(self, request: RequestView) -> Any:
        return self.tables.get(request.request_id, [])

    def num_free_blocks(self) -> int:
        return len(self.unused)


def minimal_walk(adapter: Any, tally: Tally | None = None) -> Violation | None:
    """The violation of a few walks at the level of safety."""
    for number in range(6):
        failure = walk_episode(
            adapter, Settings("full", caching=False), f"minimal/{number}", 100, tally or Tally.fresh()
        )
        if failure is not None:
            return failure.violation
    return None


LOOKS = (
    "block_table",
    "num_free_blocks",
    "ref_count",
    "free_queue",
    "cached_keys",
    "cached_counts",
    "snapshot",
    "take_events",
)
"""The calls that change nothing."""

UNREADABLE: dict[str, tuple[str, object, str]] = {
    "no queue": ("free_queue", None, "TypeError: 'NoneType' object is not iterable"),
    "keys without blocks": ("cached_keys", [1], "TypeError: cannot unpack non-iterable int object"),
    "a key of a block outside the pool": ("cached_keys", [(99, "a")], "ValueError: block 99 is not in the pool"),
    "a key that cannot be one": ("cached_keys", [(1, ["a"])], "TypeError: unhashable type: 'list'"),
    "no counters": ("cached_counts", None, "TypeError: 'NoneType' object is not iterable"),
    "events without a key": ("take_events", [1], "TypeError: cannot unpack non-iterable int object"),
}
"""What is shown, by which call, what it returns, and how that ends."""


class TestLooks:
    """What a target shows of its state."""

    @pytest.mark.parametrize("call", LOOKS)
    def test_that_raise_are_the_adapters_fault(self, call: str) -> None:
        def fail(*_: Any) -> None:
            raise RuntimeError("no")

        adapter = type("Blind", (ImplAdapter,), {call: fail})()
        with pytest.raises(AdapterError, match=rf"^{call} cannot be read, RuntimeError: no; "):
            session_of(adapter, admit("A", 1, 1, 1))

    @pytest.mark.parametrize("wrong", UNREADABLE)
    def test_that_cannot_be_read_are_too(self, wrong: str) -> None:
        call, answer, reason = UNREADABLE[wrong]
        adapter = type("Odd", (ImplAdapter,), {call: lambda *_: answer})()
        with pytest.raises(AdapterError) as caught:
            session_of(adapter, admit("A", 1, 1, 1))
        assert str(caught.value).startswith(f"{call} cannot be read, {reason}; ")

    @pytest.mark.parametrize(("call", "block"), [("allocate_slots", 6), ("block_table", -1)])
    def test_of_a_block_outside_the_pool_break_a_law(self, call: str, block: int) -> None:
        adapter = ImplAdapter()
        session = session_of(adapter, admit("A", 1, 1, 1))
        setattr(adapter, call, lambda *_, **__: ((block,),))
        with pytest.raises(Violation) as caught:
            perform(session, admit("B", 1, 1, 1))
        named = f"{call} named block {block}"
        assert (caught.value.law_ids, caught.value.got) == (("POOL-4",), named)
        assert caught.value.objection == f"{named}, which the pool does not have"


class TestSafety:
    """A target that shows tables and a number of free blocks only is held to what can be seen of it."""

    def test_laws_about_what_is_not_shown_are_never_checked(self) -> None:
        tally = Tally.fresh()
        assert minimal_walk(Minimal(), tally) is None
        assert set(tally.checks) == {
            "POOL-3",
            "POOL-4",
            "LEAK-1",
            "REFUSE-1",
            "COMMIT-1",
            "COMMIT-3",
            "ISO-1",
            "TABLE-2",
        }

    def test_ids_that_start_at_zero_are_shown_one_higher(self) -> None:
        session = session_of(Minimal(), admit("A", 1, 1, 1), config=replace(CONFIG, caching=False))
        assert session.snapshot.holding("A").tables[0].entries == (5, 4)
        assert [event.answer for event in session.answers if isinstance(event, Allocated)] == [((5, 4),)]

    def test_a_block_handed_out_twice_is_seen(self) -> None:
        class Twice(Minimal):
            def free(self, request: RequestView) -> None:
                self.unused += self.tables.pop(request.request_id)[:1] * 2

        violation = minimal_walk(Twice())
        assert violation is not None
        assert violation.law_ids == ("POOL-4", "LEAK-1")

    def test_a_leak_is_seen(self) -> None:
        class Leaking(Minimal):
            def free(self, request: RequestView) -> None:
                self.unused += self.tables.pop(request.request_id, [])[1:]

        violation = minimal_walk(Leaking())
        assert violation is not None
        assert violation.law_ids == ("POOL-4",)

    def test_a_refusal_that_keeps_some_blocks_is_seen(self) -> None:
        class Halfway(Minimal):
            def allocate_slots(self, request: RequestView, num_new_tokens: int, *, hit: Hit = NO_HIT) -> Any:
                answer = super().allocate_slots(request, num_new_tokens, hit=hit)
                if answer is None and self.unused:
                    self.tables.setdefault(request.request_id, []).append(self.unused.pop())
                return answer

        violation = minimal_walk(Halfway())
        assert violation is not None
        assert violation.law_ids == ("REFUSE-1", "COMMIT-3")

    def test_another_requests_table_whose_blocks_change_places_is_seen(self) -> None:
        class Swapping(Minimal):
            def free(self, request: RequestView) -> None:
                super().free(request)
                for table in self.tables.values():
                    table.reverse()

        violation = minimal_walk(Swapping())
        assert violation is not None
        assert violation.law_ids == ("COMMIT-3",)

    def test_a_yes_without_blocks_is_seen_by_what_is_read_later(self) -> None:
        """Given a target that says yes and gives nothing when it is full, then tokens are read that nobody wrote."""

        class Polite(Minimal):
            def allocate_slots(self, request: RequestView, num_new_tokens: int, *, hit: Hit = NO_HIT) -> Any:
                return super().allocate_slots(request, num_new_tokens, hit=hit) or []

        violation = minimal_walk(Polite())
        assert violation is not None
        assert violation.law_ids == ("TABLE-2",)


class AtCounts(ImplAdapter):
    """Our allocator when it claims the same counts only, so that what is seen of it is what is judged."""

    profile = replace(ImplAdapter.profile, strictness=Strictness.COUNTS)


class TestSeenState:
    """Below identity the laws judge a snapshot rebuilt from what the target shows."""

    def test_is_rebuilt_as_the_specification_has_it(self) -> None:
        actions = (admit("A", 1, 1, 1, 1, 2), admit("B", 1, 1, 2), on("output", "A", accepted=0, token=1))
        seen = session_of(AtCounts(), *actions).snapshot
        due = session_of(ReferenceAdapter(), *actions).snapshot
        assert (seen.pool.refs, seen.pool.keys, seen.pool.queue) == (due.pool.refs, due.pool.keys, due.pool.queue)
        assert sorted(seen.pool.keyed) == sorted(due.pool.keyed)
        assert seen.holdings == due.holdings

    def test_names_a_new_key_after_the_position_it_is_seen_at(self) -> None:
        """Given two prompts that part at their second block, when both are keyed, then they share one key."""
        session = session_of(AtCounts(), admit("A", 1, 1, 2, 2), admit("B", 1, 1, 1, 1))
        request_a, request_b = session.world.requests["A"], session.world.requests["B"]
        keys = session.snapshot.pool.keys
        assert [keys[block] for block in (1, 2)] == list(request_a.prefix_keys)
        assert [keys[block] for block in (1, 3)] == list(request_b.prefix_keys)

    def test_names_a_key_that_stands_at_no_position_like_no_prefix(self) -> None:
        class Odd(AtCounts):
            def cached_keys(self) -> Sequence[tuple[int, Hashable]]:
                return [*super().cached_keys(), (5, "odd")]

        session = Session(Odd(), CONFIG, Tally.fresh(), law_ids=("POOL-1",))
        perform(session, admit("A", 1, 1, 1))
        assert session.snapshot.pool.keys[1] == session.world.requests["A"].prefix_keys[0]
        assert session.snapshot.pool.keys[5] < NO_KEY
        assert session.snapshot.pool.keyed == (1, 5)

    @pytest.mark.parametrize("number", range(4))
    def test_of_a_sound_target_breaks_no_law(self, number: int) -> None:
        groups = ("full", "window", "full,window", "window,window")[number]
        for strictness in Strictness:

            class Claiming(ImplAdapter):
                profile = replace(ImplAdapter.profile, strictness=strictness)

            assert walk_episode(Claiming(), Settings(groups), f"seen/{number}", 150, Tally.fresh()) is None

    @pytest.mark.parametrize("fault", [*FAULTS, *SEEN_IN_THE_WILD], ids=lambda fault: fault.name)
    def test_of_a_faulty_target_breaks_the_laws_it_is_held_to(self, fault: Fault, tmp_path: Path) -> None:
        faulty = plant(fault, tmp_path)
        faulty.profile = replace(faulty.profile, strictness=Strictness.COUNTS)
        walks = (walk_episode(faulty, Settings("full"), f"faulty/{number}", 100, Tally.fresh()) for number in range(12))
        objected = {law for failure in walks if failure is not None for law in failure.violation.law_ids}
        if level_of(fault.law) <= Strictness.COUNTS:
            assert fault.law in objected
        else:
            assert objected == set()


class TestIdentity:
    def test_reports_the_first_law_of_the_list_and_names_the_others(self, tmp_path: Path) -> None:
        faulty = plant(next(fault for fault in FAULTS if fault.law == "ADMIT-3"), tmp_path)
        violation = violation_of(faulty, admit("A", 1, 1, reserved=5))
        order = [law.id for law in LAWS]
        assert violation.law_ids == ("REFUSE-2", "ADMIT-3", "CAN-1")
        assert sorted(violation.law_ids, key=order.index) == list(violation.law_ids)
        assert (violation.expected, violation.got) == ("None", "((1,),)")

    def test_says_what_was_due(self) -> None:
        adapter = ImplAdapter()
        session = session_of(adapter, admit("A", 1, 1, 1))
        adapter.get_computed_blocks = lambda _: NO_HIT  # type: ignore[method-assign]
        with pytest.raises(Violation) as caught:
            perform(session, admit("B", 1, 1, 1))
        assert caught.value.law_ids == ("LOOKUP-1",)
        assert caught.value.objection == "a hit of 0 blocks; 1 are cached in every group"
        assert caught.value.expected == "a hit of 2 tokens on blocks ((1,),)"
        assert caught.value.got == "a hit of 0 tokens on blocks ((),)"

    def test_goes_on_from_what_was_seen(self, tmp_path: Path) -> None:
        """Given a known deviation, when it shows, then later steps start from the target's own state."""
        faulty = plant(next(fault for fault in FAULTS if fault.law == "FREE-1"), tmp_path)
        session = Session(faulty, CONFIG, Tally.fresh(), deviations=[known("FREE-1", "the queue is")])
        for action in (admit("A", 1, 1, 1), on("free", "A"), admit("B", 2, 2, 2)):
            perform(session, action)
        assert session.snapshot.pool.queue == (5, 2, 1)
        assert session.tally.deviations == {"known": 1}

    def test_judges_the_laws_behind_a_known_deviation(self, tmp_path: Path) -> None:
        """Given a call that breaks three laws, one of them as known, when it is judged, then two are reported."""
        faulty = plant(next(fault for fault in FAULTS if fault.law == "ADMIT-3"), tmp_path)
        session = Session(faulty, CONFIG, Tally.fresh(), deviations=[known("REFUSE-2", "^accepted")])
        with pytest.raises(Violation) as caught:
            perform(session, admit("A", 1, 1, reserved=5))
        assert caught.value.law_ids == ("ADMIT-3", "CAN-1")
        assert session.tally.deviations == {"known": 1}

    def test_asks_in_the_order_of_an_engine(self) -> None:
        session = session_of(ReferenceAdapter(), admit("A", 1, 1, 1), on("output", "A", accepted=0, token=1))
        assert [type(event) for event in session.answers] == [LookedUp, Allocated, Committed]


def known(law: str, objection: str) -> Deviation:
    return Deviation("known", "faulty", law, objection, "its choice", "its manual", Path("unread.json"))


class Tracing(ImplAdapter):
    """Our allocator with a counter of calls in its own snapshot."""

    def snapshot(self) -> object:
        return (*super().snapshot(), ("asked", self.asked))  # type: ignore[misc]

    def reset(self, config: Config) -> None:
        super().reset(config)
        self.asked = 0

    def allocate_slots(self, request: RequestView, num_new_tokens: int, **arguments: Any) -> BlockIds | None:
        self.asked += 1
        return super().allocate_slots(request, num_new_tokens, **arguments)


Tracing.allocate_slots.__signature__ = inspect.signature(ImplAdapter.allocate_slots)  # type: ignore[attr-defined]


class TestOwnSnapshot:
    def test_that_a_refusal_changes_breaks_the_law(self) -> None:
        violation = violation_of(Tracing(), admit("A", 1, 1), admit("B", 1, 1, reserved=5))
        assert violation.law_ids == ("REFUSE-1",)
        assert violation.objection == "the target's own snapshot changed: 1 became 2"
        assert (violation.expected, violation.got) == ("no change", "1 became 2")

    def test_may_change_where_stage_1_releases(self) -> None:
        actions = (admit("A", *(1,) * 9, new=6), on("output", "A", accepted=0, token=1), on("extend", "A", reserved=9))
        session = session_of(Tracing(), *actions, config=WINDOW_CONFIG)
        assert session.snapshot.holding("A").tables[0].entries == (0, 0, 3)

    def test_must_not_change_where_stage_0_refuses(self) -> None:
        actions = (admit("A", *(1,) * 9, new=6), on("output", "A", accepted=0, token=1), admit("B", 2, 2, 2, 2, 2))
        full = replace(WINDOW_CONFIG, num_blocks=7)
        violation = violation_of(Tracing(), *actions, on("extend", "A", whole=True, reserved=9), config=full)
        assert violation.law_ids == ("REFUSE-1",)

    def test_may_change_when_the_call_is_accepted(self) -> None:
        assert session_of(Tracing(), admit("A", 1, 1)).answers

    def test_is_not_asked_of_a_target_that_has_none(self) -> None:
        class Untraced(Tracing):
            snapshot = None  # type: ignore[assignment]

        assert session_of(Untraced(), admit("A", 1, 1), admit("B", 1, 1, reserved=5)).answers


class Locking(ImplAdapter):
    """Our allocator with lookups that lock what they find until the hit is used or given back."""

    def reset(self, config: Config) -> None:
        super().reset(config)
        self.given_back: list[Hit] = []

    def release_hit(self, hit: Hit) -> None:
        self.given_back.append(hit)


class TestLocks:
    def test_of_a_refused_hit_are_given_back(self) -> None:
        adapter = Locking()
        session_of(adapter, admit("A", 1, 1, 1), admit("B", 1, 1, 1, reserved=9))
        assert adapter.given_back == [Hit(0, ()), Hit(2, ((1,),))][1:]

    def test_of_a_hit_that_is_used_are_kept(self) -> None:
        adapter = Locking()
        session_of(adapter, admit("A", 1, 1, 1), admit("B", 1, 1, 1))
        assert adapter.given_back == []


PARTIAL_CONFIG = Config(6, (FullAttention(4),), 20, 20, hash_size=2)
PARTIAL = admit("A", *(1,) * 7), on("output", "A", accepted=0, token=1), admit("B", *(1,) * 6, 2)


class TestPartialHits:
    def test_are_copied_before_they_are_read(self) -> None:
        for adapter in (ReferenceAdapter(), ImplAdapter()):
            session = session_of(adapter, *PARTIAL, config=PARTIAL_CONFIG)
            (event,) = [event for event in session.answers if isinstance(event, Allocated) and event.copies]
            assert event.copies == session.snapshot.copies == (Copy(2, 3),)

    def test_of_an_allocator_that_lists_no_copy_break_mem_2(self) -> None:
        class Forgets(ImplAdapter):
            def take_copies(self) -> Sequence[tuple[int, int]]:
                return []

        violation = violation_of(Forgets(), *PARTIAL, config=PARTIAL_CONFIG)
        assert ("MEM-2", "blocks none are to be copied; the hit needs 2 to 3") in [
            (violation.law_id, violation.objection),
            *violation.others,
        ]

    def test_whose_copy_was_not_made_are_misread(self) -> None:
        session = session_of(ReferenceAdapter(), *PARTIAL[:2], config=PARTIAL_CONFIG)
        session._oracle.copy = lambda pairs: None  # type: ignore[method-assign]
        with pytest.raises(Violation) as caught:
            perform(session, PARTIAL[2])
        found = "block 3 is read for position 4 of [1 1 1 1 1] and holds [nothing known]"
        assert (caught.value.law_id, caught.value.objection) == ("MEM-2", found)

    def test_name_one_block_a_group(self) -> None:
        class Two(ReferenceAdapter):
            def get_computed_blocks(self, request: RequestView) -> Hit:
                found = super().get_computed_blocks(request)
                return replace(found, tails=found.tails * 2)

        session = session_of(Two(), *PARTIAL[:2], config=PARTIAL_CONFIG)
        with pytest.raises(AdapterError, match=r"^get_computed_blocks returned a hit with tails \(2, 2\): name one"):
            perform(session, PARTIAL[2])

    def test_offered_too_soon_show_in_what_is_offered(self) -> None:
        class TooSoon(ReferenceAdapter):
            def partial_keys(self) -> Sequence[tuple[int, Hashable]]:
                return [(block, "early") for block, _ in self.cached_keys()]

        violation = violation_of(TooSoon(), PARTIAL[0], config=PARTIAL_CONFIG)
        found = "block 1 offers a part for copying that is not of 0 computed tokens"
        assert ("HASH-1", found) in violation.others


class TestBatches:
    CALLS = (
        admit("A", 1),
        admit("B", 1, 2),
        on("output", "A", accepted=0, token=1),
        on("output", "B", accepted=0, token=1),
    )

    def test_that_leave_a_row_out_break_batch_1(self) -> None:
        class Short(ReferenceAdapter):
            def allocate_decode(self, requests: Any, num_new_tokens: Any, **options: Any) -> Sequence[BlockIds]:
                return super().allocate_decode(requests[:1], num_new_tokens[:1], **options)

        batch = Action("batch", {"requests": ("B", "A")})
        assert session_of(ReferenceAdapter(), *self.CALLS, batch).answers
        violation = violation_of(Short(), *self.CALLS, batch)
        assert violation.law_id == "BATCH-1"
        assert violation.objection.startswith("1 rows got (((3,),),); call by call 2 get (((3,),), ((),))")

"""Exploring: pinned counts, faults planted in the specification and in targets, and the same answer whoever does it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pytest

from slotproof.conformance.adapter import BlockIds, RequestView
from slotproof.conformance.driven import TargetModel
from slotproof.conformance.errors import SetupError
from slotproof.conformance.explore import explore, explore_one, speed
from slotproof.conformance.model import SpecModel
from slotproof.conformance.replay import replay
from slotproof.conformance.scope import Scope, make_scope, small_worlds
from slotproof.conformance.search import search
from slotproof.conformance.targets.impl import ImplAdapter
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.conformance.vector import parse_vector
from slotproof.spec import admission, copies, groups, lookup, pool, release
from slotproof.spec.config import Config
from slotproof.spec.pool import NO_KEY, NULL_BLOCK, Pool
from slotproof.spec.request import Status

SMALL = make_scope(blocks=5, requests=2, tokens=4)
TINY = make_scope(blocks=4, requests=2, tokens=4, drafts=0, lookahead=0)
WINDOW = make_scope(groups="window:2", lookahead=0)
WATERMARK = make_scope(watermark=1)
EVICT = make_scope(extras=("evict",), lookahead=0, drafts=0)
PARTIAL = make_scope(groups="partial", blocks=4, lookahead=0, drafts=0)


@dataclass(frozen=True)
class Planted:
    """A slip of the specification: a name of a module, and what stands there instead; the law that must object, and in
    how many calls.
    """

    module: Any
    name: str
    slip: Callable[..., Any]
    law: str
    calls: int
    scope: Scope = SMALL


def stays_queued(block: int, before: Pool) -> Pool:
    """Pin a hit without taking it from the queue."""
    return before if block == NULL_BLOCK else before.with_ref(block, before.ref(block) + 1)


def to_the_back(block: int, before: Pool) -> Pool:
    """Queue a released keyless block to be popped last."""
    if block == NULL_BLOCK or before.ref(block) > 0 or before.key_of(block) != NO_KEY:
        return before
    return before.enqueue_back(block)


PLANTED = {
    "idle hits are not counted": Planted(admission, "idle_hits", lambda *_: 0, "COUNT-1", 3),
    "a hit stays in the queue": Planted(admission, "pin_block", stays_queued, "POOL-1", 3),
    "a popped block keeps its key": Planted(pool, "evict_block", lambda _, before: before, "INDEX-1", 3),
    "keyless blocks are freed to the back": Planted(release, "enqueue_keyless", to_the_back, "FREE-1", 2),
    "lookahead reaches past the model's length": Planted(
        admission,
        "slots_needed",
        lambda computed, new, lookahead, _: computed + new + lookahead,
        "TABLE-1",
        2,
        make_scope(tokens=3, lookahead=2),
    ),
    "the reserve does not count": Planted(
        admission, "is_short", lambda need, mark, free, _: need + mark > free, "ADMIT-3", 1, make_scope(reserved=4)
    ),
    "the watermark counts for running requests": Planted(
        admission, "watermark_for", lambda snapshot, _: snapshot.config.watermark_blocks, "ADMIT-2", 2, WATERMARK
    ),
    "equality refuses": Planted(
        admission, "is_short", lambda need, mark, free, kept: need + mark >= free - kept, "REFUSE-2", 1
    ),
    "the window is off by one": Planted(
        groups, "tokens_behind_window", lambda settled, window: max(settled - window, 0), "SKIP-1", 3, WINDOW
    ),
    "a hit leaves nothing to compute": Planted(lookup, "imin", lambda most, _: most, "LOOKUP-1", 3),
    "evict does nothing": Planted(release, "evict_block", lambda _, before: before, "EVICT-1", 2, EVICT),
    "what is copied is not pinned": Planted(admission, "pin_sources", lambda before, _: before, "COMMIT-1", 3, PARTIAL),
    "a popped block offers what it held": Planted(
        admission, "withdraw_popped", lambda _, after, name: after, "INDEX-1", 4, PARTIAL
    ),
    "the end of a copy changes nothing": Planted(
        copies, "release_run", lambda before, *_: before, "FREE-1", 4, PARTIAL
    ),
    "drafts give keys": Planted(admission, "tokens_to_cache", lambda computed, new, _: computed + new, "COUNT-1", 2),
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED.keys())
def test_a_slip_of_the_specification_is_found(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted.module, planted.name, planted.slip)
    explored = explore_one(planted.scope)
    assert explored.found is not None
    violated = [explored.found.fields["law"], *explored.found.fields["also"]]
    assert planted.law in violated, explored.found.text
    assert len(explored.found.fields["calls"]) == planted.calls, explored.found.text
    assert not explored.exhausted


def test_a_counterexample_is_a_vector_that_shows_the_violation_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "pin_block", stays_queued)
    found = explore_one(SMALL).found
    assert found is not None
    vector = parse_vector(json.dumps(found.fields["replay"]), "the counterexample")
    assert vector.source == "found by exploring"
    again = replay(ReferenceAdapter(), vector.config, vector.actions)
    assert again is not None
    assert again.violation.law_id == "POOL-1"
    monkeypatch.undo()
    assert replay(ReferenceAdapter(), vector.config, vector.actions) is None


def test_the_trace_is_the_shortest(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a search that tries every sequence of moves finds it, level by level and without a canonical form."""
    monkeypatch.setattr(admission, "pin_block", stays_queued)
    model = SpecModel(TINY)
    trace = search(model).violation
    assert trace is not None
    level, moves = [model.initial()], 0
    while True:
        moves += 1
        steps = list(chain.from_iterable(model.successors(state) for state in level))
        if any(after.objection is not None for _, after in steps):
            break
        level = [after for _, after in steps]
    assert len(trace.actions) == moves == 3


# Counts. Each is the number of worlds up to renaming, of moves between them, and the distance of the farthest world.

COUNTS = {
    "5 blocks, 3 requests, 4 tokens, full, unhashed-first": (24_499, 250_435, 16),
    "5 blocks, 3 requests, 4 tokens, full, lru": (36_925, 375_272, 17),
    "5 blocks, 3 requests, 4 tokens, window:3, unhashed-first": (24_499, 250_435, 16),
    "5 blocks, 3 requests, 4 tokens, window:3, lru": (36_925, 375_272, 17),
    "6 blocks, 2 requests, 6 tokens, full, unhashed-first": (3_083, 23_854, 16),
    "6 blocks, 2 requests, 6 tokens, full, lru": (6_417, 51_008, 20),
    "6 blocks, 2 requests, 6 tokens, window:3, unhashed-first": (6_338, 45_920, 18),
    "6 blocks, 2 requests, 6 tokens, window:3, lru": (17_100, 135_446, 33),
    "watermark, reserve and whole prompts": (1_004, 27_798, 10),
    "evict": (5_442, 41_890, 15),
    "reset": (1_484, 12_702, 13),
    "loads, with delayed caching": (1_703, 11_678, 13),
    "deferred frees": (12_980, 70_304, 16),
    "steps in flight": (15_277, 103_776, 22),
    "steps in flight and a window": (11_494, 75_598, 34),
    "hits that end inside a block of 2": (7_001, 28_402, 18),
    "hits that end inside a block of 3": (2_554, 12_085, 12),
    "two groups": (2_324, 16_958, 18),
    "lookahead past the model's length": (366, 3_625, 12),
    "caching off": (288, 2_600, 10),
}


QUICK = 30_000
"""Moves of a world that is explored in every run of the tests."""


def test_every_small_world_has_its_counts_pinned() -> None:
    assert list(COUNTS) == list(small_worlds())


@pytest.mark.parametrize(
    "world",
    [pytest.param(name, marks=[] if moves <= QUICK else pytest.mark.slow) for name, (_, moves, _) in COUNTS.items()],
)
def test_a_small_world_is_exhausted_and_keeps_every_law(world: str) -> None:
    explored = explore_one(small_worlds()[world])
    assert explored.found is None
    assert explored.exhausted
    assert (explored.states, explored.transitions, explored.depth) == COUNTS[world]


@pytest.mark.slow
def test_6_blocks_3_requests_and_6_tokens_are_exhausted() -> None:
    """As measured in 145 s on two busy cores, with at most 438 MiB a process."""
    (explored,) = explore([make_scope(blocks=7, requests=3, tokens=6)], workers=2)
    assert explored.found is None
    assert explored.exhausted
    assert (explored.states, explored.transitions, explored.depth) == (88_603, 1_066_728, 21)


def test_the_number_of_processes_changes_nothing() -> None:
    alone, shared = (explore_one(SMALL, workers=workers) for workers in (1, 2))
    assert (alone.states, alone.transitions, alone.depth) == (shared.states, shared.transitions, shared.depth)
    several = list(explore([TINY, SMALL], workers=2))
    assert [one.scope for one in several] == [TINY, SMALL]
    assert several[1].states == alone.states


def test_worlds_of_the_window_scopes_have_null_entries() -> None:
    """Else the window would not be explored at all."""
    model = SpecModel(WINDOW)
    worlds = [model.unpack(key).world for key in search(model, max_states=500).keys]  # type: ignore[arg-type]
    holdings = [held for world in worlds for held in world.snapshot.holdings.values()]
    tables = [table for held in holdings for table in held.tables]
    assert any(NULL_BLOCK in table.entries for table in tables)


# Targets.


class TurnsTheQueue(ReferenceAdapter):
    """A preemption also moves the head of the free queue to its end."""

    def preempt(self, request: RequestView) -> None:
        super().free(request)
        before = self._snapshot.pool
        turned = replace(before, queue=before.queue[1:] + before.queue[:1])
        self._snapshot = self._snapshot.with_pool(turned)


class CannotBeCopied(ImplAdapter):
    """Holds something that pickle cannot copy."""

    def reset(self, config: Config) -> None:
        super().reset(config)
        self.hook = lambda: None


class OnlyFull(ReferenceAdapter):
    """Has no other groups than full attention."""

    profile = replace(ReferenceAdapter.profile, group_kinds=("full",))


class RemembersRefusals(ReferenceAdapter):
    """Refuses a request for ever that it has refused once: a fault that no look at its state shows."""

    def reset(self, config: Config) -> None:
        super().reset(config)
        self.refused: set[str] = set()

    def allocate_slots(self, request: RequestView, num_new_tokens: int, **options: Any) -> BlockIds | None:  # type: ignore[override]
        if request.status == Status.RUNNING or request.request_id not in self.refused:
            answer = super().allocate_slots(request, num_new_tokens, **options)
            if answer is None:
                self.refused.add(request.request_id)
            return answer
        return None


def test_the_allocator_answers_as_the_specification_on_every_move() -> None:
    hybrid = make_scope(blocks=4, tokens=3, groups="full,window:2", extras=("load", "defer"), drafts=0)
    for scope in (TINY, hybrid, PARTIAL):
        plain, driven = search(SpecModel(scope)), search(TargetModel("impl", scope))
        assert driven.violation is None
        assert driven.exhausted
        assert (driven.states, driven.transitions, driven.depth) == (plain.states, plain.transitions, plain.depth)
        assert set(driven.keys) == set(plain.keys)


REPEATED = [name for name in COUNTS if name.startswith("5 blocks, 3 requests") and not name.endswith("full, lru")]
"""Worlds of several minutes, whose replay shows in others what it shows in the one that is left."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [pytest.param(name, marks=pytest.mark.exhaustive if name in REPEATED else []) for name in COUNTS],
)
def test_the_allocator_answers_as_the_specification_in_every_small_world(world: str) -> None:
    explored = explore_one(small_worlds()[world], target="impl", workers=2)
    assert explored.found is None
    assert (explored.states, explored.transitions, explored.depth) == COUNTS[world]


def test_a_target_that_cannot_be_copied_is_rebuilt() -> None:
    scope = make_scope(blocks=3, requests=2, tokens=3, drafts=0)
    copied, rebuilt = (TargetModel(target, scope) for target in ("impl", f"{__name__}:CannotBeCopied"))
    assert copied.initial().saved() is not None
    assert rebuilt.initial().saved() is None
    assert search(rebuilt).keys == search(copied).keys


def test_a_difference_of_a_target_is_found_and_shown() -> None:
    explored = explore_one(SMALL, target=f"{__name__}:TurnsTheQueue")
    assert explored.found is not None
    assert explored.found.fields["law"] == "FREE-1"
    assert len(explored.found.fields["calls"]) <= 2


def test_a_fault_that_hides_in_the_target_is_found() -> None:
    explored = explore_one(make_scope(blocks=4), target=f"{__name__}:RemembersRefusals")
    assert explored.found is not None
    assert "REFUSE-2" in (explored.found.fields["law"], *explored.found.fields["also"])


def test_a_target_that_lacks_something_is_refused_by_name() -> None:
    with pytest.raises(SetupError, match=r"cannot be driven through 2 requests, .*: reference has no window groups"):
        list(explore([make_scope(groups="window:2")], target=f"{__name__}:OnlyFull"))


def test_the_speed_is_of_both_kinds_of_worlds() -> None:
    measured = speed(TINY, max_states=100)
    assert measured.canonical > 0
    assert measured.raw > 0

"""Random walks: the pool stays consistent after every call, and refusals leave no trace."""

import random
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from slotproof.impl import AllocatorConfig, FullAttention, Request, RequestStatus, SlidingWindow, SlotAllocator
from slotproof.impl.groups import Group

Call = tuple[Request, int, dict[str, Any]]


class Walk:
    """One allocator under random calls; two-token prompts that extend each other make hits and duplicates common."""

    def __init__(self, seed: int, *groups: Group) -> None:
        print(f"seed {seed}")
        self.rng = random.Random(seed)
        self.config = AllocatorConfig(
            self.rng.choice([5, 9, 16]) * len(groups),
            groups,
            max_model_len=40,
            max_in_flight_tokens=self.rng.choice([None, 4]),
            watermark_blocks=self.rng.choice([0, 1]),
            enable_caching=self.rng.random() < 0.8,
            free_order=self.rng.choice(["unhashed-first", "lru"]),
        )
        self.allocator = SlotAllocator(self.config)
        self.running: dict[str, Request] = {}
        self.waiting_frees: list[tuple[tuple[int, ...], ...]] = []
        self.prompts: list[list[int]] = [[0]]
        self.count = 0

    def options(self) -> dict[str, Any]:
        choice = self.rng.choice
        return {
            "num_lookahead_tokens": choice([0, 0, 1, 3]),
            "reserved_blocks": choice([0, 0, 1, 3]),
            "full_sequence_must_fit": choice([True, False]),
            "has_scheduled_reqs": choice([True, False]),
            "delay_cache_blocks": choice([True, False, False]),
        }

    def newcomer(self) -> Call:
        base = self.rng.choice(self.prompts)
        tokens = base[: self.rng.randint(1, len(base))] + [
            self.rng.randint(0, 1) for _ in range(self.rng.randint(0, 9))
        ]
        self.prompts = [*self.prompts[-20:], tokens[:40]]
        self.count += 1
        request = Request(str(self.count), tokens[:40], block_size=self.config.block_size)
        blocks, hit = self.allocator.get_computed_blocks(request)
        left = request.num_tokens - hit
        external = self.rng.choice([0, 0, self.rng.randint(0, left - 1)])
        options = self.options() | {"num_new_computed_tokens": hit, "new_computed_blocks": blocks}
        return request, self.rng.randint(1, left - external), options | {"num_external_computed_tokens": external}

    def step(self) -> Call | None:
        """A call for a running request, drafts included; None if it cannot grow."""
        request = self.rng.choice(list(self.running.values()))
        if request.num_tokens == request.num_computed_tokens < 40:
            request.append([self.rng.randint(0, 1)])
        request.num_in_flight_tokens = self.rng.choice([0, 0, 2])
        room = self.config.max_model_len - request.num_computed_tokens
        new = min(self.rng.choice([1, 1, request.num_tokens - request.num_computed_tokens, 4]), room)
        return (request, new, self.options()) if new > 0 else None

    def call(self) -> Call | None:
        return self.step() if self.running and self.rng.random() < 0.6 else self.newcomer()

    def accepted(self, request: Request, new: int, options: dict[str, Any]) -> None:
        computed = request.num_computed_tokens + new
        computed += options.get("num_new_computed_tokens", 0) + options.get("num_external_computed_tokens", 0)
        request.num_computed_tokens = min(computed, request.num_tokens)
        request.status = RequestStatus.RUNNING
        self.running[request.request_id] = request

    def other(self) -> None:
        """Something that is not an allocation."""
        allocator, action = self.allocator, self.rng.randrange(8)
        if action == 0:
            self.waiting_frees = self.waiting_frees[allocator.return_deferred() :]
        elif action == 1:
            allocator.evict_blocks(self.rng.sample(range(self.config.num_blocks), 2))
        elif action == 2 and not self.running:
            assert allocator.reset_prefix_cache() is (not self.waiting_frees)
        elif self.running:
            request = self.running[self.rng.choice(list(self.running))]
            if action == 3:
                allocator.cache_blocks(request, request.num_computed_tokens)
                return
            del self.running[request.request_id]
            if action == 4:
                self.waiting_frees.append(allocator.block_table(request.request_id))
                allocator.defer_free(request)
            elif action == 5:
                allocator.preempt(request)
            else:
                allocator.free(request)

    def check(self) -> None:
        """POOL-1 to POOL-4, INDEX-1, TABLE-1, HASH-1 and HASH-2, by counting from the tables."""
        allocator, size = self.allocator, self.config.block_size
        tables = {request_id: allocator.block_table(request_id) for request_id in self.running}
        names = Counter(
            block for table in [*tables.values(), *self.waiting_frees] for group in table for block in group if block
        )
        usable = range(1, self.config.num_blocks)
        assert [allocator.ref_count(block) for block in usable] == [names[block] for block in usable]
        queue = allocator.free_queue()
        assert sorted(queue) == [block for block in usable if not names[block]]
        assert allocator.num_free_blocks == len(queue)
        keys = allocator.cached_blocks()
        assert sorted(allocator.index_order()) == sorted(keys)
        assert 0 not in keys
        for request_id, table in tables.items():
            request = self.running[request_id]
            for group, entries in enumerate(table):
                held = [block for block in entries if block]
                assert len(held) == len(set(held))
                full = allocator.cached_count(request_id)[group] or 0
                assert full * size <= request.num_tokens
                for position, block in enumerate(entries):
                    if block in keys:
                        assert keys[block] == (request.block_hashes[position], group)
                        assert position < full


KINDS: dict[str, tuple[Group, ...]] = {
    "full": (FullAttention(2),),
    "window": (SlidingWindow(2, 5),),
    "hybrid": (SlidingWindow(2, 3), FullAttention(2), SlidingWindow(2, 6)),
    "block of one": (FullAttention(1), SlidingWindow(1, 2)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_pool_stays_consistent_and_can_allocate_tells_the_truth(kind: str, snapshot: Callable[..., Any]) -> None:
    answers = Counter[bool]()
    for seed in range(60):
        walk = Walk(seed, *KINDS[kind])
        for _ in range(100):
            if walk.rng.random() < 0.3:
                walk.other()
            elif call := walk.call():
                request, new, options = call
                before = snapshot(walk.allocator)
                expected = walk.allocator.can_allocate(request, new, **options)
                assert snapshot(walk.allocator) == before
                admitted = walk.allocator.allocate_slots(request, new, **options) is not None
                assert admitted is expected
                answers[admitted] += 1
                if admitted:
                    walk.accepted(request, new, options)
            walk.check()
        for request in walk.running.values():
            walk.allocator.free(request)
        while walk.allocator.return_deferred():
            pass
        assert walk.allocator.num_free_blocks == walk.config.num_blocks - 1
    assert min(answers[True], answers[False]) > 500


@pytest.mark.parametrize("kind", KINDS)
def test_a_newcomer_is_counted_exactly(kind: str) -> None:
    """COUNT-1, REFUSE-2: a call is admitted with just what it takes free beside the reserve, and refused with less."""
    admitted = 0
    for seed in range(100):
        walk = Walk(seed, *KINDS[kind])
        for _ in range(60):
            if walk.rng.random() < 0.3:
                walk.other()
                continue
            call = walk.call()
            if call is None:
                continue
            request, new, options = call
            plain = options | {"full_sequence_must_fit": False, "has_scheduled_reqs": False}
            free = walk.allocator.num_free_blocks
            answers = {
                reserved: walk.allocator.can_allocate(request, new, **plain | {"reserved_blocks": reserved})
                for reserved in range(free + 2)
            }
            known = request.request_id in walk.running
            if walk.allocator.allocate_slots(request, new, **options) is None:
                continue
            walk.accepted(request, new, options)
            if not known:
                left = walk.allocator.num_free_blocks
                assert answers == {reserved: reserved <= left for reserved in answers}
                admitted += 1
    assert admitted > 200


@pytest.mark.slow
def test_a_hundred_thousand_refusals_leave_no_trace(snapshot: Callable[..., Any]) -> None:
    refusals = 0
    for seed in range(1000):
        walk = Walk(seed, *KINDS["full"])
        calls = list[Call]()
        for _ in range(30):
            if walk.rng.random() < 0.2:
                walk.other()
            elif call := walk.call():
                request, new, options = call
                if walk.allocator.allocate_slots(request, new, **options) is not None:
                    walk.accepted(request, new, options)
        calls = [call for _ in range(40) if (call := walk.call())]
        refused = [call for call in calls if not walk.allocator.can_allocate(call[0], call[1], **call[2])]
        before = snapshot(walk.allocator)
        for request, new, options in refused * (1 + 120 // max(len(refused), 1)):
            assert walk.allocator.allocate_slots(request, new, **options) is None
            assert snapshot(walk.allocator) == before
            refusals += 1
        if refusals >= 100_000:
            return
    pytest.fail(f"only {refusals} refusals")


@pytest.mark.parametrize("kind", ["window", "hybrid"])
def test_refusals_with_windows_change_what_stage_1_alone_would(kind: str, snapshot: Callable[..., Any]) -> None:
    refused = {"stage 0": 0, "stage 2": 0, "released": 0}
    for seed in range(100):
        walk = Walk(seed, *KINDS[kind])
        for _ in range(60):
            call = walk.call()
            if call is None:
                continue
            request, new, options = call
            twin = deepcopy(walk.allocator)
            untouched = snapshot(twin)
            if walk.allocator.allocate_slots(request, new, **options) is not None:
                walk.accepted(request, new, options)
                continue
            after = snapshot(walk.allocator)
            without_stage_0 = options | {"full_sequence_must_fit": False}
            if twin.can_allocate(request, new, **without_stage_0):
                assert after == untouched
                refused["stage 0"] += 1
            elif not options["full_sequence_must_fit"]:
                # Stage 2 must refuse this one, so stage 1 is all that happens.
                assert twin.allocate_slots(request, new, **without_stage_0 | {"reserved_blocks": 1000}) is None
                assert after == snapshot(twin)
                refused["stage 2"] += 1
                refused["released"] += after != untouched
    assert min(refused.values()) > 20, refused

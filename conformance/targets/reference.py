"""The specification itself behind the adapter protocol."""

from collections.abc import Hashable, Iterable, Sequence

from slotproof.conformance.adapter import NO_HIT, BlockIds, Hit, Profile, RequestView, Strictness
from slotproof.spec import laws
from slotproof.spec.admission import Allocation, allocate_slots, commit
from slotproof.spec.config import Config
from slotproof.spec.copies import release_copy
from slotproof.spec.lookup import Hit as SpecHit
from slotproof.spec.lookup import get_computed_blocks
from slotproof.spec.release import defer_free, evict_blocks, free, reset_prefix_cache, return_deferred
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Snapshot, empty

PROFILE = Profile(
    name="reference",
    version=f"{len(laws.LAWS)} laws",
    strictness=Strictness.IDENTITY,
    group_kinds=("full", "window", "hybrid", "partial"),
    salts=True,
    unknown_free="ignored",
)


class ReferenceAdapter:
    """Keeps one snapshot and replaces it by what each operation returns."""

    profile = PROFILE

    def __init__(self) -> None:
        self._snapshot: Snapshot
        self._events: list[tuple[str, Hashable]] = []
        self._copies: list[tuple[int, int]] = []

    def reset(self, config: Config) -> None:
        self._snapshot = empty(config)
        self._events = []
        self._copies = []

    def get_computed_blocks(self, request: RequestView) -> Hit:
        found = get_computed_blocks(self._snapshot, _spec(request))
        return Hit(found.num_tokens, found.blocks, tails=found.tails)

    def allocate_slots(
        self,
        request: RequestView,
        num_new_tokens: int,
        *,
        hit: Hit = NO_HIT,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,
        full_sequence_must_fit: bool = False,
        reserved_blocks: int = 0,
        has_scheduled_reqs: bool = True,
    ) -> BlockIds | None:
        answer = allocate_slots(
            self._snapshot,
            _spec(request),
            num_new_tokens,
            hit=SpecHit(hit.num_tokens, hit.blocks, hit.tails) if hit.num_tokens else None,
            num_lookahead_tokens=num_lookahead_tokens,
            num_external_computed_tokens=num_external_computed_tokens,
            delay_cache_blocks=delay_cache_blocks,
            full_sequence_must_fit=full_sequence_must_fit,
            reserved_blocks=reserved_blocks,
            has_scheduled_reqs=has_scheduled_reqs,
        )
        self._copies += answer.snapshot.copies[len(self._snapshot.copies) :]
        self._move_to(answer.snapshot)
        return answer.new_blocks if isinstance(answer, Allocation) else None

    def allocate_decode(
        self,
        requests: Sequence[RequestView],
        num_new_tokens: Sequence[int],
        *,
        num_lookahead_tokens: int = 0,
        reserved_blocks: int = 0,
    ) -> Sequence[BlockIds]:
        answers = list[BlockIds]()
        for request, new in zip(requests, num_new_tokens, strict=True):
            answer = ReferenceAdapter.allocate_slots(
                self, request, new, num_lookahead_tokens=num_lookahead_tokens, reserved_blocks=reserved_blocks
            )
            if answer is None:
                break
            answers.append(answer)
        return answers

    def commit(self, request: RequestView, num_computed_tokens: int) -> None:
        self._move_to(commit(self._snapshot, _spec(request), num_computed_tokens))

    def free(self, request: RequestView) -> None:
        self._move_to(free(self._snapshot, request.request_id))

    def defer_free(self, request: RequestView) -> None:
        self._move_to(defer_free(self._snapshot, request.request_id))

    def return_deferred(self) -> None:
        self._move_to(return_deferred(self._snapshot))

    def take_copies(self) -> Sequence[tuple[int, int]]:
        copies, self._copies = self._copies, []
        return copies

    def release_copy(self) -> None:
        self._move_to(release_copy(self._snapshot))

    def partial_keys(self) -> Sequence[tuple[int, Hashable]]:
        return [(part.block, part.key) for part in self._snapshot.parts]

    def evict(self, block_ids: Iterable[int]) -> None:
        self._move_to(evict_blocks(self._snapshot, tuple(block_ids)))

    def reset_prefix_cache(self) -> bool:
        snapshot, done = reset_prefix_cache(self._snapshot)
        self._move_to(snapshot)
        return done

    def block_table(self, request: RequestView) -> BlockIds:
        return tuple(table.entries for table in self._snapshot.holding(request.request_id).tables)

    def num_free_blocks(self) -> int:
        return self._snapshot.pool.num_free()

    def ref_count(self, block_id: int) -> int:
        return self._snapshot.pool.ref(block_id)

    def free_queue(self) -> Sequence[int]:
        return self._snapshot.pool.queue

    def cached_keys(self) -> Sequence[tuple[int, Hashable]]:
        pool = self._snapshot.pool
        return tuple((block, pool.key_of(block)) for block in pool.keyed)

    def cached_counts(self, request: RequestView) -> Sequence[int]:
        return self._snapshot.holding(request.request_id).cached

    def snapshot(self) -> object:
        return self._snapshot.key()

    def take_events(self) -> Sequence[tuple[str, Hashable]]:
        events, self._events = self._events, []
        return events

    def _move_to(self, snapshot: Snapshot) -> None:
        before, after = self._snapshot.pool, snapshot.pool
        self._events += [
            event
            for old, new in zip(before.keys, after.keys, strict=True)
            if old != new
            for event in (("removed", old), ("stored", new))
            if event[1] != -1
        ]
        self._snapshot = snapshot


def _spec(request: RequestView) -> Request:
    """The suite shows the specification's own requests."""
    assert isinstance(request, Request)
    return request

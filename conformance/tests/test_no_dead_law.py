"""No law is dead weight: for each there is a fault that it alone notices, or it is a corollary and names the cause.

A corollary objects only where one of its parents does as well. It stays because it says which part of the parent's
inequality or count is wrong, which is what the reader of a red gate wants to know.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest

from slotproof.conformance.adapter import NO_HIT, Adapter, BlockIds, Hit, RequestView, Strictness
from slotproof.conformance.driver import walk_episode
from slotproof.conformance.replay import Failure, replay
from slotproof.conformance.session import Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.strictness import level_of
from slotproof.conformance.targets.impl import ImplAdapter
from slotproof.spec.config import Config
from slotproof.spec.laws import LAWS

from .faults import FAULTS, plant

EPISODES = 160
STEPS = 100
ENOUGH = 3
GROUPS = ("full", "window", "full,window", "partial")

COUNTS, IDENTITY = Strictness.COUNTS, Strictness.IDENTITY

SEEN_IN_MUTANTS = frozenset({"REFUSE-3", "LEAK-1", "ISO-1"})
"""Laws for which a mutant of the specification is on record that only they notice; `slotproof laws` names it."""

COROLLARIES = {
    "TABLE-1": ("COUNT-1", "lookahead reaches past the model's length"),
    "ADMIT-1": ("REFUSE-2", "stage 0 looks at the chunk only"),
    "ADMIT-2": ("REFUSE-2", "the watermark counts for running requests"),
    "ADMIT-3": ("REFUSE-2", "reserved blocks are ignored"),
    "COUNT-2": ("REFUSE-2", "idle hits are not counted"),
    "COUNT-3": ("COUNT-1", "lookahead reaches past the model's length"),
}
"""By law: the parent that objects whenever it does, and a planted fault that shows both."""


class Faulty(ImplAdapter):
    """Our allocator with a fault: what it does or shows is wrong once `broken`."""

    strictness: ClassVar[Strictness] = IDENTITY
    """The level at which the law is alone."""

    def __init__(self) -> None:
        super().__init__()
        self.profile = replace(ImplAdapter.profile, strictness=self.strictness)

    def reset(self, config: Config) -> None:
        super().reset(config)
        self.broken = False
        self.marked: frozenset[Any] = frozenset()
        """The requests, blocks or keys that the fault is about."""
        self.events: list[tuple[str, Hashable]] = []

    @wraps(ImplAdapter.allocate_slots)
    def allocate_slots(self, request: RequestView, num_new_tokens: int, **arguments: Any) -> BlockIds | None:
        answer = super().allocate_slots(request, num_new_tokens, **arguments)
        return self.refused(request) if answer is None else self.accepted(request, answer)

    def refused(self, request: RequestView) -> None:
        """Hears of a refusal."""

    def accepted(self, request: RequestView, answer: BlockIds) -> BlockIds:
        """Hears of an allocation."""
        self.broken = True
        return answer

    def take_events(self) -> Sequence[tuple[str, Hashable]]:
        events, self.events = [*super().take_events(), *self.events], []
        return events


class QueuesABlockTwice(Faulty):
    strictness = COUNTS

    def free_queue(self) -> Sequence[int]:
        queue = super().free_queue()
        return [*queue, *queue[:1]] if self.broken else queue


class CountsAReferenceTooMany(Faulty):
    def ref_count(self, block_id: int) -> int:
        return super().ref_count(block_id) + (self.broken and super().ref_count(block_id) > 0)


class QueuesTheNullBlock(Faulty):
    strictness = COUNTS

    def free_queue(self) -> Sequence[int]:
        return [*super().free_queue(), 0] if self.broken else super().free_queue()


class LosesABlockOfItsCount(Faulty):
    def accepted(self, request: RequestView, answer: BlockIds) -> BlockIds:
        return answer

    def commit(self, request: RequestView, num_computed_tokens: int) -> None:
        super().commit(request, num_computed_tokens)
        self.broken = True

    def num_free_blocks(self) -> int:
        return super().num_free_blocks() - self.broken


class OffersTheNewestDuplicate(Faulty):
    def cached_keys(self) -> Sequence[tuple[int, Hashable]]:
        return super().cached_keys()[::-1]


class KeysWhatTheCallDoesNotReach(Faulty):
    strictness = COUNTS

    def accepted(self, request: RequestView, answer: BlockIds) -> BlockIds:
        self._allocator.cache_blocks(self._requests[request.request_id], request.num_tokens)
        return answer


class ForgetsOwnKeysOnRefusal(Faulty):
    def refused(self, request: RequestView) -> None:
        self.evict(block for entries in self.block_table(request) for block in entries if block)


class RefusesWhatFits(Faulty):
    @wraps(ImplAdapter.allocate_slots)
    def allocate_slots(self, request: RequestView, num_new_tokens: int, **arguments: Any) -> BlockIds | None:
        return None

    @wraps(ImplAdapter.can_allocate)
    def can_allocate(self, request: RequestView, num_new_tokens: int, **arguments: Any) -> bool:
        return False


class AnswersWithoutTheLastBlock(Faulty):
    def accepted(self, request: RequestView, answer: BlockIds) -> BlockIds:
        return tuple(blocks[:-1] for blocks in answer)


class SwapsAdoptedBlocks(Faulty):
    @wraps(ImplAdapter.allocate_slots)
    def allocate_slots(
        self, request: RequestView, num_new_tokens: int, *, hit: Hit = NO_HIT, **arguments: Any
    ) -> BlockIds | None:
        answer = super().allocate_slots(request, num_new_tokens, hit=hit, **arguments)
        if answer is not None and any(len(blocks) > 1 and 0 not in blocks for blocks in hit.blocks):
            self.marked = frozenset({request.request_id})
        return answer

    def block_table(self, request: RequestView) -> BlockIds:
        table = super().block_table(request)
        return (
            tuple((*entries[1::-1], *entries[2:]) for entries in table) if request.request_id in self.marked else table
        )


class PopsFromTheBack(Faulty):
    def free_queue(self) -> Sequence[int]:
        return super().free_queue()[::-1] if self.broken else super().free_queue()


class CountsForOtherRequests(Faulty):
    def accepted(self, request: RequestView, answer: BlockIds) -> BlockIds:
        self.marked = frozenset({request.request_id})
        return answer

    def cached_counts(self, request: RequestView) -> Sequence[int]:
        counts = super().cached_counts(request)
        return [count + 1 for count in counts] if self.marked - {request.request_id} else counts


class KeysADraftOnCommit(Faulty):
    def commit(self, request: RequestView, num_computed_tokens: int) -> None:
        super().commit(request, num_computed_tokens)
        end = request.num_tokens // self._block_size
        self.marked = frozenset(self.block_table(request)[0][end:]) - {0}
        self.events += [("stored", b"draft")] * len(self.marked)

    def cached_keys(self) -> Sequence[tuple[int, Hashable]]:
        return [*super().cached_keys(), *((block, b"draft") for block in self.marked)]


class CountsOneCachedBlockTooMany(Faulty):
    def cached_counts(self, request: RequestView) -> Sequence[int]:
        return [count + self.broken for count in super().cached_counts(request)]


class RenamesAnOldBlock(Faulty):
    def accepted(self, request: RequestView, answer: BlockIds) -> BlockIds:
        first, popped = self.block_table(request)[0][0], {block for blocks in answer for block in blocks}
        keys = dict(super().cached_keys())
        if first in keys and first not in popped:
            self.marked = frozenset({(first, keys[first])})
            self.events += [("removed", keys[first]), ("stored", b"renamed")]
        return answer

    def cached_keys(self) -> Sequence[tuple[int, Hashable]]:
        return [(block, b"renamed" if (block, key) in self.marked else key) for block, key in super().cached_keys()]


class KeepsASharedBlock(Faulty):
    @wraps(ImplAdapter.allocate_slots)
    def allocate_slots(self, request: RequestView, num_new_tokens: int, **arguments: Any) -> BlockIds | None:
        before = super().block_table(request)
        answer = super().allocate_slots(request, num_new_tokens, **arguments)
        if answer is not None:
            self.marked = frozenset(
                (request.request_id, group, index, block)
                for group, (old, new) in enumerate(zip(before, super().block_table(request), strict=True))
                for index, (block, now) in enumerate(zip(old, new, strict=False))
                if block and not now and super(Faulty, self).ref_count(block)
            )
        return answer

    def block_table(self, request: RequestView) -> BlockIds:
        table = [list(entries) for entries in super().block_table(request)]
        for name, group, index, block in self.marked:
            if name == request.request_id:
                table[group][index] = block
        return tuple(tuple(entries) for entries in table)

    def ref_count(self, block_id: int) -> int:
        return super().ref_count(block_id) + sum(kept[-1] == block_id for kept in self.marked)


class FreesToTheFront(Faulty):
    def free(self, request: RequestView) -> None:
        super().free(request)
        self.broken = True

    def accepted(self, request: RequestView, answer: BlockIds) -> BlockIds:
        return answer

    def free_queue(self) -> Sequence[int]:
        return super().free_queue()[::-1] if self.broken else super().free_queue()


class ShufflesOnASecondFree(FreesToTheFront):
    strictness = COUNTS

    def free(self, request: RequestView) -> None:
        self.broken = not any(self.block_table(request))
        ImplAdapter.free(self, request)


class EvictsNothing(Faulty):
    def evict(self, block_ids: Iterable[int]) -> None:
        """Forget to."""


class FindsNothing(Faulty):
    def get_computed_blocks(self, request: RequestView) -> Hit:
        return NO_HIT


class NeverResets(Faulty):
    def reset_prefix_cache(self) -> bool:
        return False


class LosesEvents(Faulty):
    def take_events(self) -> Sequence[tuple[str, Hashable]]:
        return super().take_events()[1:]


class ServesOneRowFewer(Faulty):
    def allocate_decode(
        self, requests: Sequence[RequestView], num_new_tokens: Sequence[int], **arguments: Any
    ) -> Sequence[BlockIds]:
        return super().allocate_decode(requests, num_new_tokens, **arguments)[:-1]


class ForgetsToCopy(Faulty):
    def take_copies(self) -> Sequence[tuple[int, int]]:
        return super().take_copies()[:0]


class PromisesTooMuch(Faulty):
    @wraps(ImplAdapter.can_allocate)
    def can_allocate(self, request: RequestView, num_new_tokens: int, **arguments: Any) -> bool:
        return True


ALONE: dict[str, Callable[[], Adapter]] = {
    "POOL-1": QueuesABlockTwice,
    "POOL-2": CountsAReferenceTooMany,
    "POOL-3": QueuesTheNullBlock,
    "POOL-4": LosesABlockOfItsCount,
    "INDEX-1": OffersTheNewestDuplicate,
    "TABLE-2": KeysWhatTheCallDoesNotReach,
    "REFUSE-1": ForgetsOwnKeysOnRefusal,
    "REFUSE-2": RefusesWhatFits,
    "COUNT-1": AnswersWithoutTheLastBlock,
    "COMMIT-1": SwapsAdoptedBlocks,
    "COMMIT-2": PopsFromTheBack,
    "COMMIT-3": CountsForOtherRequests,
    "HASH-1": KeysADraftOnCommit,
    "HASH-2": CountsOneCachedBlockTooMany,
    "HASH-3": RenamesAnOldBlock,
    "SKIP-1": KeepsASharedBlock,
    "FREE-1": FreesToTheFront,
    "FREE-2": ShufflesOnASecondFree,
    "EVICT-1": EvictsNothing,
    "LOOKUP-1": FindsNothing,
    "RESET-1": NeverResets,
    "EVENT-1": LosesEvents,
    "BATCH-1": ServesOneRowFewer,
    "MEM-2": ForgetsToCopy,
    "CAN-1": PromisesTooMuch,
}
"""By law, a fault that nobody else notices where the law does."""


def failures(adapter: Adapter) -> Iterator[Failure]:
    """What walks find, each up to its first violation."""
    for number in range(EPISODES):
        settings = Settings(GROUPS[number % len(GROUPS)])
        failure = walk_episode(adapter, settings, f"alone/{number}", STEPS, Tally.fresh())
        if failure is not None:
            yield failure


@pytest.mark.parametrize("law", ALONE)
def test_a_law_alone_notices_a_fault(law: str) -> None:
    """Given a trace that ends with the law's objection, then without the law nobody objects to any of its calls."""
    faulty = ALONE[law]()
    others = [other.id for other in LAWS if other.id != law]
    alone = (found for found in failures(faulty) if found.violation.law_ids == (law,))
    found = next((one for one in alone if replay(faulty, one.config, one.actions, law_ids=others) is None), None)
    assert found is not None, Counter(one.violation.law_ids for one in failures(faulty))


@pytest.mark.parametrize("law", COROLLARIES)
def test_a_corollary_never_objects_without_its_parent(law: str, tmp_path: Path) -> None:
    parent, name = COROLLARIES[law]
    faulty = plant(next(fault for fault in FAULTS if fault.name == name), tmp_path)
    objections = (found.violation.law_ids for found in failures(faulty))
    concerned = list(islice((laws for laws in objections if law in laws), ENOUGH))
    assert concerned
    assert all(parent in laws for laws in concerned), Counter(concerned)


def test_every_law_is_one_or_the_other() -> None:
    assert sorted([*ALONE, *COROLLARIES, *SEEN_IN_MUTANTS]) == sorted(law.id for law in LAWS)


def test_faults_hide_from_the_levels_that_do_not_hold_their_law() -> None:
    assert all(level_of(law) <= make().profile.strictness for law, make in ALONE.items())

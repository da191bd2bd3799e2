"""A target as the suite calls it: what the adapter offers, its answers checked for their types, its exceptions told
apart.

An exception that the profile declares is a refusal, any other one breaks the law about the call; an answer of the wrong
type is the adapter's fault.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from typing import Any, TypeVar, cast

from slotproof.conformance.adapter import (
    OPTIONAL_CALLS,
    Adapter,
    AllocatesBatches,
    BlockIds,
    Commits,
    CopiesBlocks,
    Defers,
    EmitsEvents,
    Evicts,
    Foretells,
    Hit,
    LooksUp,
    Preempts,
    ReleasesHits,
    ReportsHit,
    Resets,
    Snapshots,
)
from slotproof.conformance.errors import AdapterError, SetupError
from slotproof.conformance.observation import Ids, Window, readable
from slotproof.conformance.violation import Violation
from slotproof.spec.admission import Call
from slotproof.spec.config import Config
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Copy

Answer = TypeVar("Answer")
Offer = TypeVar("Offer")

OPTIONAL_PARAMETERS = (
    "num_lookahead_tokens",
    "num_external_computed_tokens",
    "delay_cache_blocks",
    "full_sequence_must_fit",
    "reserved_blocks",
    "has_scheduled_reqs",
)


class Target:
    """One adapter, reset to one configuration."""

    def __init__(self, adapter: Adapter, config: Config) -> None:
        self.adapter = adapter
        self.profile = adapter.profile
        self.parameters = supported_parameters(adapter)
        self._offers = frozenset(call for call in OPTIONAL_CALLS if isinstance(adapter, call))
        try:
            adapter.reset(config)
        except SetupError:
            raise
        except Exception as error:
            raise AdapterError(f"reset raised {type(error).__name__}: {error}") from error
        self.window = Window(adapter, config)
        self.replayed: Counter[Hashable] | None = Counter() if EmitsEvents in self._offers else None
        self.take_events()

    def saved(self) -> tuple[object, ...]:
        """What changes: the adapter itself, the names of its keys, and the index by its events."""
        return self.adapter, self.window.names, self.replayed

    def resumed(self, saved: tuple[Any, ...]) -> "Target":
        """A target like this in the state that was saved; nothing is reset."""
        target = copy(self)
        target.adapter, names, target.replayed = saved
        target.window = self.window.onto(target.adapter, names)
        return target

    def offers(self, call: type) -> bool:
        """Whether the adapter has an optional call."""
        return call in self._offers

    def look_up(self, request: Request) -> Hit:
        """The hit in the suite's block ids; its handle is the adapter's own."""
        found = self._ask("LOOKUP-1", lambda: self._as(LooksUp).get_computed_blocks(request))
        if not isinstance(found, Hit) or not isinstance(found.num_tokens, int):
            raise AdapterError(f"get_computed_blocks returned {found!r}: return a Hit")
        blocks = self.window.ids(found.blocks, "get_computed_blocks")
        return Hit(found.num_tokens, blocks, found, self.window.tails(found))

    def release_hit(self, hit: Hit) -> None:
        """Give a lock back, where lookups take one."""
        if self.offers(ReleasesHits) and isinstance(hit.handle, Hit):
            original = hit.handle
            self._ask("LOOKUP-1", lambda: self._as(ReleasesHits).release_hit(original))

    def foretell(self, call: Call, hit: Hit) -> bool | None:
        """What `can_allocate` says, None where there is none."""
        if not self.offers(Foretells):
            return None
        can_allocate, keywords = self._as(Foretells).can_allocate, self._keywords(call, hit)
        foretold = self._ask("CAN-1", lambda: can_allocate(call.request, call.num_new_tokens, **keywords))
        return _flag(foretold, "can_allocate")

    def allocate(self, call: Call, hit: Hit) -> Ids | None:
        """The new block ids, None for a refusal."""
        keywords = self._keywords(call, hit)

        def ask() -> BlockIds | None:
            try:
                return self.adapter.allocate_slots(call.request, call.num_new_tokens, **keywords)
            except self.profile.refusals:
                return None

        answer = self._ask("COUNT-1", ask)
        return None if answer is None else self.window.ids(answer, "allocate_slots")

    def allocate_batch(self, calls: Sequence[Call]) -> tuple[Ids, ...]:
        """The new block ids of each row that was served."""
        requests, new = [call.request for call in calls], [call.num_new_tokens for call in calls]
        asked = self._as(AllocatesBatches).allocate_decode
        options = {
            "num_lookahead_tokens": calls[0].num_lookahead_tokens,
            "reserved_blocks": calls[0].reserved_blocks,
        }
        answers = self._ask("BATCH-1", lambda: asked(requests, new, **options))
        return tuple(self.window.ids(answer, "allocate_decode") for answer in answers)

    def hit_inside(self, request: Request) -> int:
        """Tokens that the accepted call found in the cache by itself."""
        if self.profile.lookup != "allocate" or not self.offers(ReportsHit):
            return 0
        return self._ask("LOOKUP-1", lambda: self._as(ReportsHit).hit_tokens(request))

    def table(self, request: Request) -> Ids:
        """The request's blocks, a group."""
        return readable("block_table", lambda: self.window.table(request))

    def commit(self, request: Request, num_computed_tokens: int) -> None:
        """Tokens are computed and finalized."""
        self._ask("HASH-2", lambda: self._as(Commits).commit(request, num_computed_tokens))

    def free(self, request: Request) -> None:
        """A request ended."""
        self._ask("FREE-1", lambda: self.adapter.free(request))

    def preempt(self, request: Request) -> None:
        """A request loses its blocks; a target without a call of its own for that is asked to free it."""
        preempt = self._as(Preempts).preempt if self.offers(Preempts) else self.adapter.free
        self._ask("FREE-1", lambda: preempt(request))

    def defer_free(self, request: Request) -> None:
        """A request ended, its blocks stay held."""
        self._ask("FREE-1", lambda: self._as(Defers).defer_free(request))

    def return_deferred(self) -> None:
        """The oldest deferred free goes back."""
        self._ask("FREE-1", self._as(Defers).return_deferred)

    def take_copies(self) -> tuple[Copy, ...] | None:
        """The copies asked for since the last time; None where hits are whole blocks only."""
        if not self.offers(CopiesBlocks):
            return None
        return readable("take_copies", lambda: self.window.copies(self._as(CopiesBlocks).take_copies()))

    def release_copy(self) -> None:
        """The step of the oldest copy is done."""
        self._ask("FREE-1", self._as(CopiesBlocks).release_copy)

    def evict(self, blocks: tuple[int, ...]) -> None:
        """Keys are taken away."""
        outside = [self.window.outside(block) for block in blocks]
        self._ask("EVICT-1", lambda: self._as(Evicts).evict(outside))

    def reset_prefix_cache(self) -> bool:
        """Whether the cache was emptied."""
        return _flag(self._ask("RESET-1", self._as(Resets).reset_prefix_cache), "reset_prefix_cache")

    def trace(self) -> object:
        """The target's own snapshot, None where it has none."""
        return readable("snapshot", self._as(Snapshots).snapshot) if self.offers(Snapshots) else None

    def take_events(self) -> None:
        """Replay the events since the last time: how many blocks are offered under each key."""
        if self.replayed is None:
            return
        emits = self._as(EmitsEvents)
        events = readable("take_events", lambda: [(kind, key) for kind, key in emits.take_events()])
        for kind, key in events:
            if kind == "cleared":
                self.replayed.clear()
            elif kind in ("stored", "removed"):
                self.replayed[key] += 1 if kind == "stored" else -1
            else:
                raise AdapterError(f"take_events returned an event of kind {kind!r}: use stored, removed or cleared")

    def _as(self, call: type[Offer]) -> Offer:
        return cast(Offer, self.adapter)

    def _keywords(self, call: Call, hit: Hit) -> dict[str, Any]:
        keywords: dict[str, Any] = {name: getattr(call, name) for name in self.parameters}
        if hit.num_tokens:
            keywords["hit"] = hit.handle
        return keywords

    def _ask(self, law_id: str, call: Callable[[], Answer]) -> Answer:
        try:
            return call()
        except SetupError:
            raise
        except Exception as error:
            what = f"the call raised {type(error).__name__}: {error}"
            raise Violation(law_id, what, "no exception", what) from error


def supported_parameters(adapter: Adapter) -> tuple[str, ...]:
    """The optional parameters that the target's `allocate_slots` names."""
    named = inspect.signature(adapter.allocate_slots).parameters
    return tuple(name for name in OPTIONAL_PARAMETERS if name in named)


def _flag(answer: object, call: str) -> bool:
    if not isinstance(answer, bool):
        raise AdapterError(f"{call} returned {answer!r}: return True or False")
    return answer

"""What a third party writes so that its allocator can be verified: an adapter and a profile.

The suite calls an adapter the way a scheduler calls an allocator, and asks what it may ask of its state. Everything
here is standard library and spec, so that an adapter also runs in an environment that has nothing else of this project.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, Protocol, runtime_checkable

from slotproof.spec.config import Config

BlockIds = tuple[tuple[int, ...], ...]
"""Block ids, one tuple a KV cache group; a one-group adapter may use a flat sequence wherever this is returned."""


class RequestView(Protocol):
    """A request as the suite shows it; read-only, and a new object after every change."""

    @property
    def request_id(self) -> str:
        """A name that no other request of the run has."""
        ...

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Finalized tokens: the prompt and what was sampled and accepted. It only ever grows."""
        ...

    @property
    def num_prompt_tokens(self) -> int:
        """How many of the tokens are the prompt."""
        ...

    @property
    def num_computed_tokens(self) -> int:
        """Tokens whose KV was scheduled to be computed or loaded, drafts included; before the call that is made."""
        ...

    @property
    def num_in_flight_tokens(self) -> int:
        """Those of them whose step has not been processed yet."""
        ...

    @property
    def status(self) -> str:
        """`waiting`, `running` or `preempted`."""
        ...

    @property
    def draft_token_ids(self) -> tuple[int, ...]:
        """Speculative tokens among the new tokens of this call; they may be rejected later."""
        ...

    @property
    def cache_salt(self) -> str | None:
        """Keeps requests of different salts apart in the prefix cache."""
        ...

    @property
    def extra_keys(self) -> tuple[str, ...]:
        """What a block's content depends on besides tokens (adapter name, image hash); part of every block's key."""
        ...


@dataclass(frozen=True, slots=True)
class Hit:
    """Cached blocks found for a request's prefix: `num_tokens` of it, in whole blocks, and the block ids a group.

    Positions that a sliding window no longer reads name the null block. `handle` is the adapter's own and is handed
    back unread. A hit that ends inside a block, at the configuration's hash granularity, has in `tails` one block a
    group that the rest is to be copied from.
    """

    num_tokens: int
    blocks: BlockIds
    handle: object = field(default=None, compare=False, repr=False)
    tails: tuple[int, ...] = ()


NO_HIT = Hit(0, ())


class Strictness(IntEnum):
    """How much of the specification's behaviour a target claims; each level includes the ones before it."""

    SAFETY = 1
    """The laws that hold for any sound allocator."""
    DECISIONS = 2
    """Admits and refuses exactly when the specification does."""
    COUNTS = 3
    """Takes and returns exactly as many blocks."""
    IDENTITY = 4
    """The same block ids, the same free queue, the same keys."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How a target legitimately differs from the specification, and how strictly to hold it to it."""

    name: str
    version: str = "unknown"
    strictness: Strictness = Strictness.SAFETY
    group_kinds: tuple[str, ...] = ("full",)
    """`full`, `window`; more than one group at once only with `hybrid`; `partial`: full attention with hits that end
    inside a block, for which an adapter is a `CopiesBlocks`.
    """
    caching: tuple[bool, ...] = (True, False)
    """The settings of prefix caching it can be run with."""
    free_orders: tuple[str, ...] = ("unhashed-first", "lru")
    """The free orders it can be run with."""
    block_sizes: tuple[int, ...] | None = None
    """The only block sizes it takes, or any."""
    null_block: int | None = 0
    """The id that stands for a block that is not there. None: it has none, and its ids are `0 … usable_blocks - 1`."""
    lookup: Literal["call", "allocate", "none"] = "call"
    """Where prefix hits come from: a lookup of its own, inside `allocate_slots`, or nowhere."""
    keys_at: Literal["schedule", "commit"] = "schedule"
    """Whether blocks can be hit from the call that schedules their tokens, or only after `commit`."""
    salts: bool = False
    """Whether it keeps requests of different salts and extra keys apart; otherwise the suite gives them none
    (ISO-1).
    """
    chunked_prefill: bool = True
    """Whether a prompt may be computed in several calls; otherwise admission takes all of it."""
    one_token_decode: bool = False
    """Whether a running request asks for exactly one new token at a time, without drafts."""
    runs_ahead: bool = True
    """Whether a request may be scheduled again before its last step was processed, so that tokens are in flight."""
    free_counts_cached: bool = True
    """Whether `num_free_blocks` counts idle cached blocks."""
    refusals: tuple[type[Exception], ...] = ()
    """Exceptions that mean a refusal; None always does. Any other exception is a violation."""
    unknown_free: Literal["ignored", "raises", "undefined"] = "undefined"
    """What freeing a request that holds nothing does; `undefined` means that the suite never tries."""
    notes: tuple[str, ...] = field(default=())
    """What a reader of the verdict should know; printed below it."""


class Adapter(Protocol):
    """The calls every target answers. Parameters of `allocate_slots` that a target's signature lacks are never
    exercised.
    """

    profile: Profile

    def reset(self, config: Config) -> None:
        """Forget everything and start with a fresh pool."""
        ...

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
        """The block ids popped for new and lookahead tokens, or None for a refusal."""
        ...

    def free(self, request: RequestView) -> None:
        """The request ended: give its blocks back."""
        ...

    def block_table(self, request: RequestView) -> BlockIds:
        """Every block of the request in the order of its tokens; empty when it holds none."""
        ...

    def num_free_blocks(self) -> int:
        """Blocks that a request could take now."""
        ...


# Each optional call unlocks laws; a target without it has them reported as skipped.


@runtime_checkable
class LooksUp(Protocol):
    """Prefix lookup as a call of its own."""

    def get_computed_blocks(self, request: RequestView) -> Hit:
        """The longest cached prefix; changes nothing, or takes a lock that `release_hit` returns."""
        ...


@runtime_checkable
class ReleasesHits(Protocol):
    """For targets whose lookup locks what it finds."""

    def release_hit(self, hit: Hit) -> None:
        """The call that was to use the hit was refused."""
        ...


@runtime_checkable
class ReportsHit(Protocol):
    """For targets that look up inside `allocate_slots`."""

    def hit_tokens(self, request: RequestView) -> int:
        """Tokens of the last accepted call that were served from the cache."""
        ...


@runtime_checkable
class Commits(Protocol):
    """Called after each forward pass, and when delayed or loaded blocks may be offered."""

    def commit(self, request: RequestView, num_computed_tokens: int) -> None:
        """The first `num_computed_tokens` tokens are computed."""
        ...


@runtime_checkable
class Foretells(Protocol):
    """A question asked before the call."""

    def can_allocate(
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
    ) -> bool:
        """Whether `allocate_slots` with the same arguments would succeed; changes nothing (CAN-1)."""
        ...


@runtime_checkable
class Evicts(Protocol):
    """Removal of keys from outside."""

    def evict(self, block_ids: Iterable[int]) -> None:
        """Take the keys of these blocks away; whoever holds a block keeps it."""
        ...


@runtime_checkable
class Resets(Protocol):
    """Emptying the prefix cache."""

    def reset_prefix_cache(self) -> bool:
        """Whether the cache was emptied; it is refused while a block is held."""
        ...


@runtime_checkable
class Preempts(Protocol):
    """Where preemption is more than a free."""

    def preempt(self, request: RequestView) -> None:
        """Take everything from the request; it will be admitted again from its first token."""
        ...


@runtime_checkable
class Defers(Protocol):
    """Frees that wait until a step in flight no longer writes."""

    def defer_free(self, request: RequestView) -> None:
        """The request ended, but its blocks stay held."""
        ...

    def return_deferred(self) -> None:
        """Give back the blocks of the oldest deferred free."""
        ...


@runtime_checkable
class AllocatesBatches(Protocol):
    """A decode step of many requests at once."""

    def allocate_decode(
        self,
        requests: Sequence[RequestView],
        num_new_tokens: Sequence[int],
        *,
        num_lookahead_tokens: int = 0,
        reserved_blocks: int = 0,
    ) -> Sequence[BlockIds]:
        """What `allocate_slots` would answer to each of these running requests in order, up to the first refusal."""
        ...


@runtime_checkable
class CopiesBlocks(Protocol):
    """Hits that end inside a block (`Config.hash_size`): the worker copies that block before the step."""

    def take_copies(self) -> Sequence[tuple[int, int]]:
        """(source, destination) of every copy that `allocate_slots` has asked for since the last time, in order."""
        ...

    def release_copy(self) -> None:
        """The step of the oldest copy is done: its ends need not be held for it any longer."""
        ...

    def partial_keys(self) -> Sequence[tuple[int, Hashable]]:
        """(block id, key) for every prefix ending inside a block that is offered for copying; those of one key in the
        order they would be offered.
        """
        ...


@runtime_checkable
class CountsReferences(Protocol):
    """Reference counts."""

    def ref_count(self, block_id: int) -> int:
        """How many table entries, waiting frees and ends of copies name the block."""
        ...


@runtime_checkable
class ShowsKeys(Protocol):
    """The prefix cache's index."""

    def cached_keys(self) -> Sequence[tuple[int, Hashable]]:
        """(block id, key) for every block that is offered; blocks of one key in the order they would be offered."""
        ...


@runtime_checkable
class ShowsQueue(Protocol):
    """The free queue."""

    def free_queue(self) -> Sequence[int]:
        """Free blocks, the one handed out next first."""
        ...


@runtime_checkable
class ShowsCounters(Protocol):
    """The cached counters."""

    def cached_counts(self, request: RequestView) -> Sequence[int]:
        """A group: how many entries of the request's table have been considered for keys; 0 when it is not tracked."""
        ...


@runtime_checkable
class Snapshots(Protocol):
    """Everything a target has, for comparison only."""

    def snapshot(self) -> object:
        """Any value with equality; equal before and after a call that must leave no trace."""
        ...


@runtime_checkable
class EmitsEvents(Protocol):
    """KV events."""

    def take_events(self) -> Sequence[tuple[str, Hashable]]:
        """Since the last call: ("stored", key), ("removed", key), ("cleared", ""), keys as in `cached_keys`, one event
        a block.
        """
        ...


OPTIONAL_CALLS: tuple[type, ...] = (
    LooksUp,
    ReleasesHits,
    ReportsHit,
    Commits,
    Foretells,
    Evicts,
    Resets,
    Preempts,
    Defers,
    AllocatesBatches,
    CopiesBlocks,
    CountsReferences,
    ShowsKeys,
    ShowsQueue,
    ShowsCounters,
    Snapshots,
    EmitsEvents,
)

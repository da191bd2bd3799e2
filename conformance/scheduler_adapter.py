"""What is asked of a scheduler under test, and what it shows: plain values, so that they cross processes as JSON.

The engine (`engine.py`) calls a scheduler in the order in which an engine core does; the worker (`worker.py`) knows of
a step only what its `Plan` says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol, Self

from slotproof.conformance.adapter import Profile
from slotproof.spec.config import Config

Tables = Sequence[Sequence[int]]
"""Block ids, one row a KV cache group."""

STOP_TOKEN = 3
"""Ends a request that asked to be ended by it; prompts and other outputs are made of 1 and 2."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """A pool and the engine around it.

    `connector` is what happens to a request whose load fails, `recompute` or `fail`; empty for an engine without one.
    """

    pool: Config
    asynchronous: bool = False
    policy: str = "fcfs"
    max_num_seqs: int = 4
    max_num_batched_tokens: int = 16
    long_prefill_token_threshold: int = 0
    reserve_whole_prompt: bool = True
    num_drafts: int = 0
    draft_lookahead: bool = False
    connector: str = ""

    @property
    def num_blocks(self) -> int:
        """All blocks, the null block included."""
        return self.pool.num_blocks

    @property
    def batches(self) -> int:
        """How many steps may be in flight."""
        return 2 if self.asynchronous else 1


class LoadOffer(NamedTuple):
    """What a connector offers for a request: so many first tokens, after so many times of not knowing yet."""

    num_tokens: int
    asynchronous: bool
    unsure: int = 0


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request as the engine adds it. `sends` keeps its blocks after it has finished until they are reported sent."""

    request_id: str
    prompt: Sequence[int]
    max_tokens: int
    priority: int = 0
    arrival: int = 0
    resumable: bool = False
    offer: LoadOffer | None = None
    sends: bool = False


class Entered(NamedTuple):
    """A request the worker has not seen, or a session with new input: all there is to know about it."""

    request_id: str
    tokens: Sequence[int]
    tables: Tables
    num_computed_tokens: int


class Continued(NamedTuple):
    """A request the worker knows. `new_blocks` extend its tables, or replace them if it is `resumed`; `tokens` are all
    it has, where the scheduler repeats them.
    """

    request_id: str
    num_computed_tokens: int
    num_output_tokens: int
    new_blocks: Tables | None
    resumed: bool
    tokens: Sequence[int] | None


class LoadOrder(NamedTuple):
    """Positions `start` to `end - 1` of these tokens are to be loaded through these tables."""

    request_id: str
    tokens: Sequence[int]
    start: int
    end: int
    tables: Tables
    asynchronous: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """One step as the scheduler hands it to the worker; a draft of -1 is one that the worker has itself."""

    number: int
    scheduled: Mapping[str, int]
    drafts: Mapping[str, Sequence[int]]
    entered: Sequence[Entered]
    continued: Sequence[Continued]
    finished: Sequence[str]
    loads: Sequence[LoadOrder]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The plan of a JSON object."""
        return cls(
            document["number"],
            document["scheduled"],
            document["drafts"],
            [Entered(*row) for row in document["entered"]],
            [Continued(*row) for row in document["continued"]],
            document["finished"],
            [LoadOrder(*row) for row in document["loads"]],
        )


@dataclass(frozen=True, slots=True)
class StepResult:
    """What the worker returns for a step: sampled tokens a request, and what became of transfers.

    The load of a `failed` request has left `invalid_blocks` without content.
    """

    sampled: Mapping[str, Sequence[int]]
    received: Sequence[str] = ()
    sent: Sequence[str] = ()
    invalid_blocks: Sequence[int] = ()
    failed: Sequence[str] = ()


class Output(NamedTuple):
    """What a request is told: new tokens, and why it ended, or an empty string."""

    request_id: str
    tokens: Sequence[int]
    finish_reason: str


class RequestState(NamedTuple):
    """A request as the scheduler has it; `blocked` says that it waits for something other than blocks."""

    status: str
    num_computed_tokens: int
    num_tokens: int
    blocked: bool


class CachedKey(NamedTuple):
    """A block the index offers in a group, and the prefix its key stands for."""

    block: int
    group: int
    prefix: Sequence[int]


@dataclass(frozen=True, slots=True)
class View:
    """Everything a scheduler shows between two calls. `waiting` is in the order in which it will be tried."""

    requests: Mapping[str, RequestState]
    running: Sequence[str]
    waiting: Sequence[str]
    tables: Mapping[str, Tables]
    refs: Sequence[int]
    queue: Sequence[int]
    num_free: int
    keyed: Sequence[CachedKey]
    deferred: Sequence[Sequence[int]]
    has_work: bool

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The view of a JSON object."""
        requests = {name: RequestState(*row) for name, row in document["requests"].items()}
        keyed = [CachedKey(*row) for row in document["keyed"]]
        return cls(**{**document, "requests": requests, "keyed": keyed})


class KvEvent(NamedTuple):
    """One event about one block: `stored`, `removed` or `cleared`, with the group and prefix of its key."""

    verb: str
    group: int
    prefix: Sequence[int]


class SchedulerAdapter(Protocol):
    """The calls of an engine core, and one look."""

    profile: Profile

    def reset(self, config: EngineConfig) -> None:
        """Forget everything and start a fresh engine."""
        ...

    def add_request(self, request: NewRequest) -> None:
        """A new request arrives."""
        ...

    def add_input(self, request_id: str, tokens: Sequence[int], max_tokens: int) -> None:
        """More input for a session; with no tokens the session is over."""
        ...

    def abort(self, request_id: str) -> None:
        """A request is to end now."""
        ...

    def schedule(self) -> Plan:
        """Decide the next step."""
        ...

    def update(self, number: int, result: StepResult) -> Sequence[Output]:
        """Process the output of the step of that number, the oldest that was not processed."""
        ...

    def propose_drafts(self, drafts: Mapping[str, Sequence[int]]) -> None:
        """Drafts that the worker proposes after a step, where the scheduler is told them."""
        ...

    def reset_prefix_cache(self, preempt_running: bool) -> bool:
        """Empty the prefix cache, preempting what runs if asked to; whether it was emptied."""
        ...

    def look(self) -> View:
        """The state; changes nothing."""
        ...

    def take_events(self) -> Sequence[KvEvent]:
        """KV events published since the last call."""
        ...


def as_document(value: Any) -> dict[str, Any]:
    """The fields of one of the values above, ready for JSON."""
    return {part.name: getattr(value, part.name) for part in fields(value)}

"""Everything a scheduler and its surroundings know between two calls, as one immutable value."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from slotproof.spec.keys import KeyTable
from slotproof.spec.request import Request, append_tokens, new_request
from slotproof.spec.scheduler.job import Job, Scope
from slotproof.spec.snapshot import Snapshot, empty

Value = TypeVar("Value")

Content = tuple[int, ...] | None
"""What a token slot holds: the prefix that ends with its token, or None for nothing that may be read."""

Memory = tuple[tuple[Content, ...], ...]
"""The slots of each block, by block id."""


class Outcome(StrEnum):
    """How a request ended."""

    FINISHED = "finished"
    ABORTED = "aborted"
    FAILED = "failed"
    """With an error, because it can never fit."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One request's part of a scheduled step, as the worker is told.

    `start` is the position of its first token if every draft in flight before it is accepted, `num_final` how many of
    the request's tokens are known; both follow what is processed. A stale entry is computed all the same, and its
    output is dropped.
    """

    request_id: str
    start: int
    num_tokens: int
    num_drafts: int
    num_final: int
    samples: bool
    tables: tuple[tuple[int, ...], ...]
    stale: bool = False
    num_loaded: int = 0
    """Tokens before `start` that the step loads."""


Step = tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class SchedulerState:
    """The allocator's snapshot, the requests in the order of their arrival, the queues, and the steps in flight.

    `waiting` holds every request that is not running: new and preempted ones, and those with a load. A load is under
    way (`loading`; also for an aborted request, whose blocks it still writes), or done and not yet noticed by the
    scheduler (`loaded`). Each deferred free of the snapshot waits for so many steps of `fences` to be processed.
    A load under way for a request that must begin anew is `spoiled`; one that failed is not tried again (`unloadable`).
    `paused` sessions wait for input, and `inputs` counts what each has had. `memory` is what the worker has executed.
    `overtaken` counts, for each refused request, the later ones admitted before it; `preempted` counts preemptions
    since a request ended last. Both serve the laws; a policy may read them.
    """

    scope: Scope
    keys: KeyTable
    snapshot: Snapshot
    memory: Memory
    requests: Mapping[str, Request] = field(default_factory=lambda: MappingProxyType({}))
    waiting: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    loading: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    spoiled: tuple[str, ...] = ()
    unloadable: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    inputs: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    steps: tuple[Step, ...] = ()
    fences: tuple[int, ...] = ()
    ended: Mapping[str, Outcome] = field(default_factory=lambda: MappingProxyType({}))
    overtaken: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    preempted: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def job(self, name: str) -> Job:
        """What the request wants; of a session what its turn wants."""
        return self.scope.job(name).at_turn(self.inputs.get(name, 0))

    def arrivals(self) -> list[str]:
        """The jobs that may arrive now."""
        taken = {*self.requests, *self.loading, *self.paused}
        return [
            job.name for job in self.scope.jobs if job.name not in taken and (job.again or job.name not in self.ended)
        ]

    def arrival(self, name: str) -> int:
        """The request's place in the order of arrival."""
        return list(self.requests).index(name)

    def is_in_flight(self, name: str) -> bool:
        """Whether a step that has not been processed computes something for the request."""
        return any(entry.request_id == name for step in self.steps for entry in step)

    def with_request(self, request: Request) -> "SchedulerState":
        """The state with a new or changed request."""
        return replace(self, requests=with_entry(self.requests, request.request_id, request))

    def key(self) -> Hashable:
        """The canonical form up to the names of blocks; equal for equal states of one scope, and hashable."""
        requests = tuple(
            (name, request.num_tokens, request.num_computed_tokens, request.flights, request.status)
            for name, request in self.requests.items()
        )
        loads = self.loading, self.loaded, self.spoiled, self.unloadable
        queues = self.waiting, self.running, self.paused, loads
        counted = self.ended, self.overtaken, self.preempted, self.inputs
        remembered = tuple(tuple(sorted(kept.items())) for kept in counted)
        return (self.snapshot.key(), self.memory, requests, queues, self.steps, self.fences, remembered)


def with_entry(values: Mapping[str, Value], name: str, value: Value) -> Mapping[str, Value]:
    """The mapping with one entry set."""
    return MappingProxyType({**values, name: value})


def without_entry(values: Mapping[str, Value], name: str) -> Mapping[str, Value]:
    """The mapping with one entry left out."""
    return MappingProxyType({other: value for other, value in values.items() if other != name})


def without_name(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The names but one, in their order."""
    return tuple(other for other in names if other != name)


def start(scope: Scope) -> SchedulerState:
    """The state before anything has arrived; every prefix that will ever be final has its key already."""
    config = scope.config
    keys = KeyTable()
    for job in scope.jobs:
        for number in range(len(job.followups) + 1):
            turn = job.at_turn(number)
            keys, request = new_request(keys, job.name, turn.prompt, config.block_size)
            keys, _ = append_tokens(keys, request, turn.outputs, config.block_size)
    blank = ((None,) * config.block_size,) * config.num_blocks
    return SchedulerState(scope, keys, empty(config), blank)

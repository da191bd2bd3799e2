"""An engine in miniature: it keeps the requests that the specification's functions are called with."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from slotproof.spec import (
    Allocation,
    Call,
    Config,
    Group,
    Hit,
    KeyTable,
    Refusal,
    Request,
    Snapshot,
    Status,
    Transition,
    admit,
    append_tokens,
    commit,
    defer_free,
    empty,
    evict_blocks,
    free,
    get_computed_blocks,
    new_request,
    preempt,
    release_copy,
    reset_prefix_cache,
    return_deferred,
    schedule,
    settle,
)
from slotproof.spec.predicates.batch import fold
from slotproof.spec.request import await_load, propose
from slotproof.spec.transition import (
    Allocated,
    Batched,
    Committed,
    Copied,
    Deferred,
    Event,
    Evicted,
    Freed,
    LookedUp,
    Reset,
    Returned,
)


class Engine:
    """A snapshot, the requests and their keys; `steps` holds every transition so far."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.snapshot = empty(config)
        self.keys = KeyTable()
        self.requests: dict[str, Request] = {}
        self.steps: list[Transition] = []

    # Calls.

    def request(self, name: str, prompt: Iterable[int], **identity: Any) -> Request:
        """Introduce a waiting request."""
        identity = {"hash_size": self.config.hash_size, **identity}
        self.keys, request = new_request(self.keys, name, tuple(prompt), self.config.block_size, **identity)
        self.requests[name] = request
        return request

    def look_up(self, name: str) -> Hit:
        hit = get_computed_blocks(self.snapshot, self.requests[name])
        self._record(LookedUp(self.requests[name], hit), self.snapshot)
        return hit

    def ask(
        self, name: str, new: int | None = None, *, drafts: tuple[int, ...] = (), **options: Any
    ) -> Allocation | Refusal:
        """Look up if nothing is computed, ask for `new` tokens (default: the rest) and, after a yes, run the step."""
        request = propose(self.requests[name], drafts)
        hit = self.look_up(name) if request.num_computed_tokens == 0 else Hit(0, ((),) * len(self.config.groups))
        external = options.get("num_external_computed_tokens", 0)
        if new is None:
            new = request.num_uncomputed_tokens - hit.num_tokens - external + len(drafts)
        call = Call(request, new, hit, **options)
        answer = admit(self.snapshot, call)
        given, never = (answer.new_blocks, None) if isinstance(answer, Allocation) else (None, answer.never)
        copies = answer.snapshot.copies[len(self.snapshot.copies) :]
        if isinstance(answer, Allocation):
            adopted = hit.num_tokens + external
            self.requests[name] = schedule(request, adopted, new) if new else await_load(request, adopted)
        self._record(Allocated(call, given, never, copies=copies), answer.snapshot)
        return answer

    def batch(self, *names: str) -> None:
        """One token of each of these running requests, up to the first refusal; nothing is scheduled."""
        nothing = Hit(0, ((),) * len(self.config.groups))
        step = Batched(tuple(Call(self.requests[name], 1, nothing) for name in names), ())
        answers, after = fold(Transition(self.snapshot, step, self.snapshot))
        self._record(Batched(step.calls, answers), after)

    def admit(self, name: str, prompt: Iterable[int], new: int | None = None, **options: Any) -> Allocation | Refusal:
        """Introduce a request and ask for its first slots."""
        self.request(name, prompt)
        return self.ask(name, new, **options)

    def output(self, name: str, token: int = 0, accepted: int = 0) -> None:
        """Process the oldest step in flight."""
        self.keys, self.requests[name] = settle(
            self.keys, self.requests[name], accepted, token, self.config.block_size, self.config.hash_size
        )

    def decode(self, name: str, token: int = 0, **options: Any) -> Allocation | Refusal:
        """Sample a token, then ask for the slot of it."""
        self.output(name, token)
        return self.ask(name, 1, **options)

    def grow(self, name: str, tokens: Iterable[int]) -> None:
        """Finalize tokens without a step."""
        self.keys, self.requests[name] = append_tokens(
            self.keys, self.requests[name], tuple(tokens), self.config.block_size, self.config.hash_size
        )

    def commit(self, name: str, num_computed_tokens: int) -> None:
        after = commit(self.snapshot, self.requests[name], num_computed_tokens)
        self._record(Committed(self.requests[name], num_computed_tokens), after)

    def free(self, name: str) -> None:
        self._record(Freed(name), free(self.snapshot, name))

    def preempt(self, name: str) -> None:
        after, self.requests[name] = preempt(self.snapshot, self.requests[name])
        self._record(Freed(name), after)

    def defer_free(self, name: str) -> None:
        self._record(Deferred(name), defer_free(self.snapshot, name))

    def return_deferred(self) -> None:
        self._record(Returned(), return_deferred(self.snapshot))

    def release_copy(self) -> None:
        self._record(Copied(), release_copy(self.snapshot))

    def evict(self, *blocks: int) -> None:
        self._record(Evicted(blocks), evict_blocks(self.snapshot, blocks))

    def reset(self) -> bool:
        after, succeeded = reset_prefix_cache(self.snapshot)
        self._record(Reset(succeeded), after)
        return succeeded

    # What is seen.

    @property
    def queue(self) -> tuple[int, ...]:
        return self.snapshot.pool.queue

    @property
    def num_free(self) -> int:
        return self.snapshot.pool.num_free()

    @property
    def keyed(self) -> tuple[int, ...]:
        """The keyed blocks, the one keyed first first."""
        return self.snapshot.pool.keyed

    def tables(self, name: str) -> tuple[tuple[int, ...], ...]:
        return tuple(table.entries for table in self.snapshot.holding(name).tables)

    def counters(self, name: str) -> tuple[int, ...]:
        return self.snapshot.holding(name).cached

    def refs(self, *blocks: int) -> list[int]:
        return [self.snapshot.pool.ref(block) for block in blocks]

    def status(self, name: str) -> Status:
        return self.requests[name].status

    def _record(self, event: Event, after: Snapshot) -> None:
        self.steps.append(Transition(self.snapshot, event, after, dict(self.requests)))
        self.snapshot = after


EngineOf = Callable[..., Engine]


@pytest.fixture
def engine_of() -> EngineOf:
    """`engine_of(num_blocks, *groups, …)`: an engine whose other limits are out of the way unless they are given."""

    def make(num_blocks: int, *groups: Group, **limits: Any) -> Engine:
        return Engine(Config(num_blocks, groups, **{"max_model_len": 10_000, "max_in_flight_tokens": 10_000, **limits}))

    return make

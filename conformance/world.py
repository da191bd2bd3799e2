"""Both sides of the call: an allocator's snapshot, and the requests of the engine that uses it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from slotproof.spec.config import Config
from slotproof.spec.keys import KeyTable
from slotproof.spec.request import Request, Status
from slotproof.spec.snapshot import Snapshot, empty


@dataclass(frozen=True, slots=True)
class World:
    """The allocator's snapshot, the live requests by name, those whose load is under way, and requests that ended."""

    snapshot: Snapshot
    requests: Mapping[str, Request] = field(default_factory=lambda: MappingProxyType({}))
    loading: frozenset[str] = frozenset()
    ended: tuple[Request, ...] = ()
    keys: KeyTable = field(default_factory=KeyTable)

    @classmethod
    def fresh(cls, config: Config) -> "World":
        """A world in which nothing has happened."""
        return cls(empty(config))

    def with_snapshot(self, snapshot: Snapshot) -> "World":
        """The world with another state of the allocator."""
        return World(snapshot, self.requests, self.loading, self.ended, self.keys)

    def with_request(self, request: Request, keys: KeyTable | None = None) -> "World":
        """The world with a new or changed request."""
        requests = MappingProxyType({**self.requests, request.request_id: request})
        return World(self.snapshot, requests, self.loading, self.ended, keys or self.keys)

    def without_request(self, name: str) -> "World":
        """The world after a request ended."""
        requests = {other: request for other, request in self.requests.items() if other != name}
        ended = (*self.ended, self.requests[name])
        return World(self.snapshot, MappingProxyType(requests), self.loading - {name}, ended, self.keys)

    def running(self) -> list[Request]:
        """Requests that have been admitted and hold blocks."""
        return [request for request in self.requests.values() if request.status == Status.RUNNING]

    def waiting(self) -> list[Request]:
        """Requests to be admitted, for the first time or again; not those that wait for a load."""
        return [
            request
            for name, request in self.requests.items()
            if request.status != Status.RUNNING and name not in self.loading
        ]

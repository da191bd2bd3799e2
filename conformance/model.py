"""What the specification can do in a small world, as the search sees it.

An action changes the allocator and at most one request, and what it does depends on nothing else. So the part of a
world's future that is one request's is worked out once for each state of the allocator and of that request, and put
into all the worlds that have both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from slotproof.conformance.actions import Action, name_of, perform
from slotproof.conformance.ideal import Ideal, Memory
from slotproof.conformance.menu import actions_of, actions_of_pool, admissions, prompts_to_enter, result_of
from slotproof.conformance.renaming import packed, unpacked
from slotproof.conformance.scope import Scope
from slotproof.conformance.search import Model
from slotproof.conformance.violation import Violation
from slotproof.conformance.world import World
from slotproof.spec.keys import KeyTable
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Snapshot

Move = tuple[Action, ...]
"""One action, or a step with the result that follows it at once."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A world, and what is wrong with the calls that led to it from the one before."""

    world: World
    objection: Violation | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What a move does: the allocator behind it, the request it is about (None if it ended), and what is wrong."""

    move: Move
    name: str
    snapshot: Snapshot
    request: Request | None
    loads: bool
    objection: Violation | None

    def of(self, world: World) -> Reached:
        """The world that the move leads to."""
        requests, name, loading, ended = {**world.requests}, self.name, world.loading, world.ended
        if self.request is not None:
            requests[name] = self.request
        elif name in requests:
            ended = (*ended, requests.pop(name))
        if self.loads is not (name in loading):
            loading = loading ^ {name}
        return Reached(World(self.snapshot, MappingProxyType(requests), loading, ended, world.keys), self.objection)


@dataclass(frozen=True)
class SpecModel(Model[Reached, Move]):
    """The specification in a scope, every call judged by every law that speaks about it."""

    scope: Scope
    renaming: bool = True

    @cached_property
    def keys(self) -> KeyTable:
        """The keys that can be met."""
        return self.scope.known_keys()

    @cached_property
    def memory(self) -> Memory:
        """What this process knows of the allocator."""
        return Memory()

    def __reduce__(self) -> tuple[type["SpecModel"], tuple[Scope, bool]]:
        """Other processes start with a memory of their own."""
        return SpecModel, (self.scope, self.renaming)

    def initial(self) -> Reached:
        """Nothing has happened."""
        return Reached(World(World.fresh(self.scope.config).snapshot, keys=self.keys))

    def successors(self, state: Reached) -> Iterator[tuple[Move, Reached]]:
        """Every move: who enters, what happens to each request, what happens to the pool."""
        world = state.world
        for prompt in prompts_to_enter(world, self.scope):
            yield from self._changed(world, name_of(world), prompt)
        for name, request in world.requests.items():
            yield from self._changed(world, name, request)
        if self.scope.extras:
            yield from self._changed(world, "", None)

    def _changed(
        self, world: World, name: str, subject: Request | tuple[int, ...] | None
    ) -> Iterator[tuple[Move, Reached]]:
        changes = self.memory.of(world.snapshot).changes
        key = name, subject, name in world.loading
        if key not in changes:
            changes[key] = tuple(self._changes(world, name, subject))
        for change in changes[key]:
            yield change.move, change.of(world)

    def _changes(self, world: World, name: str, subject: Request | tuple[int, ...] | None) -> Iterator[Change]:
        """The changes in a world that has no other request than the one they are about."""
        requests = MappingProxyType({name: subject} if isinstance(subject, Request) else {})
        alone = World(world.snapshot, requests, world.loading & {name}, (), world.keys)
        if isinstance(subject, Request):
            actions = actions_of(alone, subject, self.scope)
        elif subject is None:
            actions = actions_of_pool(alone, self.scope)
        else:
            actions = admissions(alone, name, subject, self.scope)
        for action in actions:
            yield self._carried_out(alone, action, name)

    def _carried_out(self, world: World, action: Action, name: str) -> Change:
        port = Ideal(world, self.memory)
        move: Move = (action,)
        try:
            perform(port, action)
            result = result_of(port.world, action, self.scope)
            if result is not None:
                move = (action, result)
                perform(port, result)
            objection = port.objection
        except Violation as raised:
            objection = port.objection or raised
        after = port.world
        return Change(move, name, after.snapshot, after.requests.get(name), name in after.loading, objection)

    def canonical(self, state: Reached) -> bytes:
        """The world up to the names of blocks and requests."""
        return packed(state.world, renaming=self.renaming)

    def pack(self, state: Reached) -> bytes:
        """The canonical form says all."""
        return self.canonical(state)

    def unpack(self, packed: bytes) -> Reached:
        """A world with this canonical form."""
        return Reached(unpacked(packed, self.scope.config, self.keys))

    def objection_to_step(self, before: Reached, action: Move, after: Reached) -> Violation | None:
        """What was wrong with its calls."""
        return after.objection

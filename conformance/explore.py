"""Every small world: what the specification does in each, judged by the laws at each call."""

from collections.abc import Hashable, Iterator
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
class Part:
    """What an action changes: the allocator, and the request it is about, None if it ended."""

    move: Move
    name: str
    snapshot: Snapshot
    request: Request | None
    loads: bool
    objection: Violation | None

    def reached_from(self, world: World) -> Reached:
        """The world that the action leads to."""
        requests, name, loading, ended = {**world.requests}, self.name, world.loading, world.ended
        if self.request is not None:
            requests[name] = self.request
        elif name in requests:
            ended = (*ended, requests.pop(name))
        if self.loads is not (name in loading):
            loading = loading ^ {name}
        after = World(self.snapshot, MappingProxyType(requests), loading, ended, world.keys)
        return Reached(after, self.objection)


@dataclass(frozen=True)
class SpecModel(Model[Reached, Move]):
    """What the specification can do in a scope."""

    scope: Scope
    renaming: bool = True

    @cached_property
    def keys(self) -> KeyTable:
        return self.scope.known_keys()

    @cached_property
    def memory(self) -> Memory:
        return Memory()

    def initial(self) -> Reached:
        fresh = World.fresh(self.scope.config)
        return Reached(World(fresh.snapshot, keys=self.keys))

    def successors(self, state: Reached) -> Iterator[tuple[Move, Reached]]:
        world, name = state.world, name_of(state.world)
        parts = self.memory.of(world.snapshot).parts
        for prompt in prompts_to_enter(world, self.scope):
            key: Hashable = (name, prompt)
            if key not in parts:
                actions = admissions(world, name, prompt, self.scope)
                parts[key] = self.parts(world, {}, name, actions)
            for part in parts[key]:
                yield part.move, part.reached_from(world)
        for name, request in world.requests.items():
            key = request, name in world.loading
            if key not in parts:
                actions = actions_of(world, request, self.scope)
                parts[key] = self.parts(world, {name: request}, name, actions)
            for part in parts[key]:
                yield part.move, part.reached_from(world)
        if self.scope.extras:
            if None not in parts:
                parts[None] = self.parts(world, {}, "", actions_of_pool(world, self.scope))
            for part in parts[None]:
                yield part.move, part.reached_from(world)

    def parts(self, world: World, requests: dict[str, Request], name: str, actions: Iterator[Action]) -> tuple[Part, ...]:
        alone = World(world.snapshot, MappingProxyType(requests), world.loading & {name}, (), world.keys)
        return tuple(self.carried_out(alone, action, name) for action in actions)

    def carried_out(self, world: World, action: Action, name: str) -> Part:
        port, move = Ideal(world, self.memory), (action,)
        objection = None
        try:
            perform(port, action)
            result = result_of(port.world, action, self.scope)
            if result is not None:
                move = (action, result)
                perform(port, result)
            objection = port.objection
        except Violation as violation:
            objection = violation
        after = port.world
        return Part(move, name, after.snapshot, after.requests.get(name), name in after.loading, objection)

    def canonical(self, state: Reached) -> bytes:
        return packed(state.world, renaming=self.renaming)

    pack = canonical

    def unpack(self, written: bytes) -> Reached:
        return Reached(unpacked(written, self.scope.config, self.keys))

    def objection_to_step(self, before: Reached, action: Move, after: Reached) -> Violation | None:
        return after.objection

"""A real target driven through a small world, as the search sees it: every call goes to it, and is compared and judged
as in any other session.

A target goes on from a state by a copy of the adapter in that state; one that cannot be copied is rebuilt, by all the
calls that led there.
"""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from slotproof.conformance.actions import Action, perform
from slotproof.conformance.freezing import freeze
from slotproof.conformance.menu import actions_in, result_of
from slotproof.conformance.model import Move
from slotproof.conformance.renaming import packed
from slotproof.conformance.scope import Scope
from slotproof.conformance.search import Model
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.targets.registry import load_allocator
from slotproof.conformance.violation import Violation
from slotproof.conformance.world import World
from slotproof.spec.keys import KeyTable


@dataclass(frozen=True, slots=True)
class Driven:
    """A world of a target, and the way back into it: the session that led there and goes no further, or a copy of its
    target; or all actions that led there, if the target cannot be copied.
    """

    world: World
    origin: Session | bytes | None
    actions: Move = ()
    objection: Violation | None = None

    def saved(self) -> bytes | None:
        """The copy of the target, None if it cannot be copied."""
        if not isinstance(self.origin, Session):
            return self.origin
        try:
            return self.origin.saved()
        except Exception:  # whatever pickle meets in somebody else's objects
            return None


@dataclass(frozen=True)
class TargetModel(Model[Driven, Move]):
    """A target in a scope, held to the laws and to the specification as strictly as its profile says.

    Worlds are told apart by what the target shows, so of a target that does not show its keys fewer are visited.
    """

    target: str
    scope: Scope
    renaming: bool = True

    @cached_property
    def keys(self) -> KeyTable:
        """The keys that can be met."""
        return self.scope.known_keys()

    @cached_property
    def session(self) -> Session:
        """The session that all others are copies of."""
        return self._fresh()

    def __reduce__(self) -> tuple[type["TargetModel"], tuple[str, Scope, bool]]:
        """Other processes start with a session of their own."""
        return TargetModel, (self.target, self.scope, self.renaming)

    def _fresh(self) -> Session:
        session = Session(load_allocator(self.target), self.scope.config, Tally.fresh())
        session.world = World(session.world.snapshot, keys=self.keys)
        return session

    def initial(self) -> Driven:
        """Nothing has happened."""
        session = self._fresh()
        return Driven(session.world, session)

    def successors(self, state: Driven) -> Iterator[tuple[Move, Driven]]:
        """Every move of the scope, made on the target."""
        saved = state.saved()
        for action in actions_in(state.world, self.scope):
            yield self._carried_out(state, saved, action)

    def _carried_out(self, state: Driven, saved: bytes | None, action: Action) -> tuple[Move, Driven]:
        session, objection = self._resumed(state, saved), None
        move: Move = (action,)
        try:
            perform(session, action)
            result = result_of(session.world, action, self.scope)
            if result is not None:
                move = (action, result)
                perform(session, result)
        except Violation as violation:
            objection = violation
        return move, Driven(session.world, session, (*state.actions, *move), objection)

    def _resumed(self, state: Driven, saved: bytes | None) -> Session:
        if saved is not None:
            return self.session.resumed(saved, state.world)
        session = self._fresh()
        for action in state.actions:
            perform(session, action)
        return session

    def canonical(self, state: Driven) -> bytes:
        """The world up to the names of blocks and requests."""
        return packed(state.world, renaming=self.renaming)

    def pack(self, state: Driven) -> bytes:
        """The world as it is: names matter to the copy of the target."""
        world, saved = state.world, state.saved()
        actions = state.actions if saved is None else ()
        return freeze((world.snapshot, world.requests, world.loading, world.ended, saved, actions))

    def unpack(self, packed: bytes) -> Driven:
        """The state that was packed."""
        snapshot, requests, loading, ended, saved, actions = pickle.loads(packed)
        return Driven(World(snapshot, requests, loading, ended, self.keys), saved, actions)

    def objection_to_step(self, before: Driven, action: Move, after: Driven) -> Violation | None:
        """What was wrong with its calls."""
        return after.objection

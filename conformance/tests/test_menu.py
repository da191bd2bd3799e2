"""The menu of a small world: every verb is on it, everything on it does something, and nothing is on it twice."""

import pytest

from slotproof.conformance.actions import VERBS, perform
from slotproof.conformance.ideal import Ideal, Memory
from slotproof.conformance.menu import OF_REQUESTS, OF_THE_POOL, actions_in
from slotproof.conformance.model import SpecModel
from slotproof.conformance.scope import ALWAYS, EXTRAS, Scope, make_scope
from slotproof.conformance.search import search
from slotproof.conformance.world import World

FULL = make_scope(
    blocks=5, tokens=5, prompt=3, watermark=1, whole=True, reserved=1, in_flight=True, extras=tuple(EXTRAS)
)

PARTIAL = make_scope(groups="partial")

EXPLORED = {verb.name for verb in VERBS} - {"batch"}
"""A batch is its rows, one call after the other."""


def first_worlds(scope: Scope, number: int) -> list[World]:
    model = SpecModel(scope)
    return [model.unpack(key).world for key in search(model, max_states=number).keys]  # type: ignore[arg-type]


def test_every_verb_of_the_action_table_is_on_the_menu() -> None:
    assert {"admit", *OF_REQUESTS, *OF_THE_POOL} == EXPLORED
    assert {*ALWAYS, *(verb for verbs in EXTRAS.values() for verb in verbs), "copied"} == EXPLORED


def test_every_verb_is_met() -> None:
    met = {action.verb for world in first_worlds(FULL, 1000) for action in actions_in(world, FULL)}
    assert met == EXPLORED - {"copied"}


def test_a_copy_is_done_where_hits_may_end_inside_a_block() -> None:
    met = {action.verb for world in first_worlds(PARTIAL, 300) for action in actions_in(world, PARTIAL)}
    assert met == {*ALWAYS, "copied"}


def test_only_what_the_scope_has_is_met() -> None:
    plain = make_scope()
    met = {action.verb for world in first_worlds(plain, 300) for action in actions_in(world, plain)}
    assert met == set(ALWAYS)


@pytest.mark.parametrize("scope", [FULL, make_scope(), PARTIAL], ids=["all", "plain", "partial"])
def test_no_action_is_offered_twice_and_each_asks_the_allocator_something(scope: Scope) -> None:
    class Counting(Ideal):
        """Counts what is asked."""

        asked = 0

        def _asked(self, *arguments: object) -> object:  # type: ignore[override]
            self.asked += 1
            return super()._asked(*arguments)  # type: ignore[arg-type]

    for world in first_worlds(scope, 150):
        actions = list(actions_in(world, scope))
        assert len({str(action) for action in actions}) == len(actions)
        for action in actions:
            port = Counting(world, Memory())
            perform(port, action)
            assert port.asked > 0, action

"""The Hypothesis machine: the action table as a `RuleBasedStateMachine`, for a test suite that wants Hypothesis's own
shrinking and database.

TestMyAllocator = state_machine("my_adapter:factory", groups="full").TestCase
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from slotproof.conformance.actions import VERBS, Action, Verb
from slotproof.conformance.adapter import Adapter
from slotproof.conformance.driver import SeededChooser
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.targets.registry import load_allocator

Item = TypeVar("Item")


class DrawingChooser:
    """Choices that Hypothesis draws, and shrinks towards the smallest and the first."""

    ways = 1

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw

    def integer(self, low: int, high: int) -> int:
        """An integer of the closed range."""
        return self._draw(st.integers(low, high))

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self._draw(st.integers(0, len(items) - 1))]

    def chance(self, percent: int) -> bool:
        """True so many times in a hundred; shrinks to False."""
        return self._draw(st.integers(0, 99)) >= 100 - percent


def state_machine(
    target: str | Callable[[], Adapter], groups: str = "full", *, caching: bool = True
) -> type[RuleBasedStateMachine]:
    """A state machine class for a target, by name or as a factory, with one rule a verb of the action table.

    A broken law fails the test with a `Violation`, whose text is the law's id and objection.
    """
    adapter = load_allocator(target) if isinstance(target, str) else target()
    settings = Settings(groups=groups, caching=caching)

    class AllocatorMachine(RuleBasedStateMachine):
        session: Session

        @initialize(data=st.data())
        def reset(self, data: st.DataObject) -> None:
            """A fresh pool of a small configuration."""
            config = settings.draw(DrawingChooser(data), adapter.profile)
            note(f"reset {config}")
            self.session = Session(adapter, config, Tally.fresh())

    example = settings.draw(SeededChooser("the verbs that apply"), adapter.profile)
    for verb in [verb for verb in VERBS if verb.applies(example)]:
        setattr(AllocatorMachine, f"do_{verb.name}", _rule(verb))
    return AllocatorMachine


def _rule(verb: Verb[Any]) -> Any:
    def do(self: Any, data: st.DataObject) -> None:
        arguments = verb.propose(self.session, DrawingChooser(data))
        if arguments is not None:
            note(str(Action(verb.name, arguments)))
            verb.run(self.session, arguments)

    do.__name__ = f"do_{verb.name}"
    do.__doc__ = verb.meaning
    return rule(data=st.data())(do)

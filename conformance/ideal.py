"""The specification alone behind the port that actions call, with every law at each call.

Different worlds ask the same allocator the same thing all the time, because what a request waits for, and whether it
waits at all, is none of the allocator's business. So every state of the allocator is known once, with the answers it
has given: an answer is worked out and judged when it is first asked for, and stands for all equal ones.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from slotproof.conformance.adapter import NO_HIT, Hit
from slotproof.conformance.reach import Reach
from slotproof.conformance.strictness import by_event
from slotproof.conformance.target import OPTIONAL_PARAMETERS
from slotproof.conformance.targets.reference import PROFILE
from slotproof.conformance.violation import Violation
from slotproof.conformance.world import World
from slotproof.spec import admission, copies, lookup, release
from slotproof.spec.admission import Allocation, Call
from slotproof.spec.laws import LAWS
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Snapshot
from slotproof.spec.transition import (
    Allocated,
    Committed,
    Copied,
    Deferred,
    Event,
    Evicted,
    Freed,
    LookedUp,
    Reset,
    Returned,
    Transition,
)

MOST_KNOWN = 200_000
"""Allocator states that are remembered, of about a kilobyte each."""


@dataclass(slots=True)
class Known:
    """A state of the allocator, its answers so far by what was asked, and what others have worked out about it."""

    snapshot: Snapshot
    answers: "dict[Hashable, Answer]" = field(default_factory=dict)
    changes: dict[Hashable, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call, the state of the allocator behind it, and what is wrong with it."""

    event: Event
    after: Known
    objection: Violation | None


class Memory:
    """The states of the allocator that are known, one object each; forgotten all at once when they become too many."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Known] = {}

    def of(self, snapshot: Snapshot) -> Known:
        """What is known of a state."""
        key = snapshot.key()
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = Known(snapshot)
        return known


Move = Callable[[], tuple[Event, Snapshot]]


class Ideal:
    """A port onto a world of the specification. `objection` is what is wrong with the first call that breaks a law; a
    call after which nothing can go on raises it.
    """

    profile = PROFILE
    parameters: tuple[str, ...] = OPTIONAL_PARAMETERS

    def __init__(self, world: World, memory: Memory) -> None:
        self.world = world
        self.config = world.snapshot.config
        self.reach: Reach = Counter()
        self.objection: Violation | None = None
        self._memory = memory
        self._known = memory.of(world.snapshot)

    def look_up(self, request: Request) -> Hit:
        """The longest cached prefix."""

        def find() -> tuple[Event, Snapshot]:
            snapshot = self._known.snapshot
            return LookedUp(request, lookup.get_computed_blocks(snapshot, request)), snapshot

        event = self._asked("LOOKUP-1", (LookedUp, request), find)
        assert isinstance(event, LookedUp)
        return Hit(event.hit.num_tokens, event.hit.blocks, tails=event.hit.tails)

    def allocate(self, call: Call, hit: Hit = NO_HIT) -> int | None:
        """Slots for the call's tokens; the hit tokens adopted, None for a refusal."""

        def admit() -> tuple[Event, Snapshot]:
            outcome = admission.admit(self._known.snapshot, call)
            if isinstance(outcome, Allocation):
                return Allocated(call, outcome.new_blocks), outcome.snapshot
            return Allocated(call, None, outcome.never), outcome.snapshot

        event = self._asked("COUNT-1", (Allocated, call), admit)
        assert isinstance(event, Allocated)
        return None if event.answer is None else call.hit.num_tokens

    def allocate_batch(self, calls: Sequence[Call]) -> int:
        """Slots for rows of calls, one after the other up to the first refusal."""
        for number, call in enumerate(calls):
            if self.allocate(call) is None:
                return number
        return len(calls)

    def commit(self, request: Request, num_computed_tokens: int) -> None:
        """Tokens are computed and finalized."""
        event = Committed(request, num_computed_tokens)
        self._asked(
            "HASH-2",
            event,
            lambda: (event, admission.commit(self._known.snapshot, request, num_computed_tokens)),
        )

    def settled(self, request: Request, before: Request) -> None:
        """Nothing: the specification holds no content."""

    def free(self, request: Request) -> None:
        """A request ended."""
        event = Freed(request.request_id)
        self._asked("FREE-1", event, lambda: (event, release.free(self._known.snapshot, request.request_id)))

    def preempt(self, request: Request) -> None:
        """A running request loses its blocks."""
        event = Freed(request.request_id)
        self._asked("FREE-1", event, lambda: (event, release.preempt(self._known.snapshot, request)[0]))

    def defer_free(self, request: Request) -> None:
        """A request ended, its blocks stay held."""
        event = Deferred(request.request_id)
        self._asked("FREE-1", event, lambda: (event, release.defer_free(self._known.snapshot, request.request_id)))

    def return_deferred(self) -> None:
        """The oldest deferred free goes back."""
        event = Returned()
        self._asked("FREE-1", event, lambda: (event, release.return_deferred(self._known.snapshot)))

    def release_copy(self) -> None:
        """The step of the oldest copy is done."""
        event = Copied()
        self._asked("FREE-1", event, lambda: (event, copies.release_copy(self._known.snapshot)))

    def evict(self, blocks: tuple[int, ...]) -> None:
        """Keys are taken away."""
        event = Evicted(blocks)
        self._asked("EVICT-1", event, lambda: (event, release.evict_blocks(self._known.snapshot, blocks)))

    def reset_prefix_cache(self) -> None:
        """The cache is emptied, if nothing is held."""

        def reset() -> tuple[Event, Snapshot]:
            after, succeeded = release.reset_prefix_cache(self._known.snapshot)
            return Reset(succeeded), after

        self._asked("RESET-1", Reset, reset)

    def offers(self, verb: str) -> bool:
        """The specification has every call."""
        return True

    def _asked(self, law_id: str, question: Hashable, move: Move) -> Event:
        """The answer to a question; the world moves on to the state behind it.

        Raises:
            Violation: of the law about the call, when the specification raises.
        """
        answer = self._known.answers.get(question)
        if answer is None:
            answer = self._known.answers[question] = self._worked_out(law_id, move)
        if self.objection is None:
            self.objection = answer.objection
        self._known = answer.after
        if self.world.snapshot is not answer.after.snapshot:
            self.world = self.world.with_snapshot(answer.after.snapshot)
        return answer.event

    def _worked_out(self, law_id: str, move: Move) -> Answer:
        before = self._known
        try:
            event, after = move()
        except Exception as error:
            got = f"the specification raised {type(error).__name__}: {error}"
            raise Violation(law_id, got, "an answer", got) from error
        objection = judged(Transition(before.snapshot, event, after, self.world.requests))
        return Answer(event, before if after is before.snapshot else self._memory.of(after), objection)


KEPT_AT_REST = frozenset({"POOL-1", "POOL-2", "POOL-3", "POOL-4", "INDEX-1", "LEAK-1", "COMMIT-3"})
"""Laws about a state alone, or about what must stay: a call that leaves the very same snapshot keeps them, since they
were judged when it came to be.
"""

JUDGES = by_event(LAWS)
JUDGES_AT_REST = by_event(law for law in LAWS if law.id not in KEPT_AT_REST)


def judged(transition: Transition) -> Violation | None:
    """The violation of the first law that objects, the others beside it."""
    event, objections = transition.event, []
    judges = JUDGES if transition.after is not transition.before else JUDGES_AT_REST
    answered = event.answer is not None if isinstance(event, Allocated) else None
    for law in judges[type(event), answered]:
        if law.said is None or law.said(transition):
            objection = law.predicate(transition)
            if objection is not None:
                objections.append((law, objection))
    if not objections:
        return None
    (law, objection), *others = objections
    also = tuple((other.id, said) for other, said in others)
    return Violation(law.id, objection, law.sentence, objection, also, transition)

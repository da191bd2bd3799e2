"""A law broken by a target: what the law objects to, and where the target and the specification part."""

from slotproof.spec.pool import NO_KEY
from slotproof.spec.snapshot import Snapshot
from slotproof.spec.transition import Allocated, Batched, Event, LookedUp, Reset, Transition, held_tables


class Violation(Exception):
    """Raised by a session at the first step that a law objects to."""

    def __init__(
        self,
        law_id: str,
        objection: str,
        expected: str,
        got: str,
        others: tuple[tuple[str, str], ...] = (),
        transition: Transition | None = None,
    ) -> None:
        super().__init__(f"{law_id}: {objection}")
        self.law_id = law_id
        self.objection = objection
        self.expected = expected
        self.got = got
        self.others = others
        self.transition = transition

    @property
    def law_ids(self) -> tuple[str, ...]:
        """Every law that objects to the step, the reported one first."""
        return (self.law_id, *(law_id for law_id, _ in self.others))


class EpisodeOver(Exception):
    """A known deviation showed, and the walk cannot go on from it."""


def answer_of(event: Event) -> str:
    """What the target answered, in words."""
    if isinstance(event, Allocated):
        return str(event.answer)
    if isinstance(event, LookedUp):
        copied = f", its end to be copied from {event.hit.tails}" if event.hit.tails else ""
        return f"a hit of {event.hit.num_tokens} tokens on blocks {event.hit.blocks}{copied}"
    if isinstance(event, Batched):
        return str(event.answers)
    return str(event.succeeded) if isinstance(event, Reset) else "done"


def differences(event: Event, due_answer: str | None, expected: Snapshot, after: Snapshot) -> tuple[str, str]:
    """What the specification has and what the target shows, at the first place where they differ."""
    got_answer = answer_of(event)
    if due_answer is not None and due_answer != got_answer:
        return due_answer, got_answer
    for part, due, got in zip(
        ("tables", "free blocks", "references", "queue", "keys", "cached counters", "parts", "copies"),
        *map(_parts, (expected, after)),
        strict=True,
    ):
        if due != got:
            return f"{part} {due}", f"{part} {got}"
    return "the same state", "the same state"


def _parts(snapshot: Snapshot) -> tuple[object, ...]:
    pool = snapshot.pool
    keyed = {block: key for block, key in enumerate(pool.keys) if key != NO_KEY}
    counters = {name: holding.cached for name, holding in snapshot.holdings.items()}
    shown = held_tables(snapshot), pool.num_free(), pool.refs[1:], pool.queue, keyed, counters
    return (*shown, snapshot.parts, snapshot.copies)


def changes(before: object, after: object) -> list[str]:
    """What differs between two of a target's own snapshots, at the smallest parts that can be told apart."""
    if before == after:
        return []
    if not isinstance(before, tuple) or not isinstance(after, tuple):
        return [f"{before} became {after}"]
    if len(before) == len(after):
        return [change for pair in zip(before, after, strict=True) for change in changes(*pair)]
    removed = [f"{part} went" for part in before if part not in after]
    return removed + [f"{part} came" for part in after if part not in before]

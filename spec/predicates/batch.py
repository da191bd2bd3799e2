"""BATCH-1: a batch is its rows, one call after the other."""

from dataclasses import replace

from slotproof.spec.admission import Allocation, admit
from slotproof.spec.predicates.facts import Entries
from slotproof.spec.snapshot import Snapshot
from slotproof.spec.transition import Batched, Transition


def batch_is_the_fold(t: Transition) -> str | None:
    """BATCH-1."""
    assert isinstance(t.event, Batched)
    due, one_by_one = fold(t)
    if t.event.answers != due:
        return f"{len(t.event.answers)} rows got {t.event.answers}; call by call {len(due)} get {due}"
    changed = replace(t, before=one_by_one).changed()
    return None if changed is None else f"seen from the rows call by call, {changed}"


def fold(t: Transition) -> tuple[tuple[tuple[Entries, ...], ...], Snapshot]:
    """What the single calls answer in order, up to the first refusal, and the snapshot behind them."""
    assert isinstance(t.event, Batched)
    snapshot, answers = t.before, list[tuple[Entries, ...]]()
    for call in t.event.calls:
        outcome = admit(snapshot, call)
        snapshot = outcome.snapshot
        if not isinstance(outcome, Allocation):
            break
        answers.append(outcome.new_blocks)
    return tuple(answers), snapshot

"""Theorems about `spec/snapshot.py`: what a request holds of which nothing is known."""

from slotproof.proofs.scope import Scope
from slotproof.proofs.theorem import theorem
from slotproof.spec.snapshot import Table, nothing_held

MOST_GROUPS = 4


@theorem("HASH-2", "An untracked request holds nothing, and no entry has been considered for keys.", "up to 4 groups")
def an_untracked_request_holds_nothing(s: Scope) -> None:
    groups = s.integer("groups", 1)
    s.assume(groups <= MOST_GROUPS)
    number = range(MOST_GROUPS + 1)[groups]
    holding = nothing_held.__wrapped__(number)
    s.prove(holding.tables == (Table(()),) * number)
    s.prove(holding.cached == (0,) * number)

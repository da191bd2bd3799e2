"""Theorems about two runs: what drafts cannot decide (HASH-3)."""

from slotproof.proofs.operations import Step
from slotproof.proofs.scope import Scope
from slotproof.proofs.shapes import ASKING
from slotproof.proofs.theorem import about
from slotproof.proofs.theorems.vocabulary import all_of, blocks_of, same
from slotproof.proofs.worlds import MORE_DRAFTS, OTHER_DRAFTS
from slotproof.spec.admission import Allocation
from slotproof.spec.keys import block_key
from slotproof.spec.pool import NULL_BLOCK


@about(OTHER_DRAFTS, "HASH-3", "Runs that differ only in draft ids end in one answer, one pool and the same tables.")
def draft_ids_decide_nothing(s: Scope, step: Step) -> None:
    one, other = step.result
    s.prove(type(one) is type(other))
    s.prove(one.snapshot.pool.queue == other.snapshot.pool.queue)
    for block in blocks_of(step):
        s.prove(one.snapshot.pool.ref(block) == other.snapshot.pool.ref(block))
        s.prove(one.snapshot.pool.key_of(block) == other.snapshot.pool.key_of(block))
    held, also = one.snapshot.holding(ASKING), other.snapshot.holding(ASKING)
    s.prove(same(held.cached, also.cached))
    for table, twin in zip(held.tables, also.tables, strict=True):
        s.prove(same(table.entries, twin.entries))


@about(MORE_DRAFTS, "HASH-3", "However many drafts or lookahead tokens there are, the same entries get their keys.")
def more_drafts_add_no_key(s: Scope, step: Step) -> None:
    one, other = step.result
    if not (isinstance(one, Allocation) and isinstance(other, Allocation)):
        return
    held, also = one.snapshot.holding(ASKING), other.snapshot.holding(ASKING)
    s.prove(same(held.cached, also.cached))
    request, groups = step.arguments[0].request, step.before.config.groups
    for number, (table, twin) in enumerate(zip(held.tables, also.tables, strict=True)):
        for place, (block, mate) in enumerate(zip(table.entries, twin.entries, strict=False)):
            own = block_key(request.prefix_key(place), number, len(groups))
            keyed = one.snapshot.pool.key_of(block) == own, other.snapshot.pool.key_of(mate) == own
            if NULL_BLOCK not in (block, mate):
                s.prove(keyed[0] == keyed[1])


@about(MORE_DRAFTS, "HASH-3", "More drafts never turn a no into a yes, and the no they bring adds and takes no key.")
def more_drafts_only_need_more(s: Scope, step: Step) -> None:
    one, other = step.result
    call, more = step.arguments
    s.assume(more.num_lookahead_tokens >= call.num_lookahead_tokens)
    if not isinstance(one, Allocation):
        s.prove(not isinstance(other, Allocation))
    elif not isinstance(other, Allocation):
        kept = [other.snapshot.pool.key_of(block) == step.before.pool.key_of(block) for block in blocks_of(step)]
        s.prove(all_of(kept))

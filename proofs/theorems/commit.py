"""Theorems about `commit`: keys that were delayed, or that wait until drafts are final."""

from slotproof.proofs.operations import Step
from slotproof.proofs.scope import Scope, negated
from slotproof.proofs.shapes import ASKING
from slotproof.proofs.theorem import about
from slotproof.proofs.theorems.vocabulary import blocks_of, if_else, most
from slotproof.proofs.worlds import COMMIT
from slotproof.spec.keys import block_key
from slotproof.spec.pool import NULL_BLOCK


@about(COMMIT, "HASH-1", "A commit keys only entries that finalized tokens fill, and no other block.")
def a_commit_keys_only_finalized_blocks(s: Scope, step: Step) -> None:
    request, _ = step.arguments
    filled = {
        block: (place + 1) * group.block_size <= request.num_tokens
        for number, group in enumerate(step.before.config.groups)
        for place, block in enumerate(step.before.holding(ASKING).tables[number].entries)
        if block != NULL_BLOCK
    }
    for block in blocks_of(step):
        kept = step.result.pool.key_of(block) == step.before.pool.key_of(block)
        s.prove(kept | filled.get(block, False))


@about(COMMIT, "HASH-2", "A commit keys every full entry at or behind the counter, exactly, and the counter follows.")
def a_commit_catches_up(s: Scope, step: Step) -> None:
    request, tokens = step.arguments
    caching, groups = step.before.config.caching, step.before.config.groups
    for number, group in enumerate(groups):
        held, start = step.before.holding(ASKING).tables[number], step.before.holding(ASKING).cached[number]
        moved = if_else(caching, most(start, tokens // group.block_size), start)
        s.prove(step.result.holding(ASKING).cached[number] == moved)
        for place, block in enumerate(held.entries):
            due = caching & (place >= start) & ((place + 1) * group.block_size <= tokens)
            key = step.result.pool.key_of(block)
            if block != NULL_BLOCK:
                s.prove(negated(due) | (key == block_key(request.prefix_key(place), number, len(groups))))
                s.prove(due | (key == step.before.pool.key_of(block)))


@about(COMMIT, "COMMIT-3", "A commit changes no table, no reference and no order.")
def a_commit_changes_keys_only(s: Scope, step: Step) -> None:
    for block in blocks_of(step):
        s.prove(step.result.pool.ref(block) == step.before.pool.ref(block))
    s.prove(step.result.pool.queue == step.before.pool.queue)
    s.prove(step.result.holding(ASKING).tables == step.before.holding(ASKING).tables)
    s.prove(set(step.result.holdings) == set(step.before.holdings))


@about(COMMIT, "POOL-3", "A commit never keys the null block.")
def a_commit_leaves_the_null_block_alone(s: Scope, step: Step) -> None:
    s.prove(step.result.pool.key_of(NULL_BLOCK) == step.before.pool.key_of(NULL_BLOCK))

"""Theorems about `spec/lookup.py`: what a prefix lookup finds."""

from typing import Any

from slotproof.proofs.operations import Step
from slotproof.proofs.scope import Scope, negated
from slotproof.proofs.theorem import about
from slotproof.proofs.theorems.vocabulary import all_of, any_of, blocks_for, blocks_of, least
from slotproof.proofs.worlds import LOOKUP
from slotproof.spec.groups import SlidingWindow
from slotproof.spec.keys import block_key
from slotproof.spec.pool import NULL_BLOCK


def is_offered(step: Step, number: int, place: int) -> Any:
    """Whether some block carries the key of this position of the request's prefix in a group."""
    key = block_key(step.arguments[0].prefix_key(place), number, len(step.before.config.groups))
    return any_of(step.before.pool.key_of(block) == key for block in blocks_of(step))


def is_valid(step: Step, length: int) -> Any:
    """Whether every group can resume behind so many blocks: what it reads is there."""
    return all_of(
        (place < length - blocks_read(group, length)) | is_offered(step, number, place)
        for number, group in enumerate(step.before.config.groups)
        for place in range(length)
    )


def blocks_read(group: Any, length: int) -> Any:
    """Blocks at the end of a hit that the group reads."""
    return least(length, blocks_for(group.window - 1, group.block_size)) if isinstance(group, SlidingWindow) else length


@about(LOOKUP, "LOOKUP-1", "A hit leaves a token to compute, is whole blocks, and as long in every group.")
def a_hit_leaves_a_token_to_compute(s: Scope, step: Step) -> None:
    hit, size = step.result, step.before.config.groups[0].block_size
    s.prove(hit.num_tokens <= step.arguments[0].num_tokens - 1)
    s.prove(hit.num_tokens % size == 0)
    for blocks in hit.blocks:
        s.prove(hit.num_tokens == len(blocks) * size)


@about(LOOKUP, "LOOKUP-1", "Each block of a hit carries the key of its position; null stands for what is not read.")
def each_block_of_a_hit_holds_its_prefix(s: Scope, step: Step) -> None:
    for number, group in enumerate(step.before.config.groups):
        blocks = step.result.blocks[number]
        for place, block in enumerate(blocks):
            key = block_key(step.arguments[0].prefix_key(place), number, len(step.before.config.groups))
            unread = place < len(blocks) - blocks_read(group, len(blocks))
            carries = any_of((block == one) & (step.before.pool.key_of(one) == key) for one in blocks_of(step))
            s.prove(((block == NULL_BLOCK) & unread) | (negated(unread) & carries))


@about(LOOKUP, "LOOKUP-1", "No longer hit is valid; without caching there is none.")
def no_longer_hit_is_valid(s: Scope, step: Step) -> None:
    size = step.before.config.groups[0].block_size
    found = len(step.result.blocks[0])
    limit = (step.arguments[0].num_tokens - 1) // size
    caching = step.before.config.caching
    s.prove(caching | (found == 0))
    for length in range(found + 1, limit + 1):
        s.prove(negated(caching & is_valid(step, length)))


@about(LOOKUP, "INDEX-1", "Of several blocks with one key the one keyed first is offered.")
def of_duplicates_the_first_is_offered(s: Scope, step: Step) -> None:
    for number in range(len(step.before.config.groups)):
        for place, block in enumerate(step.result.blocks[number]):
            key = block_key(step.arguments[0].prefix_key(place), number, len(step.before.config.groups))
            for one in blocks_of(step):
                earlier = (block != NULL_BLOCK) & (block > one)
                s.prove(negated(earlier & (step.before.pool.key_of(one) == key)))

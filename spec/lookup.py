"""Prefix lookup: the longest part of a request that cached blocks already hold, the same length in every group."""

from dataclasses import dataclass
from typing import NamedTuple

from slotproof.spec.arithmetic import imin
from slotproof.spec.keys import block_key
from slotproof.spec.loops import foreach, repeat
from slotproof.spec.pool import NO_BLOCK, NULL_BLOCK
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Hit:
    """Cached blocks for the first `num_tokens` tokens: block ids a group, null where the group no longer reads.

    `num_tokens` is a multiple of the block size, unless a hit ends inside a block: then `tails` has one block a group
    that the rest of the tokens is to be copied from.
    """

    num_tokens: int
    blocks: tuple[tuple[int, ...], ...]
    tails: tuple[int, ...] = ()

    @property
    def names_blocks(self) -> bool:
        """Whether it has any block, null or not."""
        return any(self.blocks)


class Agreement(NamedTuple):
    """A hit length in blocks, and whether every group accepts it."""

    length: int
    stable: bool


def get_computed_blocks(snapshot: Snapshot, request: Request) -> Hit:
    """The longest valid hit; at least one token is left to compute, because its logits are needed (LOOKUP-1)."""
    config = snapshot.config
    if not config.caching:
        return no_hit(snapshot)
    limit = imin(len(request.prefix_keys), (request.num_tokens - 1) // config.block_size)
    length = longest_common_hit(snapshot, request, limit)
    blocks = tuple(hit_blocks(snapshot, request, number, length) for number in range(len(config.groups)))
    return with_tails(snapshot, request, Hit(length * config.block_size, blocks))


def longest_common_hit(snapshot: Snapshot, request: Request, limit: int) -> int:
    """The fixed point of asking every group for its longest hit within the length found so far, in blocks."""

    def ask_every_group(_: int, found: Agreement) -> Agreement:
        if found.stable:
            return found
        shorter = shorten_in_every_group(snapshot, request, found.length)
        return Agreement(shorter, shorter == found.length)

    return repeat(limit, ask_every_group, Agreement(limit, stable=False)).length


def shorten_in_every_group(snapshot: Snapshot, request: Request, length: int) -> int:
    """One round: each group accepts the length or offers a shorter one."""
    groups = snapshot.config.groups

    def shorten(number: int, longest: int) -> int:
        def cached(index: int) -> bool:
            return cached_block(snapshot, request, number, index) != NO_BLOCK

        return groups[number].longest_hit(cached, longest)

    return foreach(range(len(groups)), shorten, length)


def hit_blocks(snapshot: Snapshot, request: Request, number: int, length: int) -> tuple[int, ...]:
    """One group's blocks of a hit of `length` blocks: those it reads, behind null for those it does not."""
    first_read = length - snapshot.config.groups[number].blocks_read(length)
    read = tuple(cached_block(snapshot, request, number, index) for index in range(first_read, length))
    return (NULL_BLOCK,) * first_read + read


def cached_block(snapshot: Snapshot, request: Request, number: int, index: int) -> int:
    """The block offered for position `index` of the request's prefix in a group, or NO_BLOCK."""
    return snapshot.pool.block_of(block_key(request.prefix_key(index), number, len(snapshot.config.groups)))


def with_tails(snapshot: Snapshot, request: Request, whole: Hit) -> Hit:
    """The hit of whole blocks, and the most tokens of the next block that every group has some block to copy from."""
    config = snapshot.config
    if not config.has_partial_hits:
        return whole
    keys = request.parts_of(whole.num_tokens // config.block_size)
    limit = imin(len(keys), (request.num_tokens - 1 - whole.num_tokens) // config.hash_unit)

    def longer_if_offered(step: int, longest: int) -> int:
        return longest if NO_BLOCK in offering_blocks(snapshot, keys[step]) else step + 1

    length = repeat(limit, longer_if_offered, 0)
    if length == 0:
        return whole
    num_tokens = whole.num_tokens + length * config.hash_unit
    return Hit(num_tokens, whole.blocks, offering_blocks(snapshot, keys[length - 1]))


def offering_blocks(snapshot: Snapshot, prefix_key: int) -> tuple[int, ...]:
    """The block, a group, that a prefix that ends inside a block can be copied from, or NO_BLOCK."""
    num_groups = len(snapshot.config.groups)
    return tuple(part_of(snapshot, block_key(prefix_key, number, num_groups)) for number in range(num_groups))


def part_of(snapshot: Snapshot, key: int) -> int:
    """The block that offers a part, of several the one that offered it first; or NO_BLOCK."""
    return next((part.block for part in snapshot.parts if part.key == key), NO_BLOCK)


def no_hit(snapshot: Snapshot) -> Hit:
    """The hit of nothing."""
    return Hit(0, ((),) * len(snapshot.config.groups))

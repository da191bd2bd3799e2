"""Parts of blocks: prefixes that end inside a block, at a hash granularity finer than the block, offered for copying.

A copy is made before the forward pass, so what it copies must be there by then. A full block is offered when it is
scheduled, its parts only by the commit behind the forward pass. They are offered as long as the block carries a key: a
block that is not full carries that of its longest part, so that it is queued as a keyed one, until it is full.
"""

from slotproof.spec.arithmetic import ceil_div
from slotproof.spec.keys import block_key
from slotproof.spec.loops import foreach
from slotproof.spec.pool import NO_KEY, key_block
from slotproof.spec.request import Request
from slotproof.spec.snapshot import Part, Snapshot


def offer_parts(snapshot: Snapshot, request: Request, tokens: int) -> Snapshot:
    """Offer the parts of all blocks that hold a request's first `tokens` tokens, which are computed and finalized
    (HASH-1, HASH-2).
    """
    if not snapshot.config.has_partial_hits or not snapshot.config.caching:
        return snapshot

    def offer_in_group(number: int, so_far: Snapshot) -> Snapshot:
        keyed = key_last_block(so_far, request, number, tokens)
        return foreach(new_parts(keyed, request, number, tokens), offer_part, keyed)

    return foreach(range(len(snapshot.config.groups)), offer_in_group, snapshot)


def key_last_block(snapshot: Snapshot, request: Request, number: int, tokens: int) -> Snapshot:
    """Key the block that the tokens end in by its longest part, unless it carries a longer one or was full already."""
    index = tokens // snapshot.config.block_size
    settled = settled_parts(snapshot, request, number, index, tokens)
    if not settled or snapshot.holding(request.request_id).cached[number] > index:
        return snapshot
    block = snapshot.holding(request.request_id).tables[number].entry(index)
    longer = parts_in(snapshot, request, number, index)[len(settled) - 1 :]
    if snapshot.pool.key_of(block) in longer:
        return snapshot
    return snapshot.with_pool(key_block(block, settled[-1], snapshot.pool))


def new_parts(snapshot: Snapshot, request: Request, number: int, tokens: int) -> tuple[Part, ...]:
    """What the keyed blocks of one group hold of the tokens and do not offer yet."""
    table = snapshot.holding(request.request_id).tables[number]
    return tuple(
        Part(key, table.entry(index))
        for index in range(ceil_div(tokens, snapshot.config.block_size))
        if snapshot.pool.key_of(table.entry(index)) != NO_KEY
        for key in settled_parts(snapshot, request, number, index, tokens)
        if Part(key, table.entry(index)) not in snapshot.parts
    )


def offer_part(part: Part, snapshot: Snapshot) -> Snapshot:
    """Offer one part, behind those that are offered already."""
    return snapshot.with_parts((*snapshot.parts, part))


def settled_parts(snapshot: Snapshot, request: Request, number: int, index: int, tokens: int) -> tuple[int, ...]:
    """The keys of the parts of block `index` that the first `tokens` tokens fill, shortest first."""
    config = snapshot.config
    return parts_in(snapshot, request, number, index)[: (tokens - index * config.block_size) // config.hash_unit]


def parts_in(snapshot: Snapshot, request: Request, number: int, index: int) -> tuple[int, ...]:
    """The keys, in a group, of all finalized parts of block `index`."""
    num_groups = len(snapshot.config.groups)
    return tuple(block_key(key, number, num_groups) for key in request.parts_of(index))


def withdraw_parts(snapshot: Snapshot, blocks: tuple[int, ...]) -> Snapshot:
    """Offer no part of these blocks any more: they have lost their keys (INDEX-1)."""
    if not snapshot.parts:
        return snapshot
    return snapshot.with_parts(tuple(part for part in snapshot.parts if part.block not in blocks))

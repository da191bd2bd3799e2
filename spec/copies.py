"""Copies: a hit that ends inside a block is copied into a private one, because both will be written behind it.

The copy is made before the forward pass of the step. Until then nobody else may get either block, whatever becomes of
the requests, so each carries a reference of its own (POOL-2).
"""

from dataclasses import replace

from slotproof.spec.lookup import Hit
from slotproof.spec.loops import foreach
from slotproof.spec.pool import pin_block
from slotproof.spec.release import release_run
from slotproof.spec.snapshot import Copy, Snapshot, Table


def pin_sources(snapshot: Snapshot, hit: Hit) -> Snapshot:
    """Pin what will be copied, before any block is popped (COMMIT-1)."""
    return snapshot.with_pool(foreach(hit.tails, pin_block, snapshot.pool))


def list_copies(snapshot: Snapshot, request_id: str, hit: Hit) -> Snapshot:
    """Pin the private blocks and put the pairs on the copy list, group after group (MEM-2)."""
    if not hit.tails:
        return snapshot
    index = hit.num_tokens // snapshot.config.block_size
    tables = snapshot.holding(request_id).tables
    copies = tuple(Copy(source, table.entry(index)) for source, table in zip(hit.tails, tables, strict=True))
    pool = foreach([copy.destination for copy in copies], pin_block, snapshot.pool)
    return replace(snapshot.with_pool(pool), copies=(*snapshot.copies, *copies))


def release_copy(snapshot: Snapshot) -> Snapshot:
    """The step of the oldest copy is done: let go of both ends, the private one first; nothing if there is none
    (FREE-1).
    """
    if not snapshot.copies:
        return snapshot
    oldest, *younger = snapshot.copies
    ends = Table((oldest.destination, oldest.source))
    pool = release_run(snapshot.pool, ends, snapshot.config.free_order)
    return replace(snapshot, pool=pool, copies=tuple(younger))

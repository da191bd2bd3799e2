"""The theorems, one file a file of the specification; importing this package registers all of them."""

from slotproof.proofs.theorems import (
    admission,
    arithmetic,
    call,
    commit,
    drafts,
    groups,
    keys,
    lookup,
    parts,
    pool,
    preconditions,
    release,
    request,
    snapshot,
)

__all__ = [
    "admission",
    "arithmetic",
    "call",
    "commit",
    "drafts",
    "groups",
    "keys",
    "lookup",
    "parts",
    "pool",
    "preconditions",
    "release",
    "request",
    "snapshot",
]

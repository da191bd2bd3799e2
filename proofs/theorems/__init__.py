"""The theorems, one file a file of the specification; importing this package registers all of them."""

from slotproof.proofs.theorems import admission, arithmetic, groups, keys, pool

__all__ = ["admission", "arithmetic", "groups", "keys", "pool"]

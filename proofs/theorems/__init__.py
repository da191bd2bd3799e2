"""The theorems, one file a file of the specification; importing this package registers all of them."""

from slotproof.proofs.theorems import arithmetic, groups, keys, pool

__all__ = ["arithmetic", "groups", "keys", "pool"]

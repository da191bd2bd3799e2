"""Proofs about the specification: its own functions, executed on symbolic values."""

"""`python -m slotproof.conformance.cli` is `slotproof`."""

from slotproof.conformance.cli import main

main()

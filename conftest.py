"""pytest names a test module after its folders, so it would load each room's package a second time, under a bare name.

Here the bare names are given to the packages as they are installed; nothing but pytest uses them.
"""

import importlib
import sys

for room in ("spec", "impl", "conformance", "proofs"):
    sys.modules.setdefault(room, importlib.import_module(f"slotproof.{room}"))

"""What is known of who notices which mutant of the specification, as `slotproof mutate spec --all-killers` recorded it.

The record is shipped, because gathering it takes long. It says of which mutants it speaks; a mutant that came after it
is in no list.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("kills.json")


@cache
def recorded() -> Mapping[str, Any]:
    """The record: `mutants`, `theorems` by name with the mutants each kills, and `only` by law."""
    document: Mapping[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return document


def killed_by(theorem: str) -> list[str]:
    """The ids of the mutants that a theorem notices."""
    ids: list[str] = recorded()["theorems"].get(theorem, [])
    return ids


def killed_only_by(law: str) -> list[str]:
    """The ids of the mutants that nothing but the theorems and run-time checks of a law notices."""
    ids: list[str] = recorded()["only"].get(law, [])
    return ids

"""What is known of who notices which mutant of the specification, as `slotproof mutate spec` found it.

The record is shipped, because gathering it takes long, and tells the next run whom to ask first. Of every mutant it has
who noticed it first; some, a few a law, have met all theorems and run-time checks, so of these it is known which ones
nobody else notices. With `--all-killers --record FILE` the command makes such a record of all that it tries.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("kills.json")


@cache
def recorded() -> Mapping[str, Any]:
    """The record: how many `mutants` there were, `killers` with the mutants each notices (theorems by name, `run-time
    laws`, and `crash` for those that nobody judged), how many were `met_by_all`, and which of these `only` one law
    notices, by law.
    """
    document: Mapping[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return document


def killed_by(theorem: str) -> list[str]:
    """The ids of the mutants that a theorem notices."""
    ids: list[str] = recorded()["killers"].get(theorem, [])
    return ids


def recorded_killers() -> dict[str, frozenset[str]]:
    """All who are known to notice a mutant, by its id."""
    killers: dict[str, set[str]] = defaultdict(set)
    for killer, names in recorded()["killers"].items():
        for name in names:
            killers[name].add(killer)
    return {name: frozenset(known) for name, known in killers.items()}


def killed_only_by(law: str) -> list[str]:
    """The ids of the mutants that nothing but the theorems and run-time checks of a law notices."""
    ids: list[str] = recorded()["only"].get(law, [])
    return ids

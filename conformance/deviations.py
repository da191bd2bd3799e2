"""Known deviations: what a target is known to do otherwise, why, and a vector that must still show it."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from slotproof.conformance.errors import SetupError


@dataclass(frozen=True, slots=True)
class Deviation:
    """One known deviation of a target.

    `objection` is a regular expression for the law's objection; `vector` names a vector file that shows the deviation; `groups` are
    the group settings in which it occurs, by kind.
    """

    id: str
    target: str
    law: str
    objection: str
    reason: str
    link: str
    vector: str

    def covers(self, law_id: str, objection: str) -> bool:
        """Whether a violation is this deviation."""
        return law_id == self.law and re.search(self.objection, objection) is not None


def load_deviations(path: Path, target: str) -> tuple[Deviation, ...]:
    """The deviations a file lists for a target; a target's name may carry an argument or an environment.

    Raises:
        SetupError: for a file that is not a list of deviations.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        known = tuple(Deviation(**entry) for entry in entries)
    except (OSError, ValueError, TypeError) as error:
        raise SetupError(
            f"{path} is not a file of deviations ({error}); it holds a JSON list, see the README"
        ) from error
    name = re.split("[@=]", target)[0]
    return tuple(deviation for deviation in known if deviation.target == name)

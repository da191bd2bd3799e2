"""Known deviations: what a target is known to do otherwise, why, and a vector that must still show it."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from slotproof.conformance.errors import SetupError
from slotproof.spec.laws import BY_ID

SHIPPED = Path(__file__).parent / "targets" / "deviations.json"


@dataclass(frozen=True, slots=True)
class Deviation:
    """One known deviation of a target.

    `objection` is a regular expression for the law's objection; `vector` is the file of a trace that shows the
    deviation.
    """

    id: str
    target: str
    law: str
    objection: str
    reason: str
    link: str
    vector: Path

    def covers(self, law_id: str, objection: str) -> bool:
        """Whether a violation is this deviation."""
        return law_id == self.law and re.search(self.objection, objection) is not None


def shipped_deviations(target: str) -> tuple[Deviation, ...]:
    """The deviations that the suite knows of a target."""
    return load_deviations(SHIPPED, target)


def load_deviations(path: Path, target: str) -> tuple[Deviation, ...]:
    """The deviations a file lists for a target, whatever argument or environment its name carries.

    The file is a JSON list of objects with the fields of Deviation; vectors are named relative to its folder.

    Raises:
        SetupError: for a file that is not such a list.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        known = [Deviation(**{**entry, "vector": path.parent / entry["vector"]}) for entry in entries]
        for deviation in known:
            re.compile(deviation.objection)
    except (OSError, ValueError, TypeError, KeyError, re.error) as error:
        raise SetupError(
            f"{path} is not a file of known deviations ({error}); it holds a JSON list of objects with the fields "
            "id, target, law, objection, reason, link and vector"
        ) from error
    unknown = [one for one in known if one.law not in BY_ID]
    if unknown:
        raise SetupError(f"{path} names the unknown law {unknown[0].law}; `slotproof laws` lists them")
    name = re.split("[@=]", target)[0]
    return tuple(deviation for deviation in known if deviation.target == name)

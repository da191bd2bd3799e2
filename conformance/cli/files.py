"""Vector files: the user's own, or a shipped one by its name."""

from pathlib import Path

from slotproof.conformance.errors import SetupError
from slotproof.conformance.vector import Vector, read_vector, shipped_vectors


def find_vector(named: str) -> Vector:
    """The vector in a file, or the shipped vector of that name.

    Raises:
        SetupError: when there is neither, or the file is no vector.
    """
    path = Path(named)
    if path.is_file() or path.suffix == ".json":
        return read_vector(path)
    shipped = {vector.name: vector for vector in shipped_vectors()}
    if named not in shipped:
        known = ", ".join(sorted(shipped)[:8]) or "none"
        raise SetupError(f"{named} is neither a file nor a shipped vector; shipped are, for example: {known}")
    return shipped[named]

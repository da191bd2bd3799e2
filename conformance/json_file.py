"""Reading a file of JSON that a user names."""

import json
from pathlib import Path
from typing import Any

from slotproof.conformance.errors import SetupError


def text_of(path: Path) -> str:
    """The text in a file.

    Raises:
        SetupError: when it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path} cannot be read: {error}") from error


def document_of(text: str, where: str) -> Any:
    """What a JSON text says; `where` names it in messages.

    Raises:
        SetupError: when it is no JSON.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise SetupError(f"{where} is not JSON, perhaps cut off: {error}") from error

"""The settings of a gate: `[tool.slotproof]` in the pyproject.toml of the current directory."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotproof.conformance.errors import SetupError
from slotproof.conformance.settings import parse_groups

KEYS: dict[str, tuple[type, str]] = {
    "target": (str, "a string"),
    "groups": (list, "a list of strings"),
    "seed": (int, "an integer"),
    "steps": (int, "an integer"),
    "deviations": (str, "the path of a file"),
}
"""What may be set, its type, and the type in words."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What a project has settled about `slotproof verify`; None is left to the command line and its defaults."""

    target: str | None = None
    groups: tuple[str, ...] | None = None
    seed: int | None = None
    steps: int | None = None
    deviations: Path | None = None


def read_gate(path: Path) -> Gate:
    """The settings in a pyproject.toml, if there is one and it has some.

    Raises:
        SetupError: for settings that cannot be meant, naming file and key.
    """
    if not path.is_file():
        return Gate()
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SetupError(f"{path} cannot be read as TOML: {error}") from error
    tools = document.get("tool", {})
    settings = tools.get("slotproof", {}) if isinstance(tools, dict) else {}
    if not isinstance(settings, dict):
        raise SetupError(f"{path}: tool.slotproof is {settings!r}; make it a table, [tool.slotproof]")
    for key, value in settings.items():
        _check(path, key, value)
    groups, deviations = settings.get("groups"), settings.get("deviations")
    return Gate(
        settings.get("target"),
        tuple(groups) if groups is not None else None,
        settings.get("seed"),
        settings.get("steps"),
        Path(deviations) if deviations is not None else None,
    )


def _check(path: Path, key: str, value: Any) -> None:
    where = f"{path}, [tool.slotproof]"
    if key not in KEYS:
        raise SetupError(f"{where}: there is no setting {key!r}; the settings are {', '.join(KEYS)}")
    kind, words = KEYS[key]
    if not _is_a(kind, value):
        raise SetupError(f"{where}: {key} is {value!r}; make it {words}")
    if key == "steps" and value < 1:
        raise SetupError(f"{where}: steps is {value}; use 1 or more")
    if key == "groups":
        _check_groups(where, value)


def _is_a(kind: type, value: Any) -> bool:
    """Whether the value is of the kind; a boolean is no integer here."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _check_groups(where: str, groups: list[Any]) -> None:
    if not groups or not all(isinstance(setting, str) for setting in groups):
        raise SetupError(
            f'{where}: groups is {groups!r}; make it a list of strings, for example ["full", "full,window:32"]'
        )
    for setting in groups:
        try:
            parse_groups(setting)
        except SetupError as error:
            raise SetupError(f"{where}: groups: {error}") from error

"""What tests of several commands use."""

import builtins

import pytest


@pytest.fixture
def without_z3(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proofs cannot be imported, because what they need is not installed."""
    real = builtins.__import__

    def refusing(name: str, *arguments: object) -> object:
        if name.startswith("slotproof.proofs"):
            raise ModuleNotFoundError("No module named 'z3'", name="z3")
        return real(name, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", refusing)

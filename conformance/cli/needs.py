"""What a command says when the proofs' room cannot be entered."""

from collections.abc import Iterator
from contextlib import contextmanager

from slotproof.conformance.errors import SetupError


@contextmanager
def needs_the_proofs() -> Iterator[None]:
    """Import the proofs within.

    Raises:
        SetupError: when what they need, Z3 above all, is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise SetupError(f"the proofs need {error.name}; install them with pip install 'slotproof[proofs]'") from error

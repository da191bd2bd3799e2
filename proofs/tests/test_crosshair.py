"""CrossHair, another engine for Python on symbolic values, on contracts about the specification's counts."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slotproof.proofs import contracts

pytestmark = pytest.mark.slow

IMPORT_NAMES = Path(__file__).parents[2] / ".typecheck"

CONFIRMED = "info: Confirmed over all paths."

PLANTED = '''
from slotproof.spec import arithmetic


def a_block_too_few(tokens: int, block_size: int) -> int:
    """One block fewer holds the tokens.

    pre: tokens >= 1 and block_size >= 1
    post: (__return__ - 1) * block_size >= tokens
    """
    return arithmetic.ceil_div(tokens, block_size)


def about_nothing(tokens: int) -> int:
    """No number is both.

    pre: tokens > 0 and tokens < 0
    post: __return__ >= 0
    """
    return arithmetic.imax(tokens, 0)


def valid(required: int, skipped: int, present: int) -> bool:
    return required >= 0 and skipped >= 0 and present >= 0


def specified(required: int, skipped: int, present: int) -> int:
    return arithmetic.blocks_missing(required, skipped, present) if valid(required, skipped, present) else 0


def in_other_words(required: int, skipped: int, present: int) -> int:
    if not valid(required, skipped, present) or required <= skipped or required <= present:
        return 0
    return required - skipped if skipped >= present else required - present


def unclamped(required: int, skipped: int, present: int) -> int:
    return required - max(skipped, present) if valid(required, skipped, present) else 0
'''


def crosshair(folder: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run CrossHair where the planted module can be imported.

    It cannot read the namespace that an editable installation makes, so the import names come from the folder that
    editors and mypy use, and what installed packages add to the path at the start is left out.
    """
    (folder / "planted.py").write_text(PLANTED, encoding="utf-8")
    folders = [folder, IMPORT_NAMES, *[Path(entry) for entry in sys.path if Path(entry).is_dir()]]
    return subprocess.run(
        [sys.executable, "-S", "-m", "crosshair", command, "--per_condition_timeout", "60", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))},
        check=False,
    )


def verdicts(folder: Path, module: str) -> list[str]:
    """What CrossHair says of each contract of a module."""
    result = crosshair(folder, "check", "--report_all", "--analysis_kind", "PEP316", module)
    assert result.stdout, result.stderr
    return [re.sub(r"^.*?:\d+: ", "", line) for line in result.stdout.splitlines()]


def test_crosshair_confirms_every_contract_over_all_paths(tmp_path: Path) -> None:
    functions = [one for one in vars(contracts).values() if inspect.isfunction(one)]
    assert len(functions) >= 15
    assert all("post:" in str(one.__doc__) for one in functions)
    assert verdicts(tmp_path, contracts.__name__) == [CONFIRMED] * len(functions)


def test_a_wrong_contract_and_one_about_nothing_are_not_confirmed(tmp_path: Path) -> None:
    wrong, vacuous = verdicts(tmp_path, "planted")
    assert wrong.startswith("error: false when calling a_block_too_few(")
    assert vacuous == "info: Unable to meet precondition."


def test_a_wrong_count_is_told_from_the_specified_one(tmp_path: Path) -> None:
    result = crosshair(tmp_path, "diffbehavior", "planted.specified", "planted.unclamped")
    assert result.returncode == 1
    assert "Given: (required=" in result.stdout


def test_the_same_count_in_other_words_is_not(tmp_path: Path) -> None:
    result = crosshair(tmp_path, "diffbehavior", "planted.specified", "planted.in_other_words")
    assert result.returncode == 0
    assert "All paths exhausted, functions are likely the same!" in result.stdout

"""No transition is written a second time in the proofs: they run the specification's."""

import ast
from pathlib import Path

import pytest

import slotproof.proofs

PROOFS = Path(slotproof.proofs.__file__).parent
STATEMENTS = PROOFS / "theorems"
ENGINE = PROOFS / "engine.py"
FILES = [path for path in sorted(PROOFS.rglob("*.py")) if "tests" not in path.parts and STATEMENTS not in path.parents]


def divisions(path: Path) -> list[str]:
    """Where a file divides, or names rounding up."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        divides = isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod)
        text = divides and isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant | ast.JoinedStr)
        named = isinstance(node, ast.Name | ast.Attribute) and "ceil" in ast.unparse(node)
        named = named and not ast.unparse(node).startswith("arithmetic.")
        if (divides and not text) or named:
            found.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_only_the_engine_and_the_statements_divide(path: Path) -> None:
    if path != ENGINE:
        assert divisions(path) == []


def test_a_division_would_be_seen(tmp_path: Path) -> None:
    file = tmp_path / "copy.py"
    file.write_text("def blocks(tokens, size):\n    return -(-tokens // size)\n", encoding="utf-8")
    assert divisions(file) == ["copy.py:2: -tokens // size"]

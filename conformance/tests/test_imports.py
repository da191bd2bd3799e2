"""The rooms of the project import one way, and no module is loaded under two names."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ALLOWED = {
    "spec": {"spec"},
    "impl": {"impl"},
    "conformance": {"conformance", "spec", "impl", "proofs"},
    "proofs": {"proofs", "spec"},
}
"""Which rooms the library code of a room may import."""

STANDARD_LIBRARY_ONLY = ("spec", "impl")

NEEDS_TORCH = ("impl/decode_rows.py", "impl/memory.py")
"""Files of the implementation that are imported only by whoever has torch."""

RUNS_ELSEWHERE = (
    "adapter.py",
    "errors.py",
    "serve.py",
    "targets/vllm.py",
    "targets/vllm_patches.py",
    "targets/vllm_scheduler.py",
    "scheduler_adapter.py",
    "serve_scheduler.py",
    "wire.py",
    "targets/nano_vllm.py",
)
"""Files of the conformance room that must run in an environment that has nothing but Python."""


def library_files(room: str) -> list[Path]:
    return [path for path in sorted((ROOT / room).rglob("*.py")) if "tests" not in path.relative_to(ROOT).parts]


def imported_modules(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found.add(node.module or "")
    return found


def rooms(modules: set[str]) -> set[str]:
    return {module.split(".")[1] for module in modules if module.startswith("slotproof.")}


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_a_room_imports_only_what_it_may(room: str) -> None:
    files = library_files(room)
    assert files
    offending = {str(path.relative_to(ROOT)): rooms(imported_modules(path)) - ALLOWED[room] for path in files}
    assert {path: found for path, found in offending.items() if found} == {}


@pytest.mark.parametrize("room", STANDARD_LIBRARY_ONLY)
def test_a_room_needs_nothing_but_the_standard_library(room: str) -> None:
    outside = {
        module
        for path in library_files(room)
        for module in imported_modules(path)
        if module.split(".")[0] not in (*sys.stdlib_module_names, "slotproof")
        and str(path.relative_to(ROOT)) not in NEEDS_TORCH
    }
    assert outside == set()


@pytest.mark.parametrize("name", NEEDS_TORCH)
def test_what_needs_torch_needs_nothing_else(name: str) -> None:
    modules = {module.split(".")[0] for module in imported_modules(ROOT / name)}
    assert modules - set(sys.stdlib_module_names) - {"slotproof"} == {"torch"}


def test_the_allocator_is_imported_without_torch() -> None:
    code = "import sys, slotproof.impl; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", RUNS_ELSEWHERE)
def test_what_runs_in_another_environment_imports_nothing_that_may_be_missing_there(name: str) -> None:
    modules = imported_modules(ROOT / "conformance" / name)
    outside = {module for module in modules if module.split(".")[0] not in (*sys.stdlib_module_names, "slotproof")}
    inside = {module for module in modules if module.startswith("slotproof.conformance")}
    light = {f"slotproof.conformance.{file.removesuffix('.py').replace('/', '.')}" for file in RUNS_ELSEWHERE}
    assert outside == set()
    assert inside <= light | {"slotproof.conformance.targets.registry"}


def test_only_one_target_reaches_into_impl_and_only_the_command_line_into_the_proofs() -> None:
    reaching = {
        room: {
            str(path.relative_to(ROOT))
            for path in library_files("conformance")
            if room in rooms(imported_modules(path))
        }
        for room in ("impl", "proofs")
    }
    commands = {f"conformance/cli/{name}.py" for name in ("laws", "mutate", "prove")}
    assert reaching == {"impl": {"conformance/targets/impl.py"}, "proofs": commands}


def test_no_module_is_loaded_twice() -> None:
    """Seen from inside pytest, which would load packages under the names of their folders if conftest.py let it."""
    loaded: dict[str, set[int]] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and ROOT in Path(file).resolve().parents:
            loaded.setdefault(os.path.realpath(file), set()).add(id(module))
    assert len(loaded) > 30
    assert [file for file, modules in loaded.items() if len(modules) > 1] == []

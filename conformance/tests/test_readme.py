"""What the README shows is run: the tutorial finds the toy's fault, and the specification answers in three lines."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from slotproof.conformance.plan import DEFAULT_STEPS
from slotproof.conformance.scheduler_worlds import WORLDS
from slotproof.spec.laws import LAWS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def block_with(language: str, words: str) -> str:
    (found,) = [block for block in blocks(language) if words in block]
    return found


def slotproof(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "slotproof.conformance.cli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def tutorial(tmp_path: Path) -> Path:
    (tmp_path / "toy.py").write_text(block_with("python", "class ToyAllocator"))
    (tmp_path / "my_adapter.py").write_text(block_with("python", "class ToyAdapter"))
    return tmp_path


def test_the_tutorials_adapter_is_short_and_finds_the_toys_fault(tutorial: Path) -> None:
    assert len((tutorial / "my_adapter.py").read_text().splitlines()) <= 30
    done = slotproof("verify", "my_adapter:ToyAdapter", folder=tutorial)
    assert done.returncode == 1, done.stderr
    assert "REFUSE-1" in done.stdout
    assert "1. admit A" in done.stdout


def test_the_toy_conforms_once_it_checks_before_it_takes(tutorial: Path) -> None:
    toy = (tutorial / "toy.py").read_text()
    broken = "        new_blocks = []\n"
    checks_first = (
        "        missing = -(-num_tokens // self.block_size) - len(table)\n"
        "        if missing > len(self.free_blocks):\n"
        "            return None\n"
    )
    assert toy.count(broken) == 1
    (tutorial / "toy.py").write_text(toy.replace(broken, checks_first + broken))
    done = slotproof("verify", "my_adapter:ToyAdapter", "--steps", "4000", folder=tutorial)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_specification_is_an_oracle_in_three_lines() -> None:
    example = block_with("python", "from slotproof.spec import")
    statements = [line for line in example.splitlines() if line and not line.startswith("from")]
    assert len(statements) == 3
    exec(example, {})


def test_the_scheduler_change_shows_the_trace_that_is_printed(tmp_path: Path) -> None:
    (tmp_path / "my_change.py").write_text(block_with("python", "def look_further"))
    done = slotproof("diff", "fcfs", "my_change:NEW", "--world", "endless", "--html", "trace.html", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    (shown,) = re.findall(r"```\n(SCHED-6 broken by.*?)```", README, re.DOTALL)
    assert [line for line in shown.splitlines() if line not in done.stdout.splitlines()] == ["  …"]
    assert (tmp_path / "trace.html").is_file()


def test_the_allocator_does_what_the_page_says() -> None:
    exec(block_with("python", "from slotproof.impl import"), {})


def test_the_hypothesis_example_is_a_test_case(tutorial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tutorial)
    monkeypatch.syspath_prepend(str(tutorial))
    names: dict[str, object] = {}
    exec(block_with("python", "state_machine"), names)
    assert isinstance(names["TestToy"], type)


def test_the_gates_settings_are_taken(tutorial: Path) -> None:
    settings = block_with("toml", "tool.slotproof")
    assert set(tomllib.loads(settings)["tool"]["slotproof"]) == {"target", "groups", "seed", "steps", "deviations"}
    (tutorial / "pyproject.toml").write_text(settings.replace('"full", "window:32", "full,window"', '"full"'))
    (tutorial / "known_deviations.json").write_text("[]")
    done = slotproof("verify", "--json", folder=tutorial)
    assert done.returncode == 1, done.stderr
    assert '"my_adapter:ToyAdapter"' in done.stdout


def test_the_pages_count_the_laws_and_name_vectors_and_files_that_exist() -> None:
    assert f"against {len(LAWS)} laws" in README
    assert f"walks {DEFAULT_STEPS:,} steps" in README
    assert f"every state of {len(WORLDS)} small worlds" in README
    lessons = ARCHITECTURE.split("## What real vLLM taught us")[1].split("## How to add")[0]
    vectors = set(re.findall(r"\(`([a-z0-9-]+)`\)", lessons))
    assert len(vectors) >= 6
    assert vectors <= {vector_file.stem for vector_file in (ROOT / "conformance" / "vectors").glob("*.json")}
    files = re.findall(r"`((?:spec|impl|conformance|\.ci)/[\w./-]+\w)`", README + ARCHITECTURE)
    assert [name for name in files if not (ROOT / name).exists()] == []

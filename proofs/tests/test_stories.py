"""The vectors of the paths: each is a vector, comes out as the proofs say, and is followed by the implementations."""

import importlib.util
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slotproof.conformance.deviations import shipped_deviations
from slotproof.conformance.targets.registry import load_target
from slotproof.conformance.vector import Mismatch, Vector, not_for, parse_vector, run_vector
from slotproof.proofs import stories
from slotproof.proofs.stories import GROUPS, vectors_of
from slotproof.spec import admission

IMPL = load_target("impl")


def parsed(document: dict[str, Any]) -> Vector:
    return parse_vector(json.dumps(document), document["name"])


@pytest.fixture
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stories in which nothing happens to A, in a pool of two usable blocks."""
    monkeypatch.setattr(stories, "MIDDLES", stories.MIDDLES[:1])
    monkeypatch.setattr(stories, "USABLE", 2)
    monkeypatch.setattr(stories, "PROMPTS", {"A": 3, "B": 3})


@pytest.mark.usefixtures("shorter")
def test_each_path_of_a_shorter_story_is_followed_by_the_implementation() -> None:
    vectors = [parsed(document) for document in vectors_of("full")]
    assert len({vector.name for vector in vectors}) == len(vectors) > 40
    answers = {step.expect["answer"] is None for vector in vectors for step in vector.steps}
    assert answers == {True, False}
    assert follow(vectors) == len(vectors)


@pytest.mark.usefixtures("shorter")
def test_a_specification_that_counts_otherwise_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a step need of one block too many while the paths are taken, then the implementation answers otherwise."""
    need = admission.step_need
    monkeypatch.setattr(admission, "step_need", lambda *arguments: need(*arguments) + 1)
    vectors = [parsed(document) for document in vectors_of("full")]
    monkeypatch.setattr(admission, "step_need", need)
    with pytest.raises(Mismatch, match="answer is"):
        follow(vectors)


def follow(vectors: Iterable[Vector], adapter: Any = IMPL) -> int:
    """Run vectors on an adapter that can be asked about them, past what is known of it; how many these are."""
    asked = [vector for vector in vectors if not_for(adapter, vector) is None]
    deviations = shipped_deviations(adapter.profile.name)
    for vector in asked:
        run_vector(adapter, vector, deviations=deviations)
    return len(asked)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", GROUPS)
def test_every_path_is_followed_by_the_implementation(kinds: str) -> None:
    number = follow(map(parsed, vectors_of(kinds)))
    print(f"{number} paths with {kinds} groups")
    assert number > 1000


@pytest.fixture(scope="module")
def vllm() -> Iterator[Any]:
    python = os.environ.get("SLOTPROOF_VLLM_PYTHON")
    if python is None and importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not here: run .ci/vllm-env VERSION DIR and set SLOTPROOF_VLLM_PYTHON=DIR/python-VERSION")
    adapter: Any = load_target("vllm" if python is None else f"vllm@{python}")
    yield adapter
    if python is not None:
        adapter.close()


@pytest.mark.thirdparty
@pytest.mark.parametrize("kinds", GROUPS[:2])
def test_every_path_is_followed_by_vllm(kinds: str, vllm: Any) -> None:
    number = follow(map(parsed, vectors_of(kinds)), vllm)
    print(f"{number} paths with {kinds} groups")
    assert number > 500


def test_they_are_written_one_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories, "GROUPS", ("full", "window:3"))
    monkeypatch.setattr(
        stories, "vectors_of", lambda kinds: iter([{"name": f"{kinds[:4]}-{place}"} for place in (0, 1)])
    )
    assert stories.write_vectors(tmp_path) == 4
    assert json.loads((tmp_path / "wind-1.json").read_text()) == {"name": "wind-1"}

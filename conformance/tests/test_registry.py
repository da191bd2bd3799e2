"""Every way to name a target, and the sentence for every way to get it wrong."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotproof.conformance.adapter import Profile
from slotproof.conformance.errors import AdapterError, SetupError
from slotproof.conformance.targets import registry
from slotproof.conformance.targets.registry import FORMS, TARGETS, load_target

MINE = """
from slotproof.conformance.adapter import Profile


class Mine:
    profile = Profile(name="mine")

    def reset(self, config): ...
    def allocate_slots(self, request, num_new_tokens): ...
    def free(self, request): ...
    def block_table(self, request): ...
    def num_free_blocks(self): ...


class Partial:
    profile = Profile(name="partial")

    def reset(self, config): ...
    def free(self, request): ...


class Unprofiled(Mine):
    profile = {"name": "a dict"}


def needs_an_argument(path):
    return Mine()


number = 5
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory with modules of the user's; what they put into the import system goes again."""
    (tmp_path / "my_allocator.py").write_text(MINE)
    (tmp_path / "my_needy.py").write_text("import no_such_library\n")
    (tmp_path / "my_broken.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in ("my_allocator", "my_needy", "my_broken"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("here")
def test_a_factory_in_the_current_directory() -> None:
    assert load_target("my_allocator:Mine").profile == Profile(name="mine")


@pytest.mark.usefixtures("here")
def test_a_factory_in_another_environment() -> None:
    assert load_target(f"my_allocator:Mine@{sys.executable}").profile == Profile(name="mine")


def test_every_named_target_has_a_line_and_an_adapter() -> None:
    assert TARGETS.keys() == registry._ADAPTERS.keys()
    assert all(line and "\n" not in line for line in [*TARGETS.values(), *FORMS.values()])


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        (
            "vlm",
            SetupError,
            "There is no target 'vlm'; use impl, reference, vllm, vllm-scheduler, nano-vllm, module:factory, "
            "exec:command or NAME@/path/to/python.",
        ),
        (
            "vllm=0.31",
            SetupError,
            "The target vllm takes nothing behind '=', but '0.31' was given; write vllm alone.",
        ),
        (
            "exec:",
            SetupError,
            "The target 'exec:' names no command; write exec:command, for example exec:./my-allocator.",
        ),
        ("vllm@", SetupError, "The target 'vllm@' is incomplete; write NAME@/path/to/python."),
        (
            "vllm@/no/such/python",
            SetupError,
            "There is no program '/no/such/python' to run the target 'vllm' with; give the path of a Python.",
        ),
        (
            "my_alocator:Mine",
            SetupError,
            "There is no module 'my_alocator' for the target 'my_alocator:Mine', neither installed nor in HERE; "
            "check the spelling, or run from the folder that holds it.",
        ),
        (
            "my_allocator:Yours",
            SetupError,
            "The module 'my_allocator' has no 'Yours'; "
            "name a callable of it that returns an adapter, as module:factory.",
        ),
        (
            "my_needy:Mine",
            AdapterError,
            "The module 'my_needy' of the target 'my_needy:Mine' needs the module 'no_such_library', which is missing; "
            "install it, or name the Python of an environment that has it, as NAME@/path/to/python.",
        ),
        (
            "my_broken:Mine",
            AdapterError,
            "The module 'my_broken' of the target 'my_broken:Mine' cannot be imported, it raises ZeroDivisionError: "
            "division by zero; repair it first.",
        ),
        (
            "my_allocator:number",
            AdapterError,
            "'my_allocator:number' is a int, not a callable; name a class or a function that returns an adapter.",
        ),
        (
            "my_allocator:needs_an_argument",
            AdapterError,
            "The target 'my_allocator:needs_an_argument' could not be made, its factory raised TypeError: "
            "needs_an_argument() missing 1 required positional argument: 'path'; "
            "it is called without arguments and must return an adapter.",
        ),
        (
            "my_allocator:Partial",
            AdapterError,
            "The target 'my_allocator:Partial' is a Partial without allocate_slots, block_table, num_free_blocks; "
            "an adapter has reset, allocate_slots, free, block_table, num_free_blocks and a profile.",
        ),
        (
            "my_allocator:Unprofiled",
            AdapterError,
            "The profile of the target 'my_allocator:Unprofiled' is a dict; "
            "set it to a slotproof.conformance.adapter.Profile.",
        ),
        (
            "nano-vllm=no_such_fork",
            SetupError,
            "The nano-vllm target needs a module 'no_such_fork', which PYTHON cannot find; "
            "install one, for example with `pip install --no-deps nano-vllm-voxcpm==2.0.5` and `pip install xxhash`, "
            "or name a checkout as nano-vllm=/path/to/checkout.",
        ),
        (
            "nano-vllm=./",
            SetupError,
            "There is no engine/block_manager.py in HERE nor one folder below; give the root of a nano-vllm checkout.",
        ),
    ],
)
def test_sentences(here: Path, name: str, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(SetupError) as caught:
        load_target(name)
    assert type(caught.value) is kind
    assert str(caught.value) == sentence.replace("HERE", str(here)).replace("PYTHON", sys.executable)


@pytest.mark.usefixtures("here")
def test_a_mistake_in_the_other_environment_is_told_as_one() -> None:
    with pytest.raises(
        SetupError, match=f"In my_allocator:Partial@{sys.executable}: The target 'my_allocator:Partial' is"
    ):
        load_target(f"my_allocator:Partial@{sys.executable}")

"""The specification is pure: what its source may contain, and that no operation changes what it was given."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import slotproof.spec
from slotproof.conformance.actions import Action
from slotproof.conformance.driver import SeededChooser
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.subject import ALLOCATOR
from slotproof.conformance.targets.reference import PROFILE, ReferenceAdapter
from slotproof.spec import Snapshot

SPEC = Path(slotproof.spec.__file__).parent
FILES = sorted([*SPEC.glob("*.py"), *SPEC.glob("predicates/*.py"), *SPEC.glob("scheduler/*.py")])
POOL_FILES = [
    SPEC / f"{name}.py" for name in ("admission", "copies", "groups", "lookup", "parts", "pool", "release", "snapshot")
]
WITH_CACHED_PROPERTIES = {"AllocationFacts", "Transition"}
"""The laws' views of a step; a cached property needs a place that slots do not give."""
MUTATING = {"add", "clear", "extend", "insert", "pop", "remove", "setdefault", "sort", "update"}
"""Methods of lists, sets and dictionaries; `append` is a table's own, which returns a new one."""


def ids_of(file: Path) -> str:
    return str(file.relative_to(SPEC))


every_file = pytest.mark.parametrize("file", FILES, ids=ids_of)


def nodes_of(file: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(file.read_text(encoding="utf-8")))


def at(file: Path, node: ast.AST) -> str:
    return f"{ids_of(file)}:{getattr(node, 'lineno', 0)}: {ast.unparse(node).splitlines()[0]}"


@every_file
def test_only_the_standard_library_and_the_specification_are_imported(file: Path) -> None:
    modules = [
        name
        for node in nodes_of(file)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    ]
    allowed = {*sys.stdlib_module_names, "slotproof"}
    assert [name for name in modules if name.split(".")[0] not in allowed] == []
    assert [name for name in modules if name.startswith("slotproof") and not name.startswith("slotproof.spec")] == []


@pytest.mark.parametrize("file", POOL_FILES, ids=ids_of)
def test_a_loop_statement_beside_a_pool_only_requires_things(file: Path) -> None:
    """All other loops are `repeat` and `foreach`, which the proofs replace."""

    def only_requires(loop: ast.For | ast.While) -> bool:
        return isinstance(loop, ast.For) and all(
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and ast.unparse(statement.value.func) == "require"
            for statement in loop.body
        )

    loops = [node for node in nodes_of(file) if isinstance(node, ast.For | ast.While)]
    assert [at(file, loop) for loop in loops if not only_requires(loop)] == []


@every_file
def test_dataclasses_are_frozen_and_slotted(file: Path) -> None:
    decorated = {
        node.name: ast.unparse(decorator)
        for node in nodes_of(file)
        if isinstance(node, ast.ClassDef)
        for decorator in node.decorator_list
    }
    due = {
        name: "dataclass(frozen=True)" if name in WITH_CACHED_PROPERTIES else "dataclass(frozen=True, slots=True)"
        for name in decorated
    }
    assert decorated == due


@every_file
def test_no_attribute_is_assigned_and_nothing_is_global(file: Path) -> None:
    """But for an exception's own name."""
    changed = [
        at(file, node)
        for node in nodes_of(file)
        if isinstance(node, ast.Global | ast.Nonlocal)
        or (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del))
    ]
    assert [place for place in changed if not place.endswith(": self.name")] == []


@every_file
def test_object_setattr_is_used_by_a_value_on_itself_only(file: Path) -> None:
    calls = [ast.unparse(node) for node in nodes_of(file) if isinstance(node, ast.Call)]
    setters = [call for call in calls if "setattr" in call]
    assert [call for call in setters if not call.startswith("object.__setattr__(self, ")] == []


@every_file
def test_no_argument_is_changed(file: Path) -> None:
    """A function may fill a list or dictionary of its own, and nothing it was given."""
    for function in (node for node in nodes_of(file) if isinstance(node, ast.FunctionDef)):
        arguments = {argument.arg for argument in function.args.args}
        filled = [node.value for node in ast.walk(function) if isinstance(node, ast.Subscript) and changes(node)]
        called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
        filled += [method.value for method in called if isinstance(method, ast.Attribute) and method.attr in MUTATING]
        assert [at(file, node) for node in filled if ast.unparse(node).split(".")[0] in arguments] == []


def changes(node: ast.Subscript) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


class Remembering(ReferenceAdapter):
    """The specification behind its adapter; it keeps every snapshot, and what each one was when it was new."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Snapshot, str]] = []

    def _move_to(self, snapshot: Snapshot) -> None:
        super()._move_to(snapshot)
        self.seen.append((snapshot, repr(snapshot.key())))


@pytest.mark.parametrize("groups", ["full", "window", "full,window"])
def test_no_operation_changes_a_snapshot_it_was_given(groups: str) -> None:
    seed = f"purity:{groups}"
    print("seed", seed)
    chooser, adapter = SeededChooser(seed), Remembering()
    session = Session(adapter, Settings(groups=groups).draw(chooser, PROFILE), Tally.fresh(), law_ids=("POOL-4",))
    done: list[Action] = []
    while len(done) < 300:
        verb = chooser.pick(ALLOCATOR.deck(session.config))
        arguments = verb.propose(session, chooser)
        if arguments is not None:
            done.append(Action(verb.name, arguments))
            verb.run(session, arguments)
    assert len(adapter.seen) > 100
    assert [repr(snapshot.key()) for snapshot, _ in adapter.seen] == [when_new for _, when_new in adapter.seen]

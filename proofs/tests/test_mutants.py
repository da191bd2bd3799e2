"""Which mutants exist: each mutator makes what it claims, and installing a mutant changes what everybody runs."""

import ast
from collections import Counter
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from types import CodeType
from typing import Any

import pytest
import z3

from slotproof.proofs.engine import Int, current_run, explore, term_of
from slotproof.proofs.mutants import (
    MUTATORS,
    SYMMETRIC,
    Mutant,
    function_of,
    install,
    mutants_in,
    signatures_in,
    specification_mutants,
)
from slotproof.spec import admission, arithmetic, pool
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention
from slotproof.spec.pool import Pool
from slotproof.spec.snapshot import nothing_held

MUTANTS = {mutant.id: mutant for mutant in specification_mutants()}


def mutants_of(source: str, kind: str = "") -> list[Mutant]:
    signatures = signatures_in(ast.parse(source))
    return [one for one in mutants_in("small", source, "small.py", signatures) if kind in ("", one.kind)]


def changes(source: str, kind: str) -> list[str]:
    return [mutant.change for mutant in mutants_of(source, kind)]


PIN = """
class Pool:
    def with_ref(self, block: int, ref: int) -> "Pool": ...
    def ref(self, block: int) -> int: ...

def pin(block: int, pool: Pool) -> Pool:
    if pool.ref(block) == 0:
        pool = pool.unqueue(block)
    check(pool)
    return pool.with_ref(block, 1)
"""

SMALL: dict[str, tuple[str, list[str]]] = {
    "compare": ("def f(a, b): return a < b == 0", ["a < b == 0  ->  a <= b == 0", "a < b == 0  ->  a < b != 0"]),
    "arithmetic": (
        "def f(a, b): return (a + b) // 2 + len((a,) + (b,))",
        [
            "(a + b) // 2 + len((a,) + (b,))  ->  (a + b) // 2 - len((a,) + (b,))",
            "(a + b) // 2  ->  (a + b) * 2",
            "a + b  ->  a - b",
        ],
    ),
    "constant": ("def f(a): return (7, True, None, 'x')", ["7  ->  8", "True  ->  False"]),
    "connective": ("def f(a, b): return a and b", ["a and b  ->  a or b"]),
    "conjunct": (
        "def f(a, b, c): return a or b or c",
        ["a or b or c  ->  b or c", "a or b or c  ->  a or c", "a or b or c  ->  a or b"],
    ),
    "extreme": (
        "def f(a): return imin(a, imax(a, 0))",
        ["imin(a, imax(a, 0))  ->  max(a, imax(a, 0))", "imax(a, 0)  ->  min(a, 0)"],
    ),
    "step": (
        PIN,
        [
            "if pool.ref(block) == 0: pool = pool.unqueue(block)  ->  pass",
            "check(pool)  ->  pass",
            "pool.with_ref(block, 1)  ->  pool",
        ],
    ),
    "loop": (
        "def f(items, state):\n for item in items:\n  g(item)\n return foreach(items, h, state)",
        ["for item in items: g(item)  ->  pass", "foreach(items, h, state)  ->  state"],
    ),
    "negation": (
        "def f(a, b): return [a for a in b if a < 1] if not a else 0",
        ["not a  ->  a", "a < 1  ->  not a < 1"],
    ),
    "return": (
        "def f(a, b):\n if a: return b\n return b if b else a",
        [
            "if a: return b  ->  pass",
            "a  ->  True",
            "b if b else a  ->  b",
            "b if b else a  ->  a",
        ],
    ),
    "arguments": (
        "def g(a: int, b: str, c: int): ...\ndef f(a, b): return g(a, b, b) + g(a, b, a)",
        ["g(a, b, b)  ->  g(b, b, a)"],
    ),
    "field": (
        "def f(call): return call.num_new_tokens",
        [
            "call.num_new_tokens  ->  call.num_lookahead_tokens",
            "call.num_new_tokens  ->  call.num_external_computed_tokens",
        ],
    ),
}


@pytest.mark.parametrize("kind", MUTATORS)
def test_each_mutator_makes_what_it_claims(kind: str) -> None:
    source, due = SMALL[kind]
    assert changes(source, kind) == due


def test_a_replaced_value_loses_one_update_at_a_time() -> None:
    source = "def f(request): return replace(request, status=0, drafts=())"
    assert changes(source, "step") == [
        "replace(request, status=0, drafts=())  ->  replace(request, drafts=())",
        "replace(request, status=0, drafts=())  ->  replace(request, status=0)",
    ]


@pytest.mark.parametrize(
    "source",
    [
        "def f(a: int = 3) -> 'int':\n '''one 1'''\n return a",
        "def f(a):\n if a < 1: raise ValueError(f'{a + 1}')\n return a",
        "class C:\n x: int = 3\n def __post_init__(self): self.x = 1 + 1",
        "LIMIT = 3",
        "def f(scan):\n return ceil(hit.num_tokens)",
    ],
)
def test_what_decides_nothing_is_left_alone(source: str) -> None:
    assert mutants_of(source) == []


def test_two_changes_that_come_to_one_thing_are_one_mutant() -> None:
    source = "def f(a, state):\n if a != 0:\n  state = foreach(a, a, state)\n return state"
    kinds = Counter(mutant.kind for mutant in mutants_of(source))
    assert kinds == {"step": 1, "compare": 1, "constant": 1}


def test_every_kind_occurs_in_the_specification() -> None:
    assert len(MUTANTS) == len(specification_mutants()) >= 200
    assert {mutant.kind for mutant in MUTANTS.values()} == set(MUTATORS)
    assert not {"laws", "transition", "__init__"} & {mutant.module for mutant in MUTANTS.values()}
    assert [mutant.change for mutant in specification_mutants()] == [mutant.change for mutant in MUTANTS.values()]


def test_a_mutant_names_the_outermost_function_that_holds_it() -> None:
    mutant = MUTANTS["admission.idle_hits:1 arithmetic"]
    assert (mutant.module, mutant.function, mutant.change) == ("admission", "idle_hits", "total + 1  ->  total - 1")
    assert MUTANTS["groups.SlidingWindow.longest_hit:1 compare"].function == "SlidingWindow.longest_hit"


def test_every_mutant_fits_the_function_it_changes() -> None:
    def form(code: CodeType) -> tuple[object, ...]:
        return code.co_filename, code.co_firstlineno, code.co_freevars, code.co_varnames[: code.co_argcount]

    for mutant in MUTANTS.values():
        function = function_of(mutant)
        assert function.__qualname__ == mutant.function
        assert form(function.__code__) == form(mutant.code), mutant.id


def in_a_child(work: Callable[[], object]) -> object:
    context = get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put(work()))
    child.start()
    child.join()
    assert child.exitcode == 0
    return answers.get()


CONFIG = Config(num_blocks=5, groups=(FullAttention(2),), max_model_len=8, max_in_flight_tokens=8)

INSTALLED: dict[str, tuple[Callable[[], object], object, object]] = {
    "arithmetic.blocks_missing:1 constant": (lambda: admission.blocks_missing(2, 5, 0), 0, 1),
    "pool.pin_block:2 constant": (lambda: pool.pin_block(1, Pool.fresh(3)).refs, (0, 1, 0), (0, 2, 0)),
    "pool.Pool.fresh:2 constant": (lambda: Pool.fresh(3).queue, (1, 2), (2,)),
    "snapshot.nothing_held:1 constant": (lambda: nothing_held(2).cached, (0, 0), (1, 1)),
    "config.Config.usable_blocks:1 constant": (lambda: CONFIG.usable_blocks, 4, 3),
}
"""A function that another module has imported, a step, a class method, a cached function, a property."""


@pytest.mark.parametrize("name", INSTALLED)
def test_an_installed_mutant_is_what_everybody_runs_and_stays_in_its_process(name: str) -> None:
    run, before, after = INSTALLED[name]

    def mutated() -> object:
        install(MUTANTS[name])
        return run()

    assert run() == before
    assert in_a_child(mutated) == after
    assert run() == before


def test_arguments_called_symmetric_are() -> None:
    for name, pairs in SYMMETRIC.items():
        function = getattr(arithmetic, name)
        symbols = [Int(z3.Int(f"x{number}")) for number in range(function.__code__.co_argcount)]
        positive = tuple(symbol.term > 0 for symbol in symbols)
        for one, other in pairs:
            swapped = list(symbols)
            swapped[one], swapped[other] = symbols[other], symbols[one]

            assert explore(partial(oblige_equal, function, symbols, swapped), positive)


def oblige_equal(function: Callable[..., Any], one: list[Int], other: list[Int]) -> None:
    current_run().oblige(term_of(function(*one)) == term_of(function(*other)), "the order is no matter")

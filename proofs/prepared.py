"""Prepares the specification for symbolic values: what is put in the place of which of its names while a proof runs.

Pools, tables, requests and calls are replaced by their stand-ins (`pool`, `bounded`, `table`, `values`, `unbounded`),
the two loops by the loop rule where these have no bound, `require` by a premise, and functions of one result shape by
themselves, explored apart. Everything else that runs is the specification's.
"""

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import CodeType, FrameType, ModuleType
from typing import Any

from slotproof.proofs.engine import Bool, ImpossiblePath, current_run, merged
from slotproof.proofs.loops import foreach_by_induction, repeat_by_induction
from slotproof.proofs.table import SymbolicTable
from slotproof.proofs.unbounded import SymbolicHit
from slotproof.spec import (
    admission,
    arithmetic,
    config,
    copies,
    groups,
    keys,
    lookup,
    loops,
    parts,
    pool,
    preconditions,
    release,
    request,
    snapshot,
)

SPECIFICATION = "slotproof.spec."

MODULES: tuple[ModuleType, ...] = (
    admission,
    arithmetic,
    config,
    copies,
    groups,
    keys,
    lookup,
    parts,
    pool,
    preconditions,
    release,
    request,
    snapshot,
)
"""Where the specification names what is replaced."""

MERGED: frozenset[Callable[..., Any]] = frozenset(
    {
        arithmetic.imin,
        arithmetic.imax,
        arithmetic.ceil_div,
        arithmetic.slots_needed,
        arithmetic.tokens_to_cache,
        arithmetic.tokens_behind_window,
        arithmetic.window_admission_cap,
        arithmetic.blocks_for_window_hit,
        arithmetic.blocks_missing,
        arithmetic.is_short,
        keys.block_key,
        pool.evict_block,
        admission.watermark_for,
        admission.skipped_blocks,
        admission.new_blocks_needed,
        admission.idle_hits,
        admission.whole_prompt_need,
        admission.step_need,
        admission.free_if_alone,
        admission.never_fits,
        admission.give_keys,
        admission.key_full_blocks,
    }
)
"""Functions whose paths mostly lead to results of one shape: each is explored by itself."""


REQUIRE = preconditions.require
REQUIRE_ADOPTION = preconditions.require_adoption
REQUIRE_USABLE = preconditions.require_usable


def assumed(holds: Bool | bool, _: str) -> None:
    """What `require` becomes: a call that neglects a duty is outside the specification, so a proof goes on without."""
    if isinstance(holds, Bool):
        current_run().assume(holds.term)
        if current_run().is_possible():
            return
    elif holds:
        return
    raise ImpossiblePath


def adoption_assumed(snapshot: Any, request: Any, hit: Any, holding: Any) -> None:
    """`require_adoption`, and for a hit of any length what its making does not say: that nothing is held yet."""
    if isinstance(hit, SymbolicHit):
        for table in holding.tables:
            assumed(table.length == 0, "adopt-before-holding")
        assumed(hit.num_tokens < request.num_tokens, "hit-is-whole-blocks")
    else:
        REQUIRE_ADOPTION(snapshot, request, hit, holding)


def blocks_assumed(snapshot: Any, blocks: Any) -> None:
    """`require_usable`; what blocks any number of them are is said by their making."""
    if not isinstance(blocks, SymbolicTable):
        REQUIRE_USABLE(snapshot, blocks)


@contextmanager
def the_specification_prepared(digests: dict[str, str]) -> Iterator[None]:
    """Merge, use the loop rule and presume the preconditions; note a digest of every function that is called."""
    replacements: list[tuple[Any, Any]] = [
        (loops.repeat, repeat_by_induction),
        (loops.foreach, foreach_by_induction),
        (preconditions.require, assumed),
        (preconditions.require_adoption, adoption_assumed),
        (preconditions.require_usable, blocks_assumed),
        *[(function, noting(merged(function), digests)) for function in MERGED],
    ]
    replaced = {old for old, _ in replacements}
    replacements += [(one, noting(one, digests)) for one, _ in the_code() if one not in replaced and is_specified(one)]
    with ExitStack() as stack:
        for module in MODULES:
            stack.enter_context(with_replaced(module, replacements))
        yield


@contextmanager
def duties_checked() -> Iterator[None]:
    """Inside of a preparation, presume no precondition: a call that neglects a duty raises, as it does outside."""
    duties = [(assumed, REQUIRE), (adoption_assumed, REQUIRE_ADOPTION), (blocks_assumed, REQUIRE_USABLE)]
    with ExitStack() as stack:
        for module in MODULES:
            stack.enter_context(with_replaced(module, duties))
        yield


@contextmanager
def with_replaced(module: ModuleType, replacements: Iterable[tuple[Any, Any]]) -> Iterator[None]:
    """Put the second of each pair wherever the module names the first."""
    before = {name: (value, new) for name, value in vars(module).items() for old, new in replacements if value is old}
    for name, (_, new) in before.items():
        setattr(module, name, new)
    try:
        yield
    finally:
        for name, (old, _) in before.items():
            setattr(module, name, old)


def is_specified(function: Callable[..., Any]) -> bool:
    """Whether a function is the specification's own."""
    return function.__module__.startswith(SPECIFICATION)


def noting(function: Callable[..., Any], digests: dict[str, str]) -> Callable[..., Any]:
    """The function; each call notes a digest of its source."""
    code = inspect.unwrap(function).__code__

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        note_source(function.__module__, code, digests)
        return function(*arguments, **named)

    return call


def note_source(module: str, code: CodeType, digests: dict[str, str]) -> None:
    """Note a digest of the source of a function of the specification."""
    name = f"{module.removeprefix(SPECIFICATION)}.{code.co_qualname}"
    if name not in digests and not code.co_filename.startswith("<"):
        digests[name] = hashlib.sha256(inspect.getsource(code).encode()).hexdigest()[:16]


@contextmanager
def sources_noted(digests: dict[str, str]) -> Iterator[None]:
    """Note the source of everything of the specification that is executed meanwhile, methods too."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith(SPECIFICATION):
            note_source(module, frame.f_code, digests)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def the_code() -> tuple[Any, ...]:
    """Every function of the specification with its code, as it is now: what a proof's result depends on."""
    functions = [value for module in MODULES for value in vars(module).values() if inspect.isfunction(value)]
    classes = [value for module in MODULES for value in vars(module).values() if inspect.isclass(value)]
    methods = [
        getattr(member, "fget", member)
        for kind in classes
        if kind.__module__.startswith(SPECIFICATION)
        for member in vars(kind).values()
    ]
    return tuple((one, one.__code__) for one in (*functions, *methods) if inspect.isfunction(one))

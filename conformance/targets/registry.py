"""From the name of a target to its adapter."""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, cast

from slotproof.conformance.adapter import Adapter, Profile
from slotproof.conformance.bare import Bare
from slotproof.conformance.errors import AdapterError, SetupError
from slotproof.conformance.scheduler_adapter import SchedulerAdapter

TARGETS: dict[str, str] = {
    "impl": "slotproof's own allocator (the default)",
    "reference": "the specification itself behind the adapter",
    "vllm": "vLLM's KVCacheManager, 0.24.0 or later",
    "vllm-scheduler": "vLLM's Scheduler and AsyncScheduler, 0.26.0 or later; vllm-scheduler=REPAIR,… applies repairs",
    "nano-vllm": "the block manager of nano-vllm or a fork of it; nano-vllm=IMPORT_NAME or nano-vllm=/path/to/checkout",
}
"""The targets that have a name, and what each one is."""

FORMS: dict[str, str] = {
    "module:factory": "what a callable without arguments returns; the current directory is importable",
    "exec:command": "a child process that speaks the JSON-lines protocol of slotproof.conformance.remote",
    "NAME@/path/to/python": "any of these but exec: in the environment of another Python",
}
"""The other ways to name a target."""

_ADAPTERS = {
    "impl": ("slotproof.conformance.targets.impl", "ImplAdapter"),
    "reference": ("slotproof.conformance.targets.reference", "ReferenceAdapter"),
    "vllm": ("slotproof.conformance.targets.vllm", "VllmAdapter"),
    "vllm-scheduler": ("slotproof.conformance.targets.vllm_scheduler", "VllmSchedulerAdapter"),
    "nano-vllm": ("slotproof.conformance.targets.nano_vllm", "nano_vllm"),
}

_TAKE_A_CHOICE = ("nano-vllm", "vllm-scheduler")
"""Targets whose name may be followed by = and something."""

_SCHEDULER_CALLS = (
    "reset",
    "add_request",
    "add_input",
    "abort",
    "schedule",
    "update",
    "propose_drafts",
    "reset_prefix_cache",
    "look",
    "take_events",
)
_BARE = {
    "impl": ("slotproof.conformance.targets.impl", "BareImpl"),
    "reference": ("slotproof.conformance.workload.reference", "BareReference"),
    "vllm": ("slotproof.conformance.targets.vllm", "BareVllm"),
}

_REQUIRED_CALLS = ("reset", "allocate_slots", "free", "block_table", "num_free_blocks")


def load_allocator(name: str) -> Adapter:
    """As `load_target`, for what only allocators can be used for.

    Raises:
        SetupError: also when the target is a scheduler.
    """
    adapter = load_target(name)
    if callable(getattr(adapter, "schedule", None)):
        raise SetupError(f"The target {name!r} is a scheduler; this needs an allocator, for example impl or vllm.")
    return cast(Adapter, adapter)


def load_target(name: str) -> Adapter | SchedulerAdapter:
    """The adapter that `name` stands for, started and checked.

    Raises:
        SetupError: when there is no such target or something it needs is missing.
        AdapterError: when it is there but is not an adapter.
    """
    if name.startswith("exec:"):
        return _run_command(name.removeprefix("exec:").strip())
    target, at, python = name.rpartition("@")
    if at:
        return _run_in(target, python)
    bare_name, _, choice = name.partition("=")
    if bare_name in _ADAPTERS:
        return _checked(name, _named(bare_name, choice))
    if ":" in name:
        return _checked(name, _made_by(name))
    raise SetupError(
        f"There is no target {name!r}; use {', '.join(TARGETS)}, module:factory, exec:command or NAME@/path/to/python."
    )


def load_bare(name: str) -> Bare:
    """The implementation of that name without its adapter.

    Raises:
        SetupError: when there is none, or its package is missing.
    """
    if name not in _BARE:
        raise SetupError(f"{name!r} cannot be called without an adapter; use {', '.join(_BARE)}.")
    module, attribute = _BARE[name]
    return cast(Bare, getattr(importlib.import_module(module), attribute)())


def _named(name: str, choice: str) -> object:
    module, attribute = _ADAPTERS[name]
    make = getattr(importlib.import_module(module), attribute)
    if not choice:
        return make()
    if name not in _TAKE_A_CHOICE:
        raise SetupError(f"The target {name} takes nothing behind '=', but {choice!r} was given; write {name} alone.")
    return make(choice)


def _run_command(command: str) -> Adapter | SchedulerAdapter:
    if not command:
        raise SetupError("The target 'exec:' names no command; write exec:command, for example exec:./my-allocator.")
    from slotproof.conformance.remote import start_command

    return start_command(command)


def _run_in(target: str, python: str) -> Adapter | SchedulerAdapter:
    if not target or not python:
        raise SetupError(f"The target {target + '@' + python!r} is incomplete; write NAME@/path/to/python.")
    from slotproof.conformance.remote import start_python

    return start_python(target, python)


def _made_by(name: str) -> object:
    factory = _factory(name)
    try:
        return factory()
    except SetupError:
        raise
    except Exception as error:
        raise AdapterError(
            f"The target {name!r} could not be made, its factory raised {type(error).__name__}: {error}; "
            "it is called without arguments and must return an adapter."
        ) from error


def _factory(name: str) -> Callable[[], object]:
    module_name, _, attribute = name.partition(":")
    factory = getattr(_module(name, module_name), attribute, None)
    if factory is None:
        raise SetupError(
            f"The module {module_name!r} has no {attribute!r}; "
            "name a callable of it that returns an adapter, as module:factory."
        )
    if not callable(factory):
        raise AdapterError(
            f"{name!r} is a {type(factory).__name__}, not a callable; "
            "name a class or a function that returns an adapter."
        )
    return cast("Callable[[], object]", factory)


def _module(name: str, module_name: str) -> Any:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise SetupError(
                f"There is no module {module_name!r} for the target {name!r}, neither installed nor in {here}; "
                "check the spelling, or run from the folder that holds it."
            ) from None
        raise AdapterError(
            f"The module {module_name!r} of the target {name!r} needs the module {error.name!r}, which is missing; "
            "install it, or name the Python of an environment that has it, as NAME@/path/to/python."
        ) from error
    except Exception as error:
        raise AdapterError(
            f"The module {module_name!r} of the target {name!r} cannot be imported, it raises "
            f"{type(error).__name__}: {error}; repair it first."
        ) from error


def _checked(name: str, made: object) -> Adapter | SchedulerAdapter:
    required = _SCHEDULER_CALLS if callable(getattr(made, "schedule", None)) else _REQUIRED_CALLS
    missing = [call for call in required if not callable(getattr(made, call, None))]
    if missing:
        raise AdapterError(
            f"The target {name!r} is a {type(made).__name__} without {', '.join(missing)}; "
            f"an adapter has {', '.join(required)} and a profile."
        )
    profile = getattr(made, "profile", None)
    if not isinstance(profile, Profile):
        raise AdapterError(
            f"The profile of the target {name!r} is a {type(profile).__name__}; "
            "set it to a slotproof.conformance.adapter.Profile."
        )
    return cast(Adapter | SchedulerAdapter, made)

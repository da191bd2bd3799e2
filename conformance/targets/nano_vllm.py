"""The block manager of nano-vllm and of the many forks of it, in both dialects of its interface.

The older dialect looks up and hashes inside `allocate`; the newer one counts hits in `can_allocate` and hashes in
`hash_blocks`, after the forward pass. Only the block manager and the sequence are imported, no engine and no torch.
"""

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotproof.conformance.adapter import BlockIds, Profile, RequestView, Strictness
from slotproof.conformance.errors import SetupError
from slotproof.spec.config import Config

IMPORT_NAMES = ("nanovllm", "nanovllm_voxcpm")
"""Tried in this order when the user names none."""

HOW_TO_GET = (
    "install one, for example with `pip install --no-deps nano-vllm-voxcpm==2.0.5` and `pip install xxhash`, "
    "or name a checkout as nano-vllm=/path/to/checkout"
)


@dataclass(slots=True)
class _Tracked:
    sequence: Any
    slotted_tokens: int = 0
    """Tokens that the last accepted call left with a slot; what is appended later needs `may_append`, once each."""
    hit_tokens: int = 0


class NanoVllmAdapter:
    """The older dialect; every call is the one that nano-vllm's scheduler makes, with its question before it."""

    def __init__(self, module: Any, sequence_class: Any, version: str) -> None:
        self._manager_class = module.BlockManager
        self._sequence_class = sequence_class
        self._manager: Any = None
        self._tracked: dict[str, _Tracked] = {}
        self._block_size = 0
        self.profile = self._profile(module.__name__.partition(".")[0], version)

    def reset(self, config: Config) -> None:
        """There is no null block here, so the pool is as large as what is usable of the suite's."""
        self._block_size = config.block_size
        self._manager = self._manager_class(config.usable_blocks, config.block_size)
        if hasattr(self._sequence_class, "block_size"):
            # Upstream keeps it on the class; forks take it when a sequence is made.
            self._sequence_class.block_size = config.block_size
        self._tracked.clear()

    def allocate_slots(self, request: RequestView, num_new_tokens: int) -> BlockIds | None:
        """All tokens at admission, one token afterwards."""
        tracked = self._synced(request)
        sequence = tracked.sequence
        if not sequence.block_table:
            return self._admit(tracked)
        num_appended = len(sequence) - tracked.slotted_tokens
        if num_appended > 1:
            raise ValueError(
                f"{request.request_id} grew by {num_appended} tokens between two calls; nano-vllm appends one a step"
            )
        num_held = len(sequence.block_table)
        if num_appended and not self._append(tracked):
            return None
        tracked.hit_tokens = 0
        return (tuple(sequence.block_table[num_held:]),)

    def free(self, request: RequestView) -> None:
        """Finished and preempted requests are treated alike."""
        self._manager.deallocate(self._synced(request).sequence)
        del self._tracked[request.request_id]

    def block_table(self, request: RequestView) -> BlockIds:
        """The one group's."""
        tracked = self._tracked.get(request.request_id)
        return (tuple(tracked.sequence.block_table) if tracked else (),)

    def num_free_blocks(self) -> int:
        """Idle cached blocks are in the same queue."""
        return len(self._manager.free_block_ids)

    def hit_tokens(self, request: RequestView) -> int:
        """What `allocate` left in the sequence."""
        return self._tracked[request.request_id].hit_tokens

    def ref_count(self, block_id: int) -> int:
        """0 for a free block."""
        return int(self._manager.blocks[block_id].ref_count)

    def free_queue(self) -> Sequence[int]:
        """First in, first out."""
        return list(self._manager.free_block_ids)

    def snapshot(self) -> object:
        """Queue, blocks, index and tables; the entries of reused blocks are part of the index."""
        return (
            tuple(self._manager.free_block_ids),
            frozenset(self._manager.used_block_ids),
            tuple((block.ref_count, block.hash, tuple(block.token_ids)) for block in self._manager.blocks),
            frozenset(self._manager.hash_to_block_id.items()),
            frozenset(
                (request_id, tuple(tracked.sequence.block_table))
                for request_id, tracked in self._tracked.items()
                if tracked.sequence.block_table
            ),
        )

    def _profile(self, name: str, version: str) -> Profile:
        return Profile(
            name=f"nano-vllm ({name})",
            version=version,
            strictness=Strictness.SAFETY,
            caching=(True,),
            free_orders=("lru",),
            # With block size 1 `may_append` never takes a block.
            block_sizes=(2, 3, 4, 8, 16, 32, 64, 128, 256),
            null_block=None,
            lookup="allocate",
            chunked_prefill=False,
            one_token_decode=True,
            runs_ahead=False,
            unknown_free="ignored",
            notes=(
                "It has no salts and no extra keys: all requests share one cache.",
                "Its index keeps entries of blocks that were reused, so cached_keys is not offered.",
            ),
        )

    def _admit(self, tracked: _Tracked) -> BlockIds | None:
        if not self._allocate(tracked.sequence):
            return None
        tracked.slotted_tokens = len(tracked.sequence)
        tracked.hit_tokens = int(tracked.sequence.num_cached_tokens)
        return (tuple(tracked.sequence.block_table[tracked.hit_tokens // self._block_size :]),)

    def _allocate(self, sequence: Any) -> bool:
        if not self._manager.can_allocate(sequence):
            return False
        self._manager.allocate(sequence)
        return True

    def _append(self, tracked: _Tracked) -> bool:
        if not self._manager.can_append(tracked.sequence):
            return False
        self._manager.may_append(tracked.sequence)
        tracked.slotted_tokens += 1
        return True

    def _synced(self, view: RequestView) -> _Tracked:
        tracked = self._tracked.get(view.request_id)
        if tracked is None:
            tracked = self._tracked[view.request_id] = _Tracked(self._new_sequence(view))
        for token in view.token_ids[len(tracked.sequence) :]:
            tracked.sequence.append_token(token)
        return tracked

    def _new_sequence(self, view: RequestView) -> Any:
        given = {
            "seq_id": view.request_id,
            "token_ids": list(view.token_ids[: view.num_prompt_tokens]),
            "block_size": self._block_size,
        }
        known = inspect.signature(self._sequence_class).parameters
        return self._sequence_class(**{name: value for name, value in given.items() if name in known})


class CommittingNanoVllmAdapter(NanoVllmAdapter):
    """The newer dialect: blocks can be hit once they are computed, and the last token never is."""

    def commit(self, request: RequestView, num_computed_tokens: int) -> None:
        """What nano-vllm's scheduler does after a forward pass, before it appends the sampled token."""
        sequence = self._synced(request).sequence
        sequence.num_scheduled_tokens = num_computed_tokens - sequence.num_cached_tokens
        if sequence.num_scheduled_tokens > 0:
            self._manager.hash_blocks(sequence)
            sequence.num_cached_tokens = num_computed_tokens
        sequence.num_scheduled_tokens = 0

    def _profile(self, name: str, version: str) -> Profile:
        older = super()._profile(name, version)
        flags = {field: getattr(older, field) for field in older.__dataclass_fields__}
        return Profile(**flags | {"keys_at": "commit"})

    def _allocate(self, sequence: Any) -> bool:
        num_hit_blocks = self._manager.can_allocate(sequence)
        if num_hit_blocks < 0:
            return False
        self._manager.allocate(sequence, num_hit_blocks)
        return True


def nano_vllm(choice: str = "") -> NanoVllmAdapter:
    """The adapter for an import name, the path of a checkout, or the first fork that is installed."""
    name = _import_name(choice)
    manager = _import(name, "engine.block_manager")
    sequence_class = _import(name, "engine.sequence").Sequence
    dialect = CommittingNanoVllmAdapter if hasattr(manager.BlockManager, "hash_blocks") else NanoVllmAdapter
    return dialect(manager, sequence_class, _version(name))


def _import_name(choice: str) -> str:
    if "/" in choice or choice == ".":
        return _put_on_path(Path(choice).expanduser().resolve())
    for name in (choice,) if choice else IMPORT_NAMES:
        if importlib.util.find_spec(name) is not None:
            return name
    wanted = f"a module {choice!r}" if choice else f"a module named {' or '.join(IMPORT_NAMES)}"
    raise SetupError(f"The nano-vllm target needs {wanted}, which {sys.executable} cannot find; {HOW_TO_GET}.")


def _put_on_path(checkout: Path) -> str:
    """Make the package in a checkout importable; the path may also be the package itself."""
    managers = [*checkout.glob("engine/block_manager.py"), *checkout.glob("*/engine/block_manager.py")]
    if not managers:
        raise SetupError(
            f"There is no engine/block_manager.py in {checkout} nor one folder below; "
            "give the root of a nano-vllm checkout."
        )
    package = managers[0].parent.parent
    sys.path.insert(0, str(package.parent))
    return package.name


def _import(name: str, module: str) -> Any:
    """Without the package's own `__init__` if that wants torch or a device."""
    try:
        return importlib.import_module(f"{name}.{module}")
    except Exception:
        _bypass_init(name)
    try:
        return importlib.import_module(f"{name}.{module}")
    except ModuleNotFoundError as error:
        raise SetupError(
            f"The nano-vllm target cannot import {name}.{module}: the module {error.name} is missing; "
            f"install it, for example with `pip install {error.name}`."
        ) from error


def _bypass_init(name: str) -> None:
    found = importlib.util.find_spec(name)
    locations = list(found.submodule_search_locations or ()) if found else []
    for loaded in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
        del sys.modules[loaded]
    for package, folder in ((name, ""), (f"{name}.engine", "engine")):
        empty = importlib.machinery.ModuleSpec(package, None, is_package=True)
        empty.submodule_search_locations = [str(Path(location) / folder) for location in locations]
        sys.modules[package] = importlib.util.module_from_spec(empty)


def _version(name: str) -> str:
    for distribution in importlib.metadata.packages_distributions().get(name, ()):
        return importlib.metadata.version(distribution)
    return "unknown"

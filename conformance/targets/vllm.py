"""vLLM's own `KVCacheManager`, unmodified, of whatever version can be imported: 0.24.0 or later.

Only the manager and what it needs is imported; no model, no device and no engine.
"""

import importlib
import importlib.metadata
import inspect
import json
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any

from slotproof.conformance.adapter import NO_HIT, BlockIds, Hit, Profile, RequestView, Strictness
from slotproof.conformance.errors import SetupError
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention, Group, SlidingWindow

HOW_TO_GET = "create an environment with `.ci/vllm-env VERSION DIR` and name the target `vllm@DIR/python-VERSION`"

_MANY = 1 << 30
"""More output tokens than any run samples; vLLM insists on a limit."""


class VllmAdapter:
    """Keeps a real `Request` per request view and passes every call on as vLLM's scheduler does."""

    profile: Profile

    def __init__(self) -> None:
        self._vllm = _import_vllm()
        self._sampling = self._vllm.SamplingParams(max_tokens=_MANY)
        self._requests: dict[str, Any] = {}
        self._lora_requests: dict[tuple[str, ...], Any] = {}
        self._deferred: deque[list[Any]] = deque()
        self._manager: Any = None
        self._pool: Any = None
        self._group_managers: tuple[Any, ...] = ()
        self._block_hasher: Any = None
        self.profile = _profile(self._vllm.version)

    def reset(self, config: Config) -> None:
        """A new manager with a new pool."""
        self._manager = new_manager(self._vllm, config, events=True)
        self._pool = self._manager.block_pool
        self._group_managers = tuple(self._manager.coordinator.single_type_managers)
        self._block_hasher = new_hasher(self._vllm, config)
        self._requests.clear()
        self._deferred.clear()

    def allocate_slots(
        self,
        request: RequestView,
        num_new_tokens: int,
        *,
        hit: Hit = NO_HIT,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,
        full_sequence_must_fit: bool = False,
        reserved_blocks: int = 0,
        has_scheduled_reqs: bool = True,
    ) -> BlockIds | None:
        """The call itself."""
        new_blocks = self._manager.allocate_slots(
            self._synced(request),
            num_new_tokens,
            num_new_computed_tokens=hit.num_tokens,
            new_computed_blocks=self._hit_blocks(hit),
            num_lookahead_tokens=num_lookahead_tokens,
            num_external_computed_tokens=num_external_computed_tokens,
            delay_cache_blocks=delay_cache_blocks,
            full_sequence_must_fit=full_sequence_must_fit,
            reserved_blocks=reserved_blocks,
            has_scheduled_reqs=has_scheduled_reqs,
        )
        return None if new_blocks is None else _block_ids(new_blocks)

    def free(self, request: RequestView) -> None:
        """The request ended."""
        self._manager.free(self._synced(request))
        del self._requests[request.request_id]

    def block_table(self, request: RequestView) -> BlockIds:
        """One tuple a group, all empty when it holds none."""
        return _block_ids(self._manager.get_blocks(request.request_id))

    def num_free_blocks(self) -> int:
        """The length that vLLM keeps, not the one of the walk in `free_queue`."""
        return int(self._pool.get_num_free_blocks())

    def get_computed_blocks(self, request: RequestView) -> Hit:
        """The handle is vLLM's own block object, because it tells its shared empty one apart by identity."""
        blocks, num_tokens, *_ = self._manager.get_computed_blocks(self._synced(request))
        return Hit(int(num_tokens), _block_ids(blocks), blocks)

    def commit(self, request: RequestView, num_computed_tokens: int) -> None:
        """What the scheduler calls when output or loaded blocks arrive."""
        self._manager.cache_blocks(self._synced(request), num_computed_tokens)

    def evict(self, block_ids: Iterable[int]) -> None:
        """Drop keys."""
        self._manager.evict_blocks(set(block_ids))

    def reset_prefix_cache(self) -> bool:
        """Drop all keys, unless a block is held."""
        return bool(self._manager.reset_prefix_cache())

    def preempt(self, request: RequestView) -> None:
        """The part of the scheduler's preemption that the manager and the request see."""
        real = self._synced(request)
        self._manager.free(real)
        real.status = self._vllm.RequestStatus.PREEMPTED
        real.num_computed_tokens = 0
        real.num_preemptions += 1
        real.spec_token_ids = []

    def defer_free(self, request: RequestView) -> None:
        """The scheduler's way of ending a request that a step in flight may still write for."""
        self._deferred.append(self._manager.pop_blocks_for_free(self._synced(request)))
        del self._requests[request.request_id]

    def return_deferred(self) -> None:
        """Tail first, as the manager asks its caller to."""
        self._pool.free_blocks(reversed(self._deferred.popleft()))

    def ref_count(self, block_id: int) -> int:
        """Not kept for the null block; up to 0.32 it drifts there."""
        return int(self._pool.blocks[block_id].ref_cnt)

    def cached_keys(self) -> Sequence[tuple[int, Hashable]]:
        """A walk of the index: one block, or a dict of blocks that is in the order of their insertion, a key."""
        keys: list[tuple[int, Hashable]] = []
        for hash_with_group, found in self._index().items():
            blocks = found.values() if isinstance(found, dict) else (found,)
            key = self._key(
                self._vllm.get_block_hash(hash_with_group),
                self._vllm.get_group_id(hash_with_group),
            )
            keys += [(int(block.block_id), key) for block in blocks]
        return keys

    def free_queue(self) -> Sequence[int]:
        """A walk of the linked list."""
        return [int(block.block_id) for block in self._pool.free_block_queue.get_all_free_blocks()]

    def cached_counts(self, request: RequestView) -> Sequence[int]:
        """One number a group."""
        return [int(manager.num_cached_block.get(request.request_id, 0)) for manager in self._group_managers]

    def snapshot(self) -> object:
        """Queue, counts, keys on the blocks and in the index, tables and counters; an empty table is told from none."""
        return (
            tuple(self.free_queue()),
            self.num_free_blocks(),
            tuple((block.ref_cnt, block.block_hash) for block in self._pool.blocks if not block.is_null),
            tuple(self.cached_keys()),
            tuple(
                tuple(sorted((name, _ids(blocks)) for name, blocks in manager.req_to_blocks.items()))
                for manager in self._group_managers
            ),
            tuple(tuple(sorted(manager.num_cached_block.items())) for manager in self._group_managers),
            tuple(_ids(blocks) for blocks in self._deferred),
        )

    def take_events(self) -> Sequence[tuple[str, Hashable]]:
        """One event of vLLM may name several blocks."""
        return [event for real in self._manager.take_events() for event in self._normal_events(real)]

    def _normal_events(self, event: Any) -> list[tuple[str, Hashable]]:
        if isinstance(event, self._vllm.AllBlocksCleared):
            return [("cleared", "")]
        verb = "stored" if isinstance(event, self._vllm.BlockStored) else "removed"
        return [(verb, self._key(block_hash, event.group_idx)) for block_hash in event.block_hashes]

    def _key(self, block_hash: bytes, group_id: int) -> str:
        return f"{block_hash.hex()}:{group_id}"

    def _index(self) -> dict[bytes, Any]:
        index: dict[bytes, Any] = self._pool.cached_block_hash_to_block._cache
        return index

    def _hit_blocks(self, hit: Hit) -> Any:
        """None for no hit: an empty block object of our own would make the request tracked."""
        if hit.num_tokens == 0:
            return None
        if hit.handle is not None:
            return hit.handle
        # A replayed hit has ids only.
        return self._vllm.KVCacheBlocks(tuple([self._pool.blocks[block] for block in group] for group in hit.blocks))

    def _synced(self, view: RequestView) -> Any:
        """The real request in the state of the view; appending tokens is what makes vLLM hash them."""
        real = self._requests.get(view.request_id)
        if real is None:
            real = self._requests[view.request_id] = self._new_request(view)
        if new_tokens := view.token_ids[real.num_tokens :]:
            real.append_output_token_ids(list(new_tokens))
        real.num_computed_tokens = view.num_computed_tokens
        real.num_in_flight_tokens = view.num_in_flight_tokens
        real.spec_token_ids = list(view.draft_token_ids)
        real.status = self._vllm.RequestStatus[view.status.upper()]
        return real

    def _new_request(self, view: RequestView) -> Any:
        return self._vllm.Request(
            request_id=view.request_id,
            prompt_token_ids=list(view.token_ids[: view.num_prompt_tokens]),
            sampling_params=self._sampling,
            pooling_params=None,
            lora_request=self._lora_request(tuple(view.extra_keys)),
            cache_salt=view.cache_salt,
            block_hasher=self._block_hasher,
        )

    def _lora_request(self, extra_keys: tuple[str, ...]) -> Any:
        """A LoRA adapter's name enters the hash of every block, which is what extra keys are to do."""
        if not extra_keys:
            return None
        if extra_keys not in self._lora_requests:
            self._lora_requests[extra_keys] = self._vllm.LoRARequest(
                lora_name=json.dumps(extra_keys), lora_int_id=len(self._lora_requests) + 1, lora_path="not-loaded"
            )
        return self._lora_requests[extra_keys]


class BareVllm:
    """The manager as vLLM's scheduler holds it, its events off."""

    def __init__(self) -> None:
        self._vllm = _import_vllm()
        self._sampling = self._vllm.SamplingParams(max_tokens=_MANY)
        self._hasher: Any = None
        self.name = "vllm"
        self.version: str = self._vllm.version

    def new_manager(self, config: Config) -> Any:
        """A manager with a new pool; the requests made from now on are hashed for it."""
        self._hasher = new_hasher(self._vllm, config)
        return new_manager(self._vllm, config, events=False)

    def new_request(self, request_id: str, token_ids: Sequence[int]) -> Any:
        """A waiting request, its full blocks hashed."""
        return self._request(request_id, token_ids, self._hasher)

    def new_request_of_keys(self, request_id: str, num_tokens: int, keys: Sequence[int]) -> Any:
        """A waiting request; a number stands for each full block's prefix."""
        hashes = [key.to_bytes(32, "big") for key in keys]
        return self._request(request_id, [0] * num_tokens, lambda request: hashes[len(request.block_hashes) :])

    def num_cached(self, manager: Any) -> int:
        """Blocks that carry a key."""
        return sum(block.block_hash is not None for block in manager.block_pool.blocks)

    def set_running(self, request: Any, num_computed_tokens: int) -> None:
        """What the scheduler notes after an admission."""
        request.status = self._vllm.RequestStatus.RUNNING
        request.num_computed_tokens = num_computed_tokens

    def append(self, request: Any, token_ids: Sequence[int]) -> None:
        """Tokens were sampled."""
        request.append_output_token_ids(list(token_ids))

    def _request(self, request_id: str, token_ids: Sequence[int], hasher: Any) -> Any:
        return self._vllm.Request(
            request_id=request_id,
            prompt_token_ids=list(token_ids),
            sampling_params=self._sampling,
            pooling_params=None,
            block_hasher=hasher,
        )


def new_manager(vllm: Any, config: Config, *, events: bool) -> Any:
    """A `KVCacheManager` with a pool of its own.

    Raises:
        SetupError: when this version does not take the configuration.
    """
    parameters = _known_parameters(
        vllm.KVCacheManager,
        {
            "kv_cache_config": _kv_cache_config(vllm, config),
            "max_model_len": config.max_model_len,
            "scheduler_block_size": config.block_size,
            "hash_block_size": config.block_size,
            "max_in_flight_tokens": config.max_in_flight_tokens,
            # The name of the same bound before 0.26.
            "max_num_batched_tokens": config.max_in_flight_tokens,
            "enable_caching": config.caching,
            "enable_kv_cache_events": events,
            # vLLM takes a fraction and rounds the product down: half a block more survives the floating point.
            "watermark": (config.watermark_blocks + 0.5) / config.num_blocks,
        },
    )
    try:
        return vllm.KVCacheManager(**parameters)
    except (AssertionError, ValueError, NotImplementedError) as error:
        # For example two groups of one kind before 0.26.
        raise SetupError(f"vLLM {vllm.version} does not take this configuration: {error}") from error


def new_hasher(vllm: Any, config: Config) -> Any:
    """What hashes a request's full blocks; None where nothing is cached."""
    return vllm.get_request_block_hasher(config.block_size, vllm.sha256) if config.caching else None


def _kv_cache_config(vllm: Any, config: Config) -> Any:
    groups = [
        vllm.KVCacheGroupSpec([f"layer.{index}"], _spec(vllm, group)) for index, group in enumerate(config.groups)
    ]
    return vllm.KVCacheConfig(num_blocks=config.num_blocks, kv_cache_tensors=[], kv_cache_groups=groups)


def _spec(vllm: Any, group: Group) -> Any:
    shape = {"block_size": group.block_size, "num_kv_heads": 1, "head_size": 1, "dtype": vllm.float32}
    match group:
        case FullAttention():
            return vllm.FullAttentionSpec(**shape)
        case SlidingWindow():
            return vllm.SlidingWindowSpec(**shape, sliding_window=group.window)
        case _:
            raise SetupError(
                f"The vllm target has no counterpart of a {type(group).__name__} group; use full or window groups."
            )


def _import_vllm() -> Any:
    """The names of vLLM that the adapter uses, and its version, in one namespace."""
    names = import_names(_names)
    if "has_scheduled_reqs" not in inspect.signature(names.KVCacheManager.allocate_slots).parameters:
        raise SetupError(f"vLLM {names.version} is older than 0.24.0, where the call is another one; {HOW_TO_GET}.")
    return names


def import_names(load: Callable[[], Any]) -> Any:
    """What `load` imports of vLLM.

    Raises:
        SetupError: when vLLM is not there or cannot be imported.
    """
    _quiet_environment()
    try:
        with redirect_stdout(sys.stderr):
            return load()
    except SetupError:
        raise
    except ModuleNotFoundError as error:
        if error.name == "vllm":
            raise SetupError(
                f"The vllm target needs vLLM, which {sys.executable} cannot import; {HOW_TO_GET}."
            ) from None
        raise SetupError(
            f"vLLM is there but cannot be imported: it needs the module {error.name}, which {sys.executable} lacks; "
            f"{HOW_TO_GET}."
        ) from None
    except Exception as error:
        raise SetupError(
            f"vLLM is there but cannot be imported, it raises {type(error).__name__}: {error}; {HOW_TO_GET}."
        ) from error


def _quiet_environment() -> None:
    os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    # Events then carry the hashes that the index has, not 64 bits of them.
    os.environ["VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES"] = "0"


def _names() -> Any:
    names = SimpleNamespace(
        version=version_of(),
        float32=importlib.import_module("torch").float32,
        **_from("vllm.v1.core.kv_cache_manager", "KVCacheManager", "KVCacheBlocks"),
        **_from("vllm.v1.core.kv_cache_utils", "get_request_block_hasher", "get_block_hash", "get_group_id"),
        **_from("vllm.v1.kv_cache_interface", "KVCacheConfig", "KVCacheGroupSpec"),
        **_from("vllm.v1.kv_cache_interface", "FullAttentionSpec", "SlidingWindowSpec"),
        **_from("vllm.v1.request", "Request", "RequestStatus"),
        **_from("vllm.distributed.kv_events", "AllBlocksCleared", "BlockStored"),
        **_from("vllm.lora.request", "LoRARequest"),
        **_from("vllm.sampling_params", "SamplingParams"),
        **_from("vllm.utils.hashing", "sha256"),
    )
    # Both are done by the engine when it starts.
    importlib.import_module("vllm.v1.core.kv_cache_utils").init_none_hash(names.sha256)
    importlib.import_module("vllm.v1.core.single_type_kv_cache_manager").register_all_kvcache_specs(None)
    # A refused reset is a warning to vLLM and an answer to us.
    logging.getLogger("vllm").setLevel(logging.ERROR)
    return names


def _from(module: str, *names: str) -> dict[str, Any]:
    loaded = importlib.import_module(module)
    return {name: getattr(loaded, name) for name in names}


def version_of() -> str:
    """A source tree on the path has no package metadata, but a version file."""
    version = str(getattr(importlib.import_module("vllm"), "__version__", "dev"))
    if version != "dev":
        return version
    try:
        return importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _profile(version: str) -> Profile:
    notes = ["extra_keys are passed on as the name of a LoRA adapter."]
    runs_ahead = minor(version) >= 26
    if not runs_ahead:
        notes.append("Before 0.26 window blocks are released without regard to tokens in flight, so none are.")
    return Profile(
        name="vllm",
        version=version,
        strictness=Strictness.IDENTITY,
        group_kinds=("full", "window", "hybrid"),
        salts=True,
        free_orders=("unhashed-first",),
        runs_ahead=runs_ahead,
        unknown_free="ignored",
        notes=tuple(notes),
    )


def minor(version: str) -> int:
    """26 for 0.26.1; far ahead for what does not look like a version."""
    parts = version.split(".")
    return int(parts[1]) if len(parts) > 1 and parts[0] == "0" and parts[1].isdigit() else sys.maxsize


def _known_parameters(function: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    known = inspect.signature(function).parameters
    return {name: value for name, value in parameters.items() if name in known}


def _block_ids(blocks: Any) -> BlockIds:
    return tuple(_ids(group) for group in blocks.blocks)


def _ids(blocks: Iterable[Any]) -> tuple[int, ...]:
    return tuple(int(block.block_id) for block in blocks)

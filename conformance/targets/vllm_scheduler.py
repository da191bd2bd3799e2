"""vLLM's own `Scheduler` and `AsyncScheduler`, unmodified, of whatever version can be imported: 0.26.0 or later.

No model, no device and no engine: the configuration of a tiny Llama gives the scheduler what it reads, and everything a
worker would do is done outside. Its steps are rendered as the first generation of vLLM's model runner reads them.
"""

import copy
import importlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from slotproof.conformance.adapter import Profile
from slotproof.conformance.errors import SetupError
from slotproof.conformance.scheduler_adapter import (
    STOP_TOKEN,
    CachedKey,
    Continued,
    EngineConfig,
    Entered,
    KvEvent,
    LoadOrder,
    NewRequest,
    Output,
    Plan,
    RequestState,
    StepResult,
    View,
)
from slotproof.conformance.targets.vllm import HOW_TO_GET, import_names, minor, version_of
from slotproof.conformance.targets.vllm_patches import PATCHES
from slotproof.spec.groups import Group, SlidingWindow

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_attention_heads": 1,
    "num_hidden_layers": 1,
    "num_key_value_heads": 1,
    "vocab_size": 16,
    "max_position_embeddings": 4096,
    "torch_dtype": "float32",
}
"""Enough of a Llama for a configuration."""

BLOCKED = ("WAITING_FOR_REMOTE_KVS", "WAITING_FOR_STREAMING_REQ")


class VllmSchedulerAdapter:
    """One engine core's scheduler at a time; `patches` names repairs of known faults that are applied to it."""

    profile: Profile

    def __init__(self, patches: str = "") -> None:
        self._vllm = import_names(_names)
        self._patches = chosen_patches(patches)
        for name in self._patches:
            PATCHES[name].apply()
        self._base = self._base_config()
        self._scheduler: Any = None
        self._pool: Any = None
        self._plans: dict[int, Any] = {}
        self._num_steps = 0
        self._prefixes: dict[bytes, tuple[int, ...]] = {}
        self._events: list[Any] = []
        self._hasher: Any = None
        self._asynchronous = False
        self._block_size = 1
        self._clock = 0
        self.profile = Profile(
            name="vllm-scheduler",
            version=version_of(),
            group_kinds=("full", "window", "hybrid"),
            free_orders=("unhashed-first",),
            notes=tuple(f"run with the repair {name}: {PATCHES[name].repairs}" for name in self._patches),
        )

    # The engine's calls.

    def reset(self, config: EngineConfig) -> None:
        """A new scheduler with a new pool."""
        vllm_config = self._vllm_config(config)
        pool = config.pool
        groups = [
            self._vllm.KVCacheGroupSpec([f"layer.{index}"], self._spec(group))
            for index, group in enumerate(pool.groups)
        ]
        kv_cache_config = self._vllm.KVCacheConfig(
            num_blocks=pool.num_blocks, kv_cache_tensors=[], kv_cache_groups=groups
        )
        kind = self._vllm.AsyncScheduler if config.asynchronous else self._vllm.Scheduler
        self._scheduler = kind(
            vllm_config=vllm_config,
            kv_cache_config=kv_cache_config,
            structured_output_manager=self._vllm.StructuredOutputManager(vllm_config),
            block_size=pool.block_size,
            hash_block_size=pool.block_size,
        )
        self._scheduler.kv_event_publisher = _Publisher(self._vllm.EventPublisher, self._events).made()
        self._pool = self._scheduler.kv_cache_manager.block_pool
        self._hasher = self._vllm.get_request_block_hasher(pool.block_size, self._hash) if pool.caching else None
        self._asynchronous = config.asynchronous
        self._block_size = pool.block_size
        self._plans.clear()
        self._prefixes.clear()
        self._events.clear()
        self._num_steps = self._clock = 0

    def add_request(self, request: NewRequest) -> None:
        """As the engine core adds it."""
        self._scheduler.add_request(self._request(request))

    def add_input(self, request_id: str, tokens: Sequence[int], max_tokens: int) -> None:
        """A session's next input comes as a request of the same id; one that is not resumable ends the session."""
        more = NewRequest(request_id, tokens or (1,), max_tokens, resumable=bool(tokens))
        self._scheduler.add_request(self._request(more))

    def abort(self, request_id: str) -> None:
        """The client went away."""
        self._scheduler.finish_requests(request_id, self._vllm.RequestStatus.FINISHED_ABORTED)

    def schedule(self) -> Plan:
        """One step, as the worker gets it."""
        output = self._scheduler.schedule()
        self._num_steps += 1
        self._plans[self._num_steps] = output
        cached = output.scheduled_cached_reqs
        return Plan(
            self._num_steps,
            dict(output.num_scheduled_tokens),
            {name: list(drafts) for name, drafts in output.scheduled_spec_decode_tokens.items()},
            [_entered(new) for new in output.scheduled_new_reqs],
            [self._continued(cached, index) for index in range(len(cached.req_ids))],
            sorted(output.finished_req_ids),
            [LoadOrder(*order) for order in getattr(output.kv_connector_metadata, "loads", ())],
        )

    def update(self, number: int, result: StepResult) -> Sequence[Output]:
        """The step's output comes back."""
        scheduler, output = self._scheduler, self._plans.pop(number)
        names = list(output.num_scheduled_tokens)
        real = self._vllm.ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=[list(result.sampled.get(name, ())) for name in names],
            kv_connector_output=self._connector_output(result),
        )
        told = scheduler.update_from_output(output, real)
        return [
            Output(one.request_id, list(one.new_token_ids), "" if one.finish_reason is None else one.finish_reason.name)
            for of_client in told.values()
            for one in of_client.outputs
        ]

    def propose_drafts(self, drafts: Mapping[str, Sequence[int]]) -> None:
        """Synchronous engines tell their scheduler."""
        names = list(drafts)
        self._scheduler.update_draft_token_ids(self._vllm.DraftTokenIds(names, [list(drafts[name]) for name in names]))

    def reset_prefix_cache(self, preempt_running: bool) -> bool:
        """As the engine's utility call."""
        return bool(self._scheduler.reset_prefix_cache(reset_running_requests=preempt_running))

    # What it shows.

    def look(self) -> View:
        """A walk over the scheduler's and the pool's own structures."""
        scheduler, pool = self._scheduler, self._pool
        managers = scheduler.kv_cache_manager.coordinator.single_type_managers
        holders = sorted({name for manager in managers for name, blocks in manager.req_to_blocks.items() if blocks})
        return View(
            requests={name: self._state(request) for name, request in scheduler.requests.items()},
            running=[request.request_id for request in scheduler.running],
            waiting=[request.request_id for request in self._waiting()],
            tables={
                name: [[int(block.block_id) for block in manager.req_to_blocks.get(name, ())] for manager in managers]
                for name in holders
            },
            refs=[0, *(int(block.ref_cnt) for block in pool.blocks[1:])],
            queue=[int(block.block_id) for block in pool.free_block_queue.get_all_free_blocks()],
            num_free=int(pool.get_num_free_blocks()),
            keyed=self._keyed(),
            deferred=[[int(block.block_id) for block in blocks] for _, blocks in scheduler.deferred_frees],
            has_work=bool(scheduler.has_requests()),
        )

    def take_events(self) -> Sequence[KvEvent]:
        """One event of vLLM may name several blocks."""
        events = [event for real in self._events for event in self._normal_events(real)]
        self._events.clear()
        return events

    def _waiting(self) -> list[Any]:
        """Waiting requests in the order in which they are tried: those that hold blocks, then the others, which up to
        0.30 or so stand in two queues, merged under priority.
        """
        scheduler = self._scheduler
        holding = list(getattr(scheduler, "kv_holding_waiting", ()))
        others = [*getattr(scheduler, "skipped_waiting", ()), *scheduler.waiting]
        return holding + (sorted(others) if scheduler.policy.value == "priority" else others)

    def _state(self, request: Any) -> RequestState:
        name = request.status.name
        blocked = name in BLOCKED or getattr(request, "num_stale_output_tokens", 0) > 0
        return RequestState(name, int(request.num_computed_tokens), int(request.num_tokens), blocked)

    def _keyed(self) -> list[CachedKey]:
        keyed = []
        for hash_with_group, found in self._pool.cached_block_hash_to_block._cache.items():
            group, prefix = self._named(hash_with_group)
            blocks = found.values() if isinstance(found, dict) else (found,)
            keyed += [CachedKey(int(block.block_id), group, prefix) for block in blocks]
        return keyed

    def _named(self, hash_with_group: bytes) -> tuple[int, tuple[int, ...]]:
        group = int(self._vllm.get_group_id(hash_with_group))
        return group, self._prefixes[self._vllm.get_block_hash(hash_with_group)]

    def _normal_events(self, event: Any) -> list[KvEvent]:
        if isinstance(event, self._vllm.AllBlocksCleared):
            return [KvEvent("cleared", 0, ())]
        verb = "stored" if isinstance(event, self._vllm.BlockStored) else "removed"
        group = int(event.group_idx or 0)
        return [KvEvent(verb, group, self._prefixes[block_hash]) for block_hash in event.block_hashes]

    def _hash(self, value: Any) -> bytes:
        """vLLM's own hash; what it stands for is written down, so that keys can be read."""
        parent, tokens, _ = value
        digest = bytes(self._vllm.sha256(value))
        self._prefixes[digest] = self._prefixes.get(bytes(parent), ()) + tuple(tokens)
        return digest

    # Translation.

    def _request(self, new: NewRequest) -> Any:
        self._clock += 1
        params = self._vllm.SamplingParams(
            max_tokens=new.max_tokens,
            temperature=0,
            stop_token_ids=[STOP_TOKEN],
            extra_args={"kv_transfer_params": _offer(new)} if new.offer or new.sends else None,
        )
        return self._vllm.Request(
            request_id=new.request_id,
            prompt_token_ids=list(new.prompt),
            sampling_params=params,
            pooling_params=None,
            arrival_time=float(new.arrival or self._clock),
            priority=new.priority,
            block_hasher=self._hasher,
            resumable=new.resumable,
        )

    def _continued(self, cached: Any, index: int) -> Continued:
        name = cached.req_ids[index]
        blocks = cached.new_block_ids[index]
        tokens = cached.all_token_ids.get(name)
        return Continued(
            name,
            int(cached.num_computed_tokens[index]),
            int(cached.num_output_tokens[index]),
            None if blocks is None else [list(group) for group in blocks],
            name in cached.resumed_req_ids,
            None if tokens is None else list(tokens),
        )

    def _connector_output(self, result: StepResult) -> Any:
        if self._scheduler.connector is None:
            return None
        self._scheduler.connector.failed.update(result.failed)
        return self._vllm.KVConnectorOutput(
            finished_sending=set(result.sent) or None,
            finished_recving=set(result.received) or None,
            invalid_block_ids=set(result.invalid_blocks),
        )

    # Configuration.

    def _base_config(self) -> Any:
        """A configuration of vLLM made by its own classes; `reset` exchanges parts of a copy."""
        names = self._vllm
        folder = Path(tempfile.mkdtemp(prefix="slotproof-"))
        (folder / "config.json").write_text(json.dumps(MODEL))
        self._model_folder = str(folder)
        model = names.ModelConfig(model=str(folder), skip_tokenizer_init=True, dtype="float32", max_model_len=64)
        return names.VllmConfig(
            model_config=model,
            scheduler_config=names.SchedulerConfig(max_model_len=64, is_encoder_decoder=False, async_scheduling=False),
            cache_config=names.CacheConfig(block_size=16),
            device_config=names.DeviceConfig("cpu"),
        )

    def _scheduler_config(self, config: EngineConfig) -> Any:
        made = self._vllm.SchedulerConfig(
            max_model_len=config.pool.max_model_len,
            is_encoder_decoder=False,
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            long_prefill_token_threshold=config.long_prefill_token_threshold,
            policy=config.policy,
            async_scheduling=config.asynchronous,
            scheduler_reserve_full_isl=config.reserve_whole_prompt,
            # vLLM takes a fraction and rounds the product down: half a block more survives the floating point.
            watermark=(config.pool.watermark_blocks + 0.5) / config.pool.num_blocks,
        )
        made.disable_hybrid_kv_cache_manager = False
        return made

    def _vllm_config(self, config: EngineConfig) -> Any:
        names = self._vllm
        made = copy.copy(self._base)
        made.model_config = copy.copy(self._base.model_config)
        made.model_config.max_model_len = config.pool.max_model_len
        made.scheduler_config = self._scheduler_config(config)
        made.cache_config = copy.copy(self._base.cache_config)
        made.cache_config.block_size = config.pool.block_size
        made.cache_config.enable_prefix_caching = config.pool.caching
        made.cache_config.num_gpu_blocks = config.pool.num_blocks
        made.kv_events_config = names.KVEventsConfig(enable_kv_cache_events=True, publisher="null")
        made.speculative_config = self._speculative_config(config)
        made.kv_transfer_config = None
        if config.connector:
            made.kv_transfer_config = names.KVTransferConfig(
                kv_connector="OfferedLoads",
                kv_connector_module_path="slotproof.conformance.targets.vllm_connector",
                kv_role="kv_both",
                kv_load_failure_policy=config.connector,
            )
        return made

    def _speculative_config(self, config: EngineConfig) -> Any:
        if not config.num_drafts:
            return None
        shape = {
            "num_speculative_tokens": config.num_drafts,
            "target_model_config": self._base.model_config,
            "target_parallel_config": self._base.parallel_config,
        }
        if config.draft_lookahead:
            return self._vllm.SpeculativeConfig(method="draft_model", model=self._model_folder, **shape)
        return self._vllm.SpeculativeConfig(method="ngram", prompt_lookup_max=2, prompt_lookup_min=1, **shape)

    def _spec(self, group: Group) -> Any:
        shape = {"block_size": group.block_size, "num_kv_heads": 1, "head_size": 1, "dtype": self._vllm.float32}
        if isinstance(group, SlidingWindow):
            return self._vllm.SlidingWindowSpec(**shape, sliding_window=group.window)
        return self._vllm.FullAttentionSpec(**shape)


class _Publisher:
    """Keeps what the scheduler publishes; a subclass of vLLM's publisher, made once that is imported."""

    def __init__(self, base: type, kept: list[Any]) -> None:
        def publish(publisher: Any, events: Any) -> None:
            kept.extend(events.events)

        members = {"publish": publish, "shutdown": lambda publisher: None, "__init__": lambda publisher: None}
        self._kind = type("KeepingPublisher", (base,), members)

    def made(self) -> Any:
        """An instance."""
        return self._kind()


def chosen_patches(names: str) -> tuple[str, ...]:
    """The repairs that are named, separated by commas.

    Raises:
        SetupError: for a name that is not known.
    """
    chosen = tuple(name for name in names.split(",") if name)
    for name in chosen:
        if name not in PATCHES:
            known = ", ".join(PATCHES) or "none"
            raise SetupError(f"The target vllm-scheduler knows no repair {name!r}; there are: {known}.")
    return chosen


def _entered(new: Any) -> Entered:
    tables = [list(group) for group in new.block_ids]
    return Entered(new.req_id, list(new.prompt_token_ids), tables, int(new.num_computed_tokens))


def _offer(new: NewRequest) -> dict[str, Any]:
    offer: dict[str, Any] = {"sends": new.sends}
    return offer | (new.offer._asdict() if new.offer is not None else {})


def _names() -> Any:
    # The steps are rendered for the first generation of the model runner.
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"
    load = importlib.import_module
    kv_cache_utils = load("vllm.v1.core.kv_cache_utils")
    names = SimpleNamespace(float32=load("torch").float32)
    for module, wanted in _MODULES.items():
        vars(names).update({name: getattr(load(module), name) for name in wanted})
    kv_cache_utils.init_none_hash(names.sha256)
    load("vllm.v1.core.single_type_kv_cache_manager").register_all_kvcache_specs(None)
    logging.getLogger("vllm").setLevel(logging.CRITICAL)
    if minor(version_of()) < 26:
        raise SetupError(f"vLLM {version_of()} is older than 0.26.0, whose scheduler is another one; {HOW_TO_GET}.")
    return names


_MODULES = {
    "vllm.config": (
        "CacheConfig",
        "DeviceConfig",
        "KVEventsConfig",
        "KVTransferConfig",
        "ModelConfig",
        "SchedulerConfig",
        "SpeculativeConfig",
        "VllmConfig",
    ),
    "vllm.distributed.kv_events": ("AllBlocksCleared", "BlockStored", "EventPublisher"),
    "vllm.sampling_params": ("SamplingParams",),
    "vllm.utils.hashing": ("sha256",),
    "vllm.v1.core.kv_cache_utils": ("get_block_hash", "get_group_id", "get_request_block_hasher"),
    "vllm.v1.core.sched.async_scheduler": ("AsyncScheduler",),
    "vllm.v1.core.sched.scheduler": ("Scheduler",),
    "vllm.v1.kv_cache_interface": ("FullAttentionSpec", "KVCacheConfig", "KVCacheGroupSpec", "SlidingWindowSpec"),
    "vllm.v1.outputs": ("DraftTokenIds", "KVConnectorOutput", "ModelRunnerOutput"),
    "vllm.v1.request": ("Request", "RequestStatus"),
    "vllm.v1.structured_output": ("StructuredOutputManager",),
}

"""The findings of `findings.md`, each once more without anything of the suite: vLLM's own scheduler, called by hand.

    .ci/vllm-env 0.33.0 ~/vllm
    ~/vllm/python-0.33.0 conformance/findings/reproduce.py [NAME ...]

prints a line a finding: whether this version of vLLM shows it, and what was seen.
"""

import copy
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"
os.environ.setdefault("VLLM_LOGGING_LEVEL", "CRITICAL")

import torch
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    KVTransferConfig,
    ModelConfig,
    SchedulerConfig,
    SpeculativeConfig,
    VllmConfig,
)
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, KVConnectorMetadata, SupportsHMA
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec
from vllm.v1.outputs import DraftTokenIds, KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

MODULE = "reproduce"
sys.modules.setdefault(MODULE, sys.modules[__name__])

LLAMA = {
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


class Store(KVConnectorBase_V1, SupportsHMA):  # type: ignore[misc]
    """A connector that has the first tokens of some requests: name -> (how many, asynchronous)."""

    offers: ClassVar[dict[str, tuple[int, bool]]] = {}

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        """What is offered beyond what is there."""
        tokens, asynchronous = self.offers.get(request.request_id, (0, False))
        found = max(0, tokens - num_computed_tokens)
        return found, asynchronous and found > 0

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Each offer is used once."""
        if num_external_tokens:
            del self.offers[request.request_id]

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        """Nothing to say."""
        return KVConnectorMetadata()

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> tuple[bool, None]:
        """Nothing is sent."""
        return False, None

    def request_finished(self, request: Any, block_ids: Any) -> tuple[bool, None]:
        """Nothing is sent."""
        return False, None

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None: ...
    def wait_for_layer_load(self, layer_name: str) -> None: ...
    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None: ...
    def wait_for_save(self) -> None: ...


class Engine:
    """A scheduler and the calls of an engine core."""

    def __init__(
        self,
        usable: int,
        *,
        block_size: int = 2,
        windows: tuple[int, ...] = (0,),
        longest: int = 64,
        asynchronous: bool = False,
        connector: str = "",
        drafts: int = 0,
        **settings: Any,
    ) -> None:
        config = copy.copy(base())
        config.model_config = copy.copy(base().model_config)
        config.model_config.max_model_len = longest
        config.scheduler_config = SchedulerConfig(
            max_model_len=longest,
            is_encoder_decoder=False,
            async_scheduling=asynchronous,
            **{"max_num_seqs": 4, "max_num_batched_tokens": 16, **settings},
        )
        config.scheduler_config.disable_hybrid_kv_cache_manager = False
        config.cache_config = CacheConfig(block_size=block_size)
        config.cache_config.num_gpu_blocks = usable + 1
        if connector:
            config.kv_transfer_config = KVTransferConfig(
                kv_connector="Store",
                kv_connector_module_path=MODULE,
                kv_role="kv_both",
                kv_load_failure_policy=connector,
            )
        if drafts:
            config.speculative_config = SpeculativeConfig(
                method="ngram",
                num_speculative_tokens=drafts,
                prompt_lookup_max=2,
                prompt_lookup_min=1,
                target_model_config=base().model_config,
                target_parallel_config=base().parallel_config,
            )
        shape = {"block_size": block_size, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}
        specs = [SlidingWindowSpec(**shape, sliding_window=w) if w else FullAttentionSpec(**shape) for w in windows]
        groups = [KVCacheGroupSpec([f"layer.{index}"], spec) for index, spec in enumerate(specs)]
        kind = AsyncScheduler if asynchronous else Scheduler
        self.scheduler = kind(
            vllm_config=config,
            kv_cache_config=KVCacheConfig(num_blocks=usable + 1, kv_cache_tensors=[], kv_cache_groups=groups),
            structured_output_manager=StructuredOutputManager(config),
            block_size=block_size,
            hash_block_size=block_size,
        )
        self.hasher = get_request_block_hasher(block_size, sha256)
        self.arrivals = 0

    def add(self, name: str, tokens: list[int], max_tokens: int = 1, **settings: Any) -> None:
        """A request arrives, or the next input of a session."""
        self.arrivals += 1
        self.scheduler.add_request(
            Request(
                request_id=name,
                prompt_token_ids=tokens,
                sampling_params=SamplingParams(max_tokens=max_tokens, temperature=0),
                pooling_params=None,
                arrival_time=float(self.arrivals),
                block_hasher=self.hasher,
                **settings,
            )
        )

    def abort(self, name: str) -> None:
        """A client goes away."""
        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def process(self, output: Any, sampled: dict[str, list[int]], **transfers: Any) -> dict[str, list[int]]:
        """The output of a step comes back; what each request is told."""
        names = list(output.num_scheduled_tokens)
        result = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=[sampled.get(name, []) for name in names],
            kv_connector_output=KVConnectorOutput(**transfers) if transfers else None,
        )
        told = self.scheduler.update_from_output(output, result)
        return {one.request_id: list(one.new_token_ids) for outputs in told.values() for one in outputs.outputs}

    def step(self, sampled: dict[str, list[int]] | None = None, **transfers: Any) -> Any:
        """Schedule and process at once."""
        output = self.scheduler.schedule()
        self.process(output, sampled or {}, **transfers)
        return output

    def blocks(self, name: str, group: int = 0) -> list[int]:
        """A request's table."""
        return list(self.scheduler.kv_cache_manager.get_block_ids(name)[group])

    def hit(self, name: str, tokens: list[int]) -> int:
        """How many tokens of a new request are found in the prefix cache."""
        self.add(name, tokens)
        output = self.scheduler.schedule()
        return next((new.num_computed_tokens for new in output.scheduled_new_reqs if new.req_id == name), 0)


def load_window() -> str | None:
    """A request whose whole prompt is loaded computes its last token without a block that its window reads."""
    engine = Engine(5, block_size=1, windows=(2,), connector="fail")
    Store.offers = {"A": (3, True)}
    engine.add("A", [1, 1, 1])
    engine.step(finished_recving={"A"})
    output = engine.scheduler.schedule()
    table, (new,) = engine.blocks("A"), output.scheduled_new_reqs
    position = new.num_computed_tokens
    if table[position - 1] == 0:
        return f"position {position} is computed, its window of 2 reads position {position - 1}: table {table}"
    return None


def failed_load_stays_findable() -> str | None:
    """Under `recompute`, a block whose load failed stays in the prefix cache though its request goes away."""
    engine = Engine(6, connector="recompute")
    Store.offers = {"A": (2, False)}
    engine.add("A", [1, 1, 1, 1])
    output = engine.scheduler.schedule()
    engine.process(output, {"A": [1]}, invalid_block_ids={engine.blocks("A")[0]})
    engine.abort("A")
    found = engine.hit("B", [1, 1, 1, 1, 1])
    return f"B hits {found} tokens in blocks that nobody has written" if found else None


def failed_load_poisons_a_sharer() -> str | None:
    """Under `fail`, what a sharer computed from a failed load stays in the prefix cache."""
    engine = Engine(8, connector="fail")
    Store.offers = {"A": (2, False)}
    engine.add("A", [1, 1, 1])
    engine.add("B", [1, 1, 2, 2, 2])
    output = engine.scheduler.schedule()
    shared = engine.blocks("A")[0]
    if engine.blocks("B")[0] != shared:
        return None
    engine.process(output, {"A": [1], "B": [1]}, invalid_block_ids={shared})
    engine.hit("C", [1, 1, 1])
    found = engine.hit("D", [1, 1, 2, 2, 2])
    return f"once another request has computed 1 1, D hits {found} tokens, 2 of them garbage" if found > 2 else None


def failed_load_ahead() -> str | None:
    """Asynchronously, a request whose load failed is scheduled for a token it does not have."""
    engine = Engine(4, connector="recompute", asynchronous=True)
    Store.offers = {"A": (2, False)}
    engine.add("A", [1, 1, 1, 1], max_tokens=2)
    first = engine.scheduler.schedule()
    second = engine.scheduler.schedule()
    engine.process(first, {"A": [1]}, invalid_block_ids={engine.blocks("A")[0]})
    third = engine.scheduler.schedule()
    told = engine.process(second, {"A": [2]}) if second.num_scheduled_tokens else {}
    request, count = engine.scheduler.requests.get("A"), third.num_scheduled_tokens.get("A", 0)
    computed = third.scheduled_cached_reqs.num_computed_tokens[0] if count else 0
    if told.get("A"):
        return f"A is told {told['A']}, sampled from a block that was not loaded"
    if request is not None and computed + count > request.num_tokens:
        return f"A has {request.num_tokens} tokens and is scheduled up to {computed + count}"
    return None


def failed_load_missed() -> str | None:
    """With a window, a sharer without the failed block in its table is told what was computed from it."""
    engine = Engine(5, block_size=1, windows=(2,), connector="recompute")
    Store.offers = {"A": (1, False)}
    engine.add("A", [2, 1])
    engine.add("B", [2, 1, 1])
    output = engine.scheduler.schedule()
    failed, computed_from_it = engine.blocks("A")
    table = engine.blocks("B")
    told = engine.process(output, {"A": [1], "B": [1]}, invalid_block_ids={failed})
    if failed in table or computed_from_it not in table or not told.get("B"):
        return None
    return (
        f"B reads block {computed_from_it}, computed from failed block {failed}, and is told {told['B']}: table {table}"
    )


def padded_and_capped() -> str | None:
    """A request padded to the size of a speculative step and cut by the long-prefill threshold ends the engine."""
    engine = Engine(8, drafts=2, long_prefill_token_threshold=2)
    engine.add("A", [1, 1, 1], max_tokens=4)
    engine.step({"A": [1]})
    engine.step({"A": [1]})
    engine.add("B", [1])
    try:
        engine.scheduler.schedule()
    except AssertionError as error:
        return f"schedule raises AssertionError {error}".rstrip()
    return None


def load_never_admitted() -> str | None:
    """With drafts, an asynchronous load is refused for ever in a pool that holds its request exactly."""
    engine = Engine(2, longest=4, connector="fail", drafts=1)
    Store.offers = {"A": (3, True)}
    engine.add("A", [1, 1, 1])
    for _ in range(100):
        engine.step()
    if engine.scheduler.requests["A"].num_computed_tokens == 0:
        free = engine.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        return f"after 100 steps A waits, it needs 2 blocks, {free} are free"
    return None


def victim_keeps_keys() -> str | None:
    """Under priority, a victim that was scheduled in the same call leaves keys for tokens it never computes."""
    return next(filter(None, map(victim_in_a_pool_of, range(3, 9))), None)


def victim_in_a_pool_of(usable: int) -> str | None:
    """The finding above, for one size of the pool; which one shows it depends on how a version cuts prompts."""
    settings: dict[str, Any] = {"max_num_seqs": 2, "max_num_batched_tokens": 5, "long_prefill_token_threshold": 2}
    engine = Engine(usable, policy="priority", scheduler_reserve_full_isl=False, **settings)
    engine.add("low", [1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1], priority=1)
    engine.step()
    engine.add("high", [2, 2], max_tokens=8, priority=0)
    low, computed = engine.scheduler.requests["low"], 0
    for _ in range(4):
        if low.status.name == "PREEMPTED":
            break
        computed = low.num_computed_tokens
        engine.step({"high": [1]})
    else:
        return None
    engine.abort("high")
    resumed = engine.step().scheduled_cached_reqs.num_computed_tokens
    if not resumed or resumed[0] <= computed:
        return None
    return f"low had computed {computed} tokens, and hits {resumed[0]} when it is resumed"


def sessions_starve() -> str | None:
    """Sessions that wait with blocks, each for a block more, wait for ever: only running requests are preempted."""
    engine = Engine(4, longest=8)
    for name, token in (("A", 1), ("B", 2)):
        engine.add(name, [token] * 3, resumable=True)
    engine.step({"A": [1], "B": [1]})
    for name in ("A", "B"):
        engine.add(name, [1, 1, 1], resumable=True)
    scheduled = [dict(engine.step().num_scheduled_tokens) for _ in range(100)]
    states = {name: request.status.name for name, request in engine.scheduler.requests.items()}
    if any(scheduled) or set(states.values()) != {"WAITING"}:
        return None
    free = engine.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
    return f"nothing is scheduled in 100 steps, each session holds 2 of 4 blocks and needs 3, {free} are free"


def session_keeps_key() -> str | None:
    """A session's dropped token stays in the key of its block, which another prompt then hits."""
    engine = Engine(8, block_size=2)
    engine.add("A", [1, 1, 1], max_tokens=1, resumable=True)
    engine.step({"A": [2]})
    engine.add("A", [1, 1], max_tokens=1, resumable=True)
    engine.step({"A": [1]})
    found = engine.hit("B", [1, 1, 1, 2, 1])
    return f"the session holds 1 1 1 1 1, a prompt of 1 1 1 2 1 hits {found} tokens" if found > 2 else None


def session_counts_trimmed() -> str | None:
    """Tokens that a stop cut off count as computed when a session goes on, which skips the new input."""
    engine = Engine(8, drafts=1)
    engine.add("A", [1], max_tokens=2, resumable=True)
    engine.step({"A": [1]})
    engine.scheduler.update_draft_token_ids(DraftTokenIds(["A"], [[1]]))
    engine.step({"A": [1, 1]})
    engine.add("A", [2, 2], max_tokens=1, resumable=True)
    new = engine.scheduler.schedule().scheduled_new_reqs
    computed = new[0].num_computed_tokens if new else 0
    return f"2 tokens are kept of the first turn, and {computed} count as computed" if computed > 2 else None


def session_told_too_much() -> str | None:
    """What was in flight when a turn ended is told as if the next turn had asked for it."""
    engine = Engine(8, drafts=1, asynchronous=True)
    engine.add("A", [1], max_tokens=3, resumable=True)
    first, second = engine.scheduler.schedule(), engine.scheduler.schedule()
    told = engine.process(first, {"A": [1]}).get("A", [])
    third = engine.scheduler.schedule()
    told += engine.process(second, {"A": [1, 1]}).get("A", [])
    told += engine.process(third, {"A": [1, 1]}).get("A", [])
    return f"3 tokens were asked for and {len(told)} were told" if len(told) > 3 else None


def preempted_without_return() -> str | None:
    """A request is preempted though its blocks cannot be returned before the step in flight is done."""
    engine = Engine(3, asynchronous=True, connector="recompute", scheduler_reserve_full_isl=False, longest=6)
    for name, token in (("A", 1), ("B", 2)):
        engine.add(name, [token] * 2, max_tokens=3)
    engine.scheduler.schedule()
    engine.scheduler.schedule()
    waiting = [name for name, one in engine.scheduler.requests.items() if one.status.name == "PREEMPTED"]
    frees = len(engine.scheduler.deferred_frees)
    return f"{', '.join(waiting)} was preempted and {frees} free waits for the step in flight" if waiting else None


FINDINGS: dict[str, Callable[[], str | None]] = {
    "load-window": load_window,
    "failed-load-stays-findable": failed_load_stays_findable,
    "failed-load-poisons-a-sharer": failed_load_poisons_a_sharer,
    "failed-load-ahead": failed_load_ahead,
    "failed-load-missed-behind-a-window": failed_load_missed,
    "padded-and-capped": padded_and_capped,
    "load-never-admitted": load_never_admitted,
    "victim-keeps-keys": victim_keeps_keys,
    "sessions-starve": sessions_starve,
    "session-keeps-key": session_keeps_key,
    "session-counts-trimmed": session_counts_trimmed,
    "session-told-too-much": session_told_too_much,
    "preempted-without-return": preempted_without_return,
}


@cache
def base() -> Any:
    """A configuration to copy from."""
    folder = Path(tempfile.mkdtemp())
    (folder / "config.json").write_text(json.dumps(LLAMA))
    model = ModelConfig(model=str(folder), skip_tokenizer_init=True, dtype="float32", max_model_len=64)
    return VllmConfig(
        model_config=model,
        scheduler_config=SchedulerConfig(max_model_len=64, is_encoder_decoder=False, async_scheduling=False),
        cache_config=CacheConfig(block_size=16),
        device_config=DeviceConfig("cpu"),
    )


def main(names: list[str]) -> None:
    """Try the findings of these names, or all."""
    init_none_hash(sha256)
    register_all_kvcache_specs(None)
    logging.getLogger("vllm").setLevel(logging.CRITICAL)
    for name in names or FINDINGS:
        Store.offers = {}
        seen = FINDINGS[name]()
        print(f"{name}: {'shown: ' + seen if seen else 'not shown'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A KV connector of vLLM that is told by each request what it can load; the scheduler's side of it only.

It is a connector as third parties write them: nothing of vLLM's own is replaced. Loads and sends are reported done, or
failed, by the simulated worker.
"""

from collections.abc import Sequence
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, KVConnectorMetadata, SupportsHMA


class Orders(KVConnectorMetadata):  # type: ignore[misc]
    """The loads that a step starts."""

    def __init__(self, loads: Sequence[Any]) -> None:
        self.loads = loads


class OfferedLoads(KVConnectorBase_V1, SupportsHMA):  # type: ignore[misc]
    """Offers what `kv_transfer_params` of a request say: `num_tokens`, `asynchronous`, `unsure`, `sends`."""

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._loads: list[Any] = []
        self._unsure: dict[str, int] = {}
        self._starts: dict[str, int] = {}
        self._loaded_at: dict[str, int] = {}
        self.failed: set[str] = set()
        """Requests whose load failed once: nothing is offered to them any more."""

    # The scheduler's side.

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        """What the store has beyond the local hit; None for as many times as the request says."""
        offer = request.kv_transfer_params or {}
        name = request.request_id
        if not offer.get("num_tokens") or name in self.failed or self._loaded_at.get(name) == request.num_preemptions:
            return 0, False
        asked = self._unsure.get(name, 0)
        if asked < offer["unsure"]:
            self._unsure[name] = asked + 1
            return None, False
        # A synchronous load leaves one token to compute, which samples the next one.
        most = request.num_tokens if offer["asynchronous"] else request.num_tokens - 1
        found = min(offer["num_tokens"], most) - num_computed_tokens
        if found <= 0:
            return 0, False
        self._starts[name] = num_computed_tokens
        return found, bool(offer["asynchronous"])

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Order the load of what was found."""
        if num_external_tokens > 0:
            start = self._starts[request.request_id]
            # Once, and again after a preemption.
            self._loaded_at[request.request_id] = request.num_preemptions
            tables = [list(group) for group in blocks.get_block_ids()]
            asynchronous = bool(request.kv_transfer_params["asynchronous"])
            tokens = list(request.all_token_ids)
            self._loads.append((request.request_id, tokens, start, start + num_external_tokens, tables, asynchronous))

    def build_connector_meta(self, scheduler_output: Any) -> Orders:
        """Hand the orders to the step."""
        orders = Orders(self._loads)
        self._loads = []
        return orders

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, None]:
        """Keep the blocks of a request that ended by itself if they are to be sent."""
        sends = (request.kv_transfer_params or {}).get("sends", False)
        return bool(sends) and request.status.name in ("FINISHED_LENGTH_CAPPED", "FINISHED_STOPPED"), None

    def request_finished_all_groups(self, request: Any, block_ids: tuple[list[int], ...]) -> tuple[bool, None]:
        """The same for any number of groups."""
        return self.request_finished(request, [])

    # The worker's side is simulated elsewhere.

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Not used."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Not used."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        """Not used."""

    def wait_for_save(self) -> None:
        """Not used."""

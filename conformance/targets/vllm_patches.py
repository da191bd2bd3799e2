"""Repairs of vLLM's known faults, to see what hides behind a frequent one: `vllm-scheduler=NAME,NAME`.

A repair changes as little as it can on vLLM's own classes, in the process that it is applied in. It is evidence about a
cause: with the repair the fault must be gone, and a walk may go on where the fault would end it.
"""

import importlib
import inspect
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slotproof.conformance.errors import SetupError


@dataclass(frozen=True, slots=True)
class Patch:
    """What is repaired, and how."""

    repairs: str
    apply: Callable[[], None]


def _scheduler() -> Any:
    return importlib.import_module("vllm.v1.core.sched.scheduler").Scheduler


def rewrite(old: str, new: str) -> None:
    """Replace a piece of the source of `schedule`; it must be there once.

    Raises:
        SetupError: when this version's source is another one.
    """
    kind = _scheduler()
    scope = kind.schedule.__globals__
    source = _SOURCES.get(kind) or inspect.getsource(kind.schedule)
    if source.count(old) != 1:
        raise SetupError(f"The repair does not fit this version of vLLM: schedule does not say once {old!r}.")
    _SOURCES[kind] = source.replace(old, new)
    scope["withdraw_keys"] = withdraw_keys
    made: dict[str, Any] = {}
    exec(textwrap.dedent(_SOURCES[kind]), scope, made)
    kind.schedule = made["schedule"]


_SOURCES: dict[Any, str] = {}
"""The source of `schedule` with the repairs so far."""


def compute_last_token() -> None:
    """An asynchronous load never covers the last token, which is computed in any case."""
    kind = _scheduler()
    made = kind.__init__

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options)
        if self.connector is None:
            return
        found = self.connector.get_num_new_matched_tokens

        def capped(request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
            tokens, asynchronous = found(request, num_computed_tokens)
            most = request.num_tokens - 1 - num_computed_tokens
            return (tokens, asynchronous) if not tokens or tokens <= most else (max(most, 0), asynchronous and most > 0)

        self.connector.get_num_new_matched_tokens = capped

    kind.__init__ = init


def forget_failed_loads() -> None:
    """A block whose load failed, and all behind it in any request's table, lose their keys under both policies; if the
    request has gone away, so do all blocks that no request holds, for its table is not known any more.
    """
    kind = _scheduler()
    handle = kind._handle_invalid_blocks

    def handle_and_evict(self: Any, invalid_block_ids: set[int], num_scheduled_tokens: dict[str, int]) -> Any:
        poisoned, held = set(invalid_block_ids), set[int]()
        for request in self.requests.values():
            (blocks,) = self.kv_cache_manager.get_block_ids(request.request_id)
            held.update(blocks)
            first = next((index for index, block in enumerate(blocks) if block in invalid_block_ids), len(blocks))
            poisoned.update(blocks[first:])
        if not invalid_block_ids <= held:
            blocks = self.kv_cache_manager.block_pool.blocks[1:]
            poisoned.update(block.block_id for block in blocks if block.block_id not in held)
        answer = handle(self, invalid_block_ids, num_scheduled_tokens)
        self.kv_cache_manager.evict_blocks(poisoned)
        return answer

    kind._handle_invalid_blocks = handle_and_evict


def preempt_failed_loads() -> None:
    """Under `recompute` a running request whose load failed begins anew; what steps in flight sample is dropped."""
    kind = _scheduler()
    handle = kind._handle_invalid_blocks

    def handle_and_preempt(self: Any, invalid_block_ids: set[int], num_scheduled_tokens: dict[str, int]) -> Any:
        answer = handle(self, invalid_block_ids, num_scheduled_tokens)
        if self.recompute_kv_load_failures:
            for request in [request for request in self.running if request.request_id in answer]:
                self.running.remove(request)
                self._preempt_request(request, time.monotonic(), drop_stale_output=True)
        return answer

    kind._handle_invalid_blocks = handle_and_preempt


def hash_sessions_anew() -> None:
    """A session's keys are made from its tokens once more when its last token is dropped."""
    kind = _scheduler()
    update = kind._update_request_as_session

    def update_and_hash(self: Any, session: Any, more: Any) -> None:
        update(self, session, more)
        session.block_hashes.clear()
        session.update_block_hashes()

    kind._update_request_as_session = update_and_hash


def count_trimmed_tokens() -> None:
    """Tokens that a stop cuts off do not count as computed; a session would go on behind them."""
    kind = _scheduler()
    update = kind._update_request_with_output
    if "num_computed_tokens -= len(new_token_ids)" in inspect.getsource(update):
        raise SetupError("The repair count-trimmed-tokens does not fit this version of vLLM, which counts right.")

    def update_and_count(self: Any, request: Any, new_token_ids: list[int], *others: Any, **more: Any) -> Any:
        # With steps planned ahead, placeholders that stay behind account for them.
        returned = len(new_token_ids) if request.num_output_placeholders == 0 else 0
        kept, stopped = update(self, request, new_token_ids, *others, **more)
        if stopped and returned:
            request.num_computed_tokens -= returned - len(kept)
        return kept, stopped

    kind._update_request_with_output = update_and_count


def withdraw_keys(scheduler: Any, request: Any) -> None:
    """Take the keys of what a request was scheduled to compute and will not."""
    first = request.num_computed_tokens // scheduler.block_size
    tables = scheduler.kv_cache_manager.get_block_ids(request.request_id)
    scheduler.kv_cache_manager.evict_blocks({block for table in tables for block in table[first:]})


CAP_BY_THRESHOLD = """if 0 < long_prefill_token_threshold < num_new_tokens{unless}:
                        num_new_tokens = long_prefill_token_threshold

                    # chunked"""

RESERVE = """reserved_blocks = {unless}(
                        self._inflight_prefill"""

WITHDRAW = """scheduled_running_reqs.remove(preempted_req)
"""

WITHDRAW_KEYS = """scheduled_running_reqs.remove(preempted_req)
                            withdraw_keys(self, preempted_req)
"""

PATCHES: dict[str, Patch] = {
    "compute-last-token": Patch("an asynchronous load never covers a prompt's last token", compute_last_token),
    "forget-failed-loads": Patch("blocks behind a failed load lose their keys", forget_failed_loads),
    "preempt-failed-loads": Patch("a request whose load failed begins anew", preempt_failed_loads),
    "hash-sessions-anew": Patch("the key of a session's dropped token is dropped with it", hash_sessions_anew),
    "count-trimmed-tokens": Patch("tokens cut off by a stop do not count as computed", count_trimmed_tokens),
    "pad-whole": Patch(
        "a request padded with draft positions is not cut by the long-prefill threshold",
        lambda: rewrite(CAP_BY_THRESHOLD.format(unless=""), CAP_BY_THRESHOLD.format(unless=" and not pad_spec_decode")),
    ),
    "load-when-idle": Patch(
        "an asynchronous load reserves nothing while nothing else is under way",
        lambda: rewrite(
            RESERVE.format(unless=""), RESERVE.format(unless="bool(self.running or self._inflight_prefills) * ")
        ),
    ),
    "withdraw-keys": Patch(
        "a victim that was scheduled in the same call loses the keys of what it will not compute",
        lambda: rewrite(WITHDRAW, WITHDRAW_KEYS),
    ),
}
"""By name."""

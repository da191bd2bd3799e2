"""A whole recorded trace: each request is looked up, admitted whole and freed, and only these three calls are timed."""

import os
from pathlib import Path
from time import thread_time
from typing import Any

from slotproof.conformance.bare import Bare
from slotproof.conformance.workload.serve import Setting, longest_prompt, prompt_keys
from slotproof.conformance.workload.trace import MOONCAKE_BLOCK, TraceRequest, read_trace

NAME = "mooncake"
WHAT = "Mooncake conversation: look up, admit, free"
FILE = "mooncake_conversation_trace.jsonl.gz"
FOLDER = "SLOTPROOF_TRACES"

AT_ONCE = 32
"""Requests that are made before they are served: an engine's requests wait in a queue."""


def trace_path() -> Path | None:
    """The trace, where SLOTPROOF_TRACES names a folder that has it."""
    folder = os.environ.get(FOLDER)
    path = Path(folder or "", FILE)
    return path.resolve() if folder and path.exists() else None


class Trace:
    """The trace's requests, and the pool that serves them."""

    def __init__(self, path: str) -> None:
        self.requests = list(read_trace(Path(path)))
        self._longest = longest_prompt(self.requests)

    def sample(self, bare: Bare, num_blocks: int) -> float:
        """Seconds that the calls of the whole trace take, from an empty pool on."""
        manager: Any = bare.new_manager(Setting(num_blocks, MOONCAKE_BLOCK, self._longest).config())
        return sum(
            time_calls(manager, [waiting(bare, request) for request in self.requests[start : start + AT_ONCE]])
            for start in range(0, len(self.requests), AT_ONCE)
        )


def waiting(bare: Bare, request: TraceRequest) -> tuple[Any, int]:
    """A request as the manager knows them, and its tokens."""
    keys = prompt_keys(request, MOONCAKE_BLOCK)
    return bare.new_request_of_keys(str(request.line), request.num_prompt_tokens, keys), request.num_prompt_tokens


def time_calls(manager: Any, requests: list[tuple[Any, int]]) -> float:
    """Seconds for three calls a request."""
    look_up, allocate_slots, free = manager.get_computed_blocks, manager.allocate_slots, manager.free
    started = thread_time()
    for request, num_tokens in requests:
        blocks, num_hit_tokens, *_ = look_up(request=request)
        answer = allocate_slots(
            request=request,
            num_new_tokens=num_tokens - num_hit_tokens,
            num_new_computed_tokens=num_hit_tokens,
            new_computed_blocks=blocks if num_hit_tokens else None,
            full_sequence_must_fit=True,
        )
        if answer is not None:
            free(request=request)
    return thread_time() - started

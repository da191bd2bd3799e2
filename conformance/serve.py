"""The child side of a remote target: answers the messages that `remote.py` documents with a local adapter.

It runs in the target's environment, which has nothing of this project but what the parent lends it.
"""

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TextIO

from slotproof.conformance.adapter import NO_HIT, OPTIONAL_CALLS, Adapter, Hit
from slotproof.conformance.errors import SetupError
from slotproof.conformance.scheduler_adapter import SchedulerAdapter
from slotproof.conformance.serve_scheduler import SchedulerServer
from slotproof.conformance.targets.registry import load_target
from slotproof.conformance.wire import Message, config_from_wire, describe, profile_on_wire

PROTOCOL = 1

_HANDLES_KEPT = 4096
"""A hit is used right after its lookup; older handles are dropped."""

_ENDING_CALLS = frozenset({"free", "defer_free"})

_PARAMETERS = (
    "hit",
    "num_lookahead_tokens",
    "num_external_computed_tokens",
    "delay_cache_blocks",
    "full_sequence_must_fit",
    "reserved_blocks",
    "has_scheduled_reqs",
)


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A `RequestView` put together from messages."""

    request_id: str
    token_ids: tuple[int, ...]
    num_prompt_tokens: int
    num_computed_tokens: int
    num_in_flight_tokens: int
    status: str
    draft_token_ids: tuple[int, ...]
    cache_salt: str | None
    extra_keys: tuple[str, ...]


class Server:
    """Answers one message after the other."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter: Any = adapter
        self._requests: dict[str, WireRequest] = {}
        self._handles: dict[int, object] = {}
        self._num_handles = 0
        self._calls: dict[str, Callable[[Message], Any]] = {
            "hello": self._hello,
            "reset": self._reset,
            "allocate_slots": self._allocate_slots,
            "can_allocate": lambda message: bool(
                self._adapter.can_allocate(*self._arguments(message), **self._options(message))
            ),
            "allocate_decode": self._allocate_decode,
            "free": self._on_request("free"),
            "block_table": lambda message: _rows(self._adapter.block_table(self._request(message))),
            "num_free_blocks": lambda message: self._adapter.num_free_blocks(),
            "get_computed_blocks": self._get_computed_blocks,
            "release_hit": lambda message: self._adapter.release_hit(self._hit(message["hit"])),
            "hit_tokens": self._on_request("hit_tokens"),
            "commit": lambda message: self._adapter.commit(self._request(message), message["num_computed_tokens"]),
            "evict": lambda message: self._adapter.evict(message["block_ids"]),
            "reset_prefix_cache": lambda message: bool(self._adapter.reset_prefix_cache()),
            "preempt": self._on_request("preempt"),
            "defer_free": self._on_request("defer_free"),
            "return_deferred": lambda message: self._adapter.return_deferred(),
            "take_copies": lambda message: [list(pair) for pair in self._adapter.take_copies()],
            "release_copy": lambda message: self._adapter.release_copy(),
            "partial_keys": lambda message: [[block, _plain(key)] for block, key in self._adapter.partial_keys()],
            "ref_counts": lambda message: [self._adapter.ref_count(block) for block in message["block_ids"]],
            "cached_keys": lambda message: [[block, _plain(key)] for block, key in self._adapter.cached_keys()],
            "free_queue": lambda message: list(self._adapter.free_queue()),
            "cached_counts": lambda message: list(self._adapter.cached_counts(self._request(message))),
            "snapshot": lambda message: _value(self._adapter.snapshot()),
            "take_events": lambda message: [[verb, _plain(key)] for verb, key in self._adapter.take_events()],
        }

    def answer(self, message: Message) -> Message:
        """The reply: what the call returned or raised, and what was to be observed after it."""
        reply = self._outcome(message)
        reply["id"] = message.get("id")
        if "observe" in message:
            reply["observation"] = [self._outcome(question) for question in message["observe"]]
        if message["call"] in _ENDING_CALLS:
            self._requests.pop(message["request"]["request_id"], None)
        return reply

    def _outcome(self, message: Message) -> Message:
        try:
            return {"ok": self._calls[message["call"]](message)}
        except Exception as error:
            return {"error": self._described(error)}

    def _described(self, error: Exception) -> Message:
        refusals = self._adapter.profile.refusals
        refusal = next((kind.__name__ for kind in refusals if isinstance(error, kind)), None)
        return describe(error) | {"refusal": refusal}

    def _hello(self, message: Message) -> Message:
        return {
            "protocol": PROTOCOL,
            "profile": profile_on_wire(self._adapter.profile),
            "calls": [call for kind in OPTIONAL_CALLS if isinstance(self._adapter, kind) for call in calls_of(kind)],
            "parameters": _accepted_parameters(self._adapter.allocate_slots),
        }

    def _reset(self, message: Message) -> None:
        self._requests.clear()
        self._handles.clear()
        self._adapter.reset(config_from_wire(message["config"]))

    def _allocate_slots(self, message: Message) -> list[list[int]] | None:
        popped = self._adapter.allocate_slots(*self._arguments(message), **self._options(message))
        return None if popped is None else _rows(popped)

    def _allocate_decode(self, message: Message) -> list[list[list[int]]]:
        requests = [self._request({"request": wire}) for wire in message["requests"]]
        options = {name: message[name] for name in ("num_lookahead_tokens", "reserved_blocks") if name in message}
        answers = self._adapter.allocate_decode(requests, message["num_new_tokens"], **options)
        return [_rows(answer) for answer in answers]

    def _get_computed_blocks(self, message: Message) -> Message:
        hit = self._adapter.get_computed_blocks(self._request(message))
        self._num_handles += 1
        self._handles[self._num_handles] = hit.handle
        if len(self._handles) > _HANDLES_KEPT:
            del self._handles[next(iter(self._handles))]
        wire = {"num_tokens": hit.num_tokens, "blocks": _rows(hit.blocks), "handle": self._num_handles}
        return wire | ({"tails": list(hit.tails)} if hit.tails else {})

    def _on_request(self, call: str) -> Callable[[Message], Any]:
        return lambda message: getattr(self._adapter, call)(self._request(message))

    def _arguments(self, message: Message) -> tuple[WireRequest, int]:
        return self._request(message), message["num_new_tokens"]

    def _options(self, message: Message) -> dict[str, Any]:
        options = {name: message[name] for name in _PARAMETERS if name in message}
        if "hit" in options:
            options["hit"] = self._hit(options["hit"])
        return options

    def _hit(self, wire: Message) -> Hit:
        if wire["num_tokens"] == 0 and wire["handle"] is None:
            return NO_HIT
        blocks = tuple(tuple(group) for group in wire["blocks"])
        return Hit(wire["num_tokens"], blocks, self._handles.get(wire["handle"]), tuple(wire.get("tails", ())))

    def _request(self, message: Message) -> WireRequest:
        """The view in the message, or the last one of the request that the message only names."""
        if "request" not in message:
            return self._requests[message["request_id"]]
        wire = message["request"]
        earlier = self._requests.get(wire["request_id"])
        known_tokens = earlier.token_ids[: wire["offset"]] if earlier else ()
        request = self._requests[wire["request_id"]] = WireRequest(
            request_id=wire["request_id"],
            token_ids=known_tokens + tuple(wire["token_ids"]),
            num_prompt_tokens=wire["num_prompt_tokens"],
            num_computed_tokens=wire["num_computed_tokens"],
            num_in_flight_tokens=wire["num_in_flight_tokens"],
            status=wire["status"],
            draft_token_ids=tuple(wire["draft_token_ids"]),
            cache_salt=wire["cache_salt"],
            extra_keys=tuple(wire["extra_keys"]),
        )
        return request


def calls_of(kind: type) -> list[str]:
    """The methods of an optional protocol."""
    return [name for name, member in vars(kind).items() if callable(member) and not name.startswith("_")]


def _accepted_parameters(allocate_slots: Callable[..., object]) -> list[str]:
    parameters = inspect.signature(allocate_slots).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return [name for name in _PARAMETERS if takes_all or name in parameters]


def _rows(blocks: Iterable[Any]) -> list[Any]:
    """Tuples a group, or the flat sequence that a one-group adapter may use."""
    return [list(entry) if isinstance(entry, Iterable) else entry for entry in blocks]


def _plain(key: object) -> str | int:
    return key if isinstance(key, str | int) else repr(key)


def _value(value: object) -> object:
    """A snapshot as JSON that tells apart what the snapshot tells apart."""
    if isinstance(value, tuple | list):
        return [_value(part) for part in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, str | int) else repr(value)


def server_for(adapter: Any) -> Server | SchedulerServer:
    """Schedulers have calls of their own."""
    return SchedulerServer(adapter, PROTOCOL) if callable(getattr(adapter, "schedule", None)) else Server(adapter)


def serve(make_adapter: Callable[[], Adapter | SchedulerAdapter], requests: TextIO, replies: TextIO) -> None:
    """Answer line by line until the input ends; whatever goes wrong at the start is the answer to the first line."""
    try:
        answer = server_for(make_adapter()).answer
    except SetupError as error:
        refusal = {"error": describe(error)}

        def answer(message: Message) -> Message:
            return refusal | {"id": message.get("id")}

    for line in requests:
        replies.write(json.dumps(answer(json.loads(line)), separators=(",", ":")) + "\n")
        replies.flush()


def main(name: str) -> None:
    """Serve the named target on the standard streams, which are then out of the target's reach."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    serve(lambda: load_target(name), requests, replies)


if __name__ == "__main__":
    main(sys.argv[1])

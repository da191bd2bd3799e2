"""A scheduler behind a child process; the protocol is in `serve_scheduler`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from slotproof.conformance.adapter import Profile
from slotproof.conformance.errors import SetupError
from slotproof.conformance.scheduler_adapter import (
    EngineConfig,
    KvEvent,
    NewRequest,
    Output,
    Plan,
    StepResult,
    View,
    as_document,
)
from slotproof.conformance.wire import Message, config_on_wire


class RemoteSchedulerError(Exception):
    """The scheduler raised something."""


class Exchange(Protocol):
    """A child process that answers messages."""

    @property
    def close(self) -> Callable[[], object]:
        """End the child."""
        ...

    def exchange(self, message: Message) -> Message: ...


class RemoteScheduler:
    """The calls of a scheduler, one message each."""

    def __init__(self, channel: Exchange, profile: Profile) -> None:
        self.profile = profile
        self._channel = channel
        self._view: Message = {}

    def close(self) -> None:
        """End the child."""
        self._channel.close()

    def reset(self, config: EngineConfig) -> None:
        """A fresh engine."""
        self._change({"call": "reset", "config": as_document(config) | {"pool": config_on_wire(config.pool)}})

    def add_request(self, request: NewRequest) -> None:
        """Sent whole."""
        self._change({"call": "add_request", "request": as_document(request)})

    def add_input(self, request_id: str, tokens: Sequence[int], max_tokens: int) -> None:
        """Sent whole."""
        self._change({"call": "add_input", "request_id": request_id, "tokens": tokens, "max_tokens": max_tokens})

    def abort(self, request_id: str) -> None:
        """By name."""
        self._change({"call": "abort", "request_id": request_id})

    def schedule(self) -> Plan:
        """The child keeps the step under its number."""
        return Plan.from_json(self._change({"call": "schedule"}))

    def update(self, number: int, result: StepResult) -> Sequence[Output]:
        """By the step's number."""
        rows = self._change({"call": "update", "number": number, "result": as_document(result)})
        return [Output(*row) for row in rows]

    def propose_drafts(self, drafts: Mapping[str, Sequence[int]]) -> None:
        """Sent whole."""
        self._change({"call": "propose_drafts", "drafts": drafts})

    def reset_prefix_cache(self, preempt_running: bool) -> bool:
        """Whether it was emptied."""
        return bool(self._change({"call": "reset_prefix_cache", "preempt_running": preempt_running}))

    def look(self) -> View:
        """It came with the last reply."""
        return View.from_json(_value(self._view))

    def take_events(self) -> Sequence[KvEvent]:
        """Since the last call."""
        return [KvEvent(*row) for row in _value(self._channel.exchange({"call": "take_events"}))]

    def _change(self, message: Message) -> Any:
        reply = self._channel.exchange(message)
        self._view = reply["view"]
        return _value(reply)


def _value(reply: Message) -> Any:
    if "ok" in reply:
        return reply["ok"]
    error = reply["error"]
    if error["type"] == "SetupError":
        raise SetupError(error["message"])
    raise RemoteSchedulerError(f"{error['type']}: {error['message']}")

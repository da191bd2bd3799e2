"""The child side of a remote scheduler: answers the calls of `scheduler_adapter.SchedulerAdapter`.

Messages and replies are those that `remote.py` documents; `hello` answers ``{"protocol", "kind": "scheduler",
"profile"}``. The arguments and values of the other calls are the fields of the values in `scheduler_adapter`, and every
reply but that of ``hello`` has the ``view`` after the call besides ``ok`` or ``error``.
"""

import traceback
from collections.abc import Callable
from typing import Any

from slotproof.conformance.scheduler_adapter import (
    EngineConfig,
    LoadOffer,
    NewRequest,
    SchedulerAdapter,
    StepResult,
    as_document,
)
from slotproof.conformance.wire import Message, config_from_wire, describe, profile_on_wire


class SchedulerServer:
    """Answers one message after the other."""

    def __init__(self, adapter: SchedulerAdapter, protocol: int) -> None:
        self._adapter = adapter
        self._protocol = protocol
        self._calls: dict[str, Callable[[Message], Any]] = {
            "reset": lambda message: adapter.reset(engine_config(message["config"])),
            "add_request": lambda message: adapter.add_request(new_request(message["request"])),
            "add_input": lambda message: adapter.add_input(
                message["request_id"], message["tokens"], message["max_tokens"]
            ),
            "abort": lambda message: adapter.abort(message["request_id"]),
            "schedule": lambda message: as_document(adapter.schedule()),
            "update": lambda message: adapter.update(message["number"], StepResult(**message["result"])),
            "propose_drafts": lambda message: adapter.propose_drafts(message["drafts"]),
            "reset_prefix_cache": lambda message: bool(adapter.reset_prefix_cache(message["preempt_running"])),
            "take_events": lambda message: adapter.take_events(),
        }

    def answer(self, message: Message) -> Message:
        """The reply, and what the scheduler shows after the call."""
        if message["call"] == "hello":
            greeting = {
                "protocol": self._protocol,
                "kind": "scheduler",
                "profile": profile_on_wire(self._adapter.profile),
            }
            return {"id": message.get("id"), "ok": greeting}
        reply = self._outcome(message)
        reply["id"] = message.get("id")
        if message["call"] != "take_events":
            reply["view"] = self._look()
        return reply

    def _outcome(self, message: Message) -> Message:
        try:
            return {"ok": self._calls[message["call"]](message)}
        except Exception as error:
            return {"error": located(error)}

    def _look(self) -> Message:
        try:
            return {"ok": as_document(self._adapter.look())}
        except Exception as error:
            return {"error": describe(error)}


def located(error: Exception) -> Message:
    """An exception with the place it comes from; assertions often say no more than that."""
    described, frames = describe(error), traceback.extract_tb(error.__traceback__)
    place = f"in {frames[-1].name}: {frames[-1].line}"
    return described | {"message": f"{described['message']}, {place}" if described["message"] else place}


def engine_config(wire: Message) -> EngineConfig:
    """The engine of a message."""
    return EngineConfig(**wire | {"pool": config_from_wire(wire["pool"])})


def new_request(wire: Message) -> NewRequest:
    """The request of a message."""
    offer = wire["offer"]
    return NewRequest(**wire | {"offer": None if offer is None else LoadOffer(*offer)})

"""Targets behind a child process: another Python environment, or a program in any language.

The child reads one JSON object a line on its standard input and writes one a line on its standard output, in the same
order and nothing else there. Standard error is free; its end is shown when the child fails. The child ends when its
input does.

**Message.** ``{"id": 7, "call": NAME, …arguments…, "observe": [QUESTION, …]}``. `observe` may be missing.

**Reply.** ``{"id": 7, "ok": VALUE, "observation": […]}`` or ``{"id": 7, "error": ERROR, "observation": […]}``; `id` is
the message's. `observation` answers the questions of `observe` in order, each as ``{"ok": VALUE}`` or
``{"error": ERROR}``, asked after the call; without `observe` it is left out. An error is
``{"type": NAME, "message": TEXT, "refusal": NAME or null}``; `refusal` is the entry of the profile's `refusals` that it
is an instance of. The type ``SetupError`` says that the target cannot be run at all.

**Request.** ``{"request_id", "offset", "token_ids", "num_prompt_tokens", "num_computed_tokens",
"num_in_flight_tokens", "status", "draft_token_ids", "cache_salt", "extra_keys"}`` as in `adapter.RequestView`.
`token_ids` are the tokens from index `offset` on; the ones before were sent earlier. Keep them until ``free``,
``defer_free`` or ``reset``; after these, offset 0 comes again.

**Blocks** are lists of block ids, one a group; a target with one group may send one flat list. **Hit**:
``{"num_tokens", "blocks", "handle"}``; the handle is any JSON value of the child's choice that comes back with the hit.
One that ends inside a block has also `tails`, a block id a group.
**Key**: a string or a number.

Calls that every child answers, with their arguments and the value in `ok`:

* ``hello``, `protocol` = 1 → ``{"protocol": 1, "profile": {…}, "calls": […], "parameters": […]}``. Always the first
  message. `profile`: the fields of `adapter.Profile`; only `name` is required, `strictness` is its number, `refusals`
  names. `calls`: the optional calls that the child answers, by the names of the methods in `adapter`. `parameters`: the
  optional parameters of ``allocate_slots`` that it understands; the others are never sent.
* ``reset``, `config` = ``{"num_blocks", "groups", "max_model_len", "max_in_flight_tokens", "watermark_blocks",
  "caching", "free_order"}``, a group being ``{"kind": "full", "block_size"}`` or ``{"kind": "window", "block_size",
  "window"}``, and `hash_size` where hits may end inside a block → null.
* ``allocate_slots``, `request`, `num_new_tokens` and any of `hit`, `num_lookahead_tokens`,
  `num_external_computed_tokens`, `delay_cache_blocks`, `full_sequence_must_fit`, `reserved_blocks`,
  `has_scheduled_reqs`; one that is missing has the default of `adapter.Adapter.allocate_slots` → the blocks popped, or
  null for a refusal.
* ``free``, `request` → null.
* ``block_table``, `request` → blocks.
* ``num_free_blocks`` → number.

Optional calls:

* ``get_computed_blocks``, `request` → hit. ``release_hit``, `hit` → null. ``hit_tokens``, `request` → number.
* ``can_allocate``, arguments as ``allocate_slots`` → true or false.
* ``allocate_decode``, `requests`, `num_new_tokens` (a number each), `num_lookahead_tokens`, `reserved_blocks` → blocks
  for each request that was served.
* ``commit``, `request`, `num_computed_tokens` → null. ``preempt``, `request` → null.
* ``evict``, `block_ids` → null. ``reset_prefix_cache`` → true or false.
* ``defer_free``, `request` → null. ``return_deferred`` → null.
* ``take_copies`` → a list of ``[source, destination]``. ``release_copy`` → null. ``partial_keys`` → a list of
  ``[block id, key]``.
* ``ref_counts``, `block_ids` → a number each (listed in `calls` as ``ref_count``).
* ``cached_keys`` → a list of ``[block id, key]``. ``free_queue`` → a list of block ids. ``cached_counts``, `request` →
  a number a group. ``snapshot`` → any JSON value.
* ``take_events`` → a list of ``["stored" | "removed" | "cleared", key]``.

A **question** in `observe` is a message without `id` for one of ``block_table``, ``num_free_blocks``, ``hit_tokens``,
``ref_counts``, ``cached_keys``, ``partial_keys``, ``free_queue``, ``cached_counts``, ``snapshot``, ``take_events``;
instead of `request` it has `request_id`, which means the request as last sent, the one of the message itself included.
"""

import builtins
import contextlib
import importlib.util
import inspect
import json
import select
import shutil
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import IO, Any

from slotproof.conformance.adapter import Adapter, BlockIds, Hit, Profile, RequestView, Strictness
from slotproof.conformance.errors import AdapterError, SetupError
from slotproof.conformance.remote_scheduler import RemoteScheduler
from slotproof.conformance.serve import PROTOCOL
from slotproof.conformance.wire import Message, config_on_wire
from slotproof.spec.config import Config

START_SECONDS = 300.0
"""How long a child may take to answer the first message; importing a large engine is slow on a busy machine."""

ANSWER_SECONDS = 60.0
"""How long it may take for any other; a damaged free list can make a target run in circles."""

FAREWELL_SECONDS = 2.0
"""How long it may take to end once its input has."""

REMEMBERED_CHANGES = 4
"""A question is asked ahead for this many changes after it was last asked."""

_BOOTSTRAP = """
import importlib, importlib.util, json, sys, types
lent = json.loads(sys.argv[1])
root = sys.modules["slotproof"] = types.ModuleType("slotproof")
root.__path__ = lent["homes"]
for name, file in lent["packages"].items():
    if importlib.util.find_spec(name) is None:
        spec = importlib.util.spec_from_file_location(name, file)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
importlib.import_module(sys.argv[2]).main(*sys.argv[3:])
"""

Question = tuple[str, str | int | None]
"""An introspection call and the request or block it is about."""


class RemoteTargetError(Exception):
    """The target raised something that its profile does not declare as a refusal."""


def start_python(target: str, python: str) -> "RemoteAdapter | RemoteScheduler":
    """The named target in the environment of another Python, which needs nothing of this project."""
    if shutil.which(python) is None:
        raise SetupError(
            f"There is no program {python!r} to run the target {target!r} with; give the path of a Python."
        )
    return connect(Channel(command_in(python, "slotproof.conformance.serve", target), f"{target}@{python}"))


def command_in(python: str, module: str, *arguments: str, packages: Sequence[str] = ()) -> list[str]:
    """The command that calls `main` of one of our modules in the environment of another Python.

    That environment is lent this project's rooms and the pure-Python `packages` that it lacks.
    """
    rooms = ("spec", "impl", "conformance")
    portions = [folder for room in rooms for folder in _found(f"slotproof.{room}").submodule_search_locations or ()]
    homes = list(dict.fromkeys(str(Path(portion).parent) for portion in portions))
    files = {name: _found(name).origin for name in packages}
    return [python, "-c", _BOOTSTRAP, json.dumps({"homes": homes, "packages": files}), module, *arguments]


def _found(name: str) -> ModuleSpec:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    return spec


def start_command(command: str) -> "RemoteAdapter | RemoteScheduler":
    """The target that a shell command serves."""
    return connect(Channel(["/bin/sh", "-c", command], f"exec:{command}"))


class Channel:
    """A child process that answers messages."""

    def __init__(self, command: Sequence[str], name: str) -> None:
        self.name = name
        self._last_id = 0
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=False
        )
        self._errors: deque[bytes] = deque(maxlen=10)
        self._reader = threading.Thread(target=_keep_tail, args=(self._process.stderr, self._errors), daemon=True)
        self._reader.start()
        self.close = weakref.finalize(self, _stop, self._process)

    def exchange(self, message: Message, seconds: float = ANSWER_SECONDS) -> Message:
        """Send a message and return the reply to it.

        Raises:
            AdapterError: when the child died, is silent or breaks the protocol.
        """
        self._last_id += 1
        message["id"] = self._last_id
        line = self._send_and_receive(json.dumps(message, separators=(",", ":")).encode() + b"\n", message, seconds)
        try:
            reply = json.loads(line)
            understood = reply["id"] == self._last_id and ("ok" in reply or "error" in reply)
        except (ValueError, TypeError, KeyError):
            understood = False
        if not understood:
            self.close()
            raise AdapterError(
                f"The target {self.name} answered {message['call']} with {line[:200]!r}, which is no reply of the "
                "protocol (the message's id and ok or error); it must print nothing else on its standard output."
            )
        return dict(reply)

    def _send_and_receive(self, line: bytes, message: Message, seconds: float) -> bytes:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(line)
            stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._death(message) from None
        if not select.select([stdout], [], [], seconds)[0]:
            self.close()
            raise AdapterError(
                f"The target {self.name} did not answer {message['call']} within {seconds:g} s, so it was ended; "
                "run the call alone to see where it hangs."
            )
        answer = stdout.readline()
        if not answer.endswith(b"\n"):
            raise self._death(message)
        return answer

    def _death(self, message: Message) -> AdapterError:
        self.close()
        self._reader.join(timeout=1)
        code = self._process.returncode
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        said = b"".join(self._errors).decode(errors="replace").strip()
        return AdapterError(
            f"The process of the target {self.name} ended {how} instead of answering {message['call']}; "
            + (f"the end of its standard error: {said}" if said else "its standard error is empty.")
        )


def _keep_tail(stream: IO[bytes] | None, tail: deque[bytes]) -> None:
    if stream is not None:
        tail.extend(stream)


def _stop(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    try:
        process.wait(timeout=FAREWELL_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class RemoteAdapter:
    """The required calls; `connect` adds the optional ones that the child answers.

    What the driver asked for after the last few changes is asked for ahead, along with the change itself, so that a
    step costs one or two round trips.
    """

    def __init__(self, channel: Channel, profile: Profile) -> None:
        self.profile = profile
        self._channel = channel
        self._refusals = {kind.__name__: kind for kind in profile.refusals}
        self._known_tokens: dict[str, int] = {}
        self._num_changes = 0
        self._asked: dict[Question, int] = {}
        self._answers: dict[Question, Any] = {}
        self._events: list[Any] = []

    def close(self) -> None:
        """End the child."""
        self._channel.close()

    def reset(self, config: Config) -> None:
        """All requests are sent anew afterwards."""
        self._known_tokens.clear()
        self._asked.clear()
        self._events.clear()
        self._change({"call": "reset", "config": config_on_wire(config)})

    def allocate_slots(self, request: RequestView, num_new_tokens: int, **options: Any) -> BlockIds | None:
        """The class that `connect` makes shows the signature of the child's."""
        popped = self._change(self._slots_message("allocate_slots", request, num_new_tokens, options))
        return None if popped is None else _blocks(popped)

    def free(self, request: RequestView) -> None:
        """The child forgets the request's tokens."""
        self._end("free", request)

    def block_table(self, request: RequestView) -> BlockIds:
        """Observed."""
        return _blocks(self._ask(("block_table", request.request_id), request))

    def num_free_blocks(self) -> int:
        """Observed."""
        return int(self._ask(("num_free_blocks", None)))

    def _end(self, call: str, request: RequestView) -> None:
        try:
            self._change({"call": call, "request": self._wire_request(request)})
        finally:
            # The child forgets the request whatever the target says.
            self._known_tokens.pop(request.request_id, None)
            self._asked = {about: when for about, when in self._asked.items() if about[1] != request.request_id}

    def _slots_message(self, call: str, request: RequestView, num_new_tokens: int, options: dict[str, Any]) -> Message:
        message = {"call": call, "request": self._wire_request(request), "num_new_tokens": num_new_tokens} | options
        if "hit" in options:
            message["hit"] = _wire_hit(options["hit"])
        return message

    def _change(self, message: Message) -> Any:
        """A call after which earlier answers are stale; the questions asked lately travel with it."""
        self._num_changes += 1
        oldest = self._num_changes - REMEMBERED_CHANGES
        self._asked = {question: when for question, when in self._asked.items() if when >= oldest}
        self._answers.clear()
        if "request" in message:
            # What is asked about the other requests will be asked about this one.
            own = message["request"]["request_id"]
            alike = {(call, own): self._num_changes for call, about in self._asked if isinstance(about, str)}
            self._asked = alike | self._asked
        message["observe"] = _wire_questions(self._asked)
        reply = self._channel.exchange(message)
        self._note(message["observe"], reply.get("observation", []))
        return self._value(reply)

    def _note(self, asked: Sequence[Message], observation: Sequence[Message]) -> None:
        for question, outcome in zip(asked, observation, strict=True):
            if "ok" not in outcome:
                # Asked again, and raised, when the driver wants it.
                continue
            value, call = outcome["ok"], question["call"]
            if call == "ref_counts":
                self._answers |= {
                    ("ref_count", block): n for block, n in zip(question["block_ids"], value, strict=True)
                }
            elif call == "take_events":
                self._events += value
                self._answers[call, None] = True
            else:
                self._answers[call, question.get("request_id")] = value

    def _ask(self, question: Question, request: RequestView | None = None) -> Any:
        self._asked[question] = self._num_changes
        if question not in self._answers:
            message = _wire_questions([question])[0]
            if request is not None:
                message["request"] = self._wire_request(request)
            reply = self._channel.exchange(message)
            self._value(reply)
            self._note([message | {"request_id": question[1]}], [reply])
        return self._answers[question]

    def _value(self, reply: Message) -> Any:
        if "ok" in reply:
            return reply["ok"]
        error = reply["error"]
        refusal = self._refusals.get(error.get("refusal") or "")
        if refusal is not None:
            raise refusal(error["message"])
        if error["type"] == "SetupError":
            raise SetupError(error["message"])
        raise RemoteTargetError(f"{error['type']}: {error['message']}")

    def _wire_request(self, request: RequestView) -> Message:
        offset = self._known_tokens.get(request.request_id, 0)
        self._known_tokens[request.request_id] = len(request.token_ids)
        return {
            "request_id": request.request_id,
            "offset": offset,
            "token_ids": request.token_ids[offset:],
            "num_prompt_tokens": request.num_prompt_tokens,
            "num_computed_tokens": request.num_computed_tokens,
            "num_in_flight_tokens": request.num_in_flight_tokens,
            "status": request.status,
            "draft_token_ids": request.draft_token_ids,
            "cache_salt": request.cache_salt,
            "extra_keys": request.extra_keys,
        }


class _OptionalCalls(RemoteAdapter):
    """Never made; `connect` takes the methods that a child answers from here."""

    def get_computed_blocks(self, request: RequestView) -> Hit:
        hit = self._change({"call": "get_computed_blocks", "request": self._wire_request(request)})
        return Hit(hit["num_tokens"], _blocks(hit["blocks"]), hit.get("handle"), tuple(hit.get("tails", ())))

    def release_hit(self, hit: Hit) -> None:
        self._change({"call": "release_hit", "hit": _wire_hit(hit)})

    def hit_tokens(self, request: RequestView) -> int:
        return int(self._ask(("hit_tokens", request.request_id), request))

    def allocate_decode(
        self, requests: Sequence[RequestView], num_new_tokens: Sequence[int], **options: Any
    ) -> Sequence[BlockIds]:
        wires = [self._wire_request(request) for request in requests]
        message = {"call": "allocate_decode", "requests": wires, "num_new_tokens": list(num_new_tokens)}
        return [_blocks(answer) for answer in self._change(message | options)]

    def commit(self, request: RequestView, num_computed_tokens: int) -> None:
        self._change(
            {
                "call": "commit",
                "request": self._wire_request(request),
                "num_computed_tokens": num_computed_tokens,
            }
        )

    def can_allocate(self, request: RequestView, num_new_tokens: int, **options: Any) -> bool:
        return bool(self._change(self._slots_message("can_allocate", request, num_new_tokens, options)))

    def evict(self, block_ids: Iterable[int]) -> None:
        self._change({"call": "evict", "block_ids": list(block_ids)})

    def reset_prefix_cache(self) -> bool:
        return bool(self._change({"call": "reset_prefix_cache"}))

    def preempt(self, request: RequestView) -> None:
        self._change({"call": "preempt", "request": self._wire_request(request)})

    def defer_free(self, request: RequestView) -> None:
        self._end("defer_free", request)

    def return_deferred(self) -> None:
        self._change({"call": "return_deferred"})

    def take_copies(self) -> Sequence[tuple[int, int]]:
        return [(source, destination) for source, destination in self._change({"call": "take_copies"})]

    def release_copy(self) -> None:
        self._change({"call": "release_copy"})

    def partial_keys(self) -> Sequence[tuple[int, Hashable]]:
        return [(block, key) for block, key in self._ask(("partial_keys", None))]

    def ref_count(self, block_id: int) -> int:
        return int(self._ask(("ref_count", block_id)))

    def cached_keys(self) -> Sequence[tuple[int, Hashable]]:
        return [(block, key) for block, key in self._ask(("cached_keys", None))]

    def free_queue(self) -> Sequence[int]:
        return list(self._ask(("free_queue", None)))

    def cached_counts(self, request: RequestView) -> Sequence[int]:
        return list(self._ask(("cached_counts", request.request_id), request))

    def snapshot(self) -> object:
        return _frozen(self._ask(("snapshot", None)))

    def take_events(self) -> Sequence[tuple[str, Hashable]]:
        self._ask(("take_events", None))
        events = [(verb, key) for verb, key in self._events]
        self._events.clear()
        return events


def connect(channel: Channel) -> RemoteAdapter | RemoteScheduler:
    """Greet the child and make an adapter that has exactly the calls and parameters that it answers."""
    reply = channel.exchange({"call": "hello", "protocol": PROTOCOL}, START_SECONDS)
    if "error" in reply:
        channel.close()
        raise SetupError(f"In {channel.name}: {reply['error']['message']}")
    hello = reply["ok"]
    try:
        if hello["protocol"] != PROTOCOL:
            raise ValueError(f"it speaks protocol {hello['protocol']}, not {PROTOCOL}")
        profile = _profile(hello["profile"])
        if hello.get("kind") == "scheduler":
            return RemoteScheduler(channel, profile)
        methods = _methods(hello["calls"], hello["parameters"])
    except (KeyError, TypeError, ValueError) as error:
        channel.close()
        raise AdapterError(
            f"The target {channel.name} greeted with something the protocol does not allow, "
            f"{type(error).__name__}: {error}; see the documentation of slotproof.conformance.remote."
        ) from error
    adapter_class: type[RemoteAdapter] = type("RemoteAdapter", (RemoteAdapter,), methods)
    return adapter_class(channel, profile)


def _methods(calls: Sequence[str], parameters: Sequence[str]) -> dict[str, Any]:
    optional = vars(_OptionalCalls)
    if unknown := [call for call in calls if call.startswith("_") or call not in optional]:
        raise ValueError(f"there is no optional call {unknown[0]!r}")
    methods: dict[str, Any] = {call: optional[call] for call in calls}
    methods["allocate_slots"] = _with_parameters(RemoteAdapter.allocate_slots, parameters)
    if "can_allocate" in methods:
        methods["can_allocate"] = _with_parameters(_OptionalCalls.can_allocate, parameters)
    return methods


def _with_parameters(method: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """The method with the signature of the protocol, less the optional parameters that are not named."""

    def call(self: RemoteAdapter, request: RequestView, num_new_tokens: int, **options: Any) -> Any:
        return method(self, request, num_new_tokens, **options)

    whole = inspect.signature(Adapter.allocate_slots)
    kept = [
        parameter
        for name, parameter in whole.parameters.items()
        if parameter.kind is not parameter.KEYWORD_ONLY or name in names
    ]
    vars(call)["__signature__"] = whole.replace(parameters=kept, return_annotation=method.__annotations__["return"])
    return call


def _profile(wire: Message) -> Profile:
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in wire.items()}
    if "strictness" in fields:
        fields["strictness"] = Strictness(fields["strictness"])
    return Profile(**fields | {"refusals": tuple(map(_refusal, fields.get("refusals", ())))})


def _refusal(name: str) -> type[Exception]:
    """The exception of that name if it is built in, else one of our own."""
    built_in = getattr(builtins, name, None)
    if isinstance(built_in, type) and issubclass(built_in, Exception):
        return built_in
    return type(name, (RemoteTargetError,), {})


def _wire_questions(questions: Iterable[Question]) -> list[Message]:
    """Questions about single blocks become one about all of them."""
    wire: list[Message] = []
    block_ids: list[str | int | None] = []
    for call, about in questions:
        if call == "ref_count":
            block_ids.append(about)
        elif about is None:
            wire.append({"call": call})
        else:
            wire.append({"call": call, "request_id": about})
    return [*wire, {"call": "ref_counts", "block_ids": block_ids}] if block_ids else wire


def _wire_hit(hit: Hit) -> Message:
    wire: Message = {"num_tokens": hit.num_tokens, "blocks": hit.blocks, "handle": hit.handle}
    return wire | ({"tails": hit.tails} if hit.tails else {})


def _frozen(value: object) -> object:
    """JSON arrays as tuples, so that a counterexample can say which part differs."""
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value


def _blocks(rows: Sequence[Any]) -> BlockIds:
    """One tuple a group; a flat list is of one group."""
    if rows and not isinstance(rows[0], list):
        return (tuple(rows),)
    return tuple(tuple(row) for row in rows)

"""The action table: every call of an allocator the suite knows, once.

A verb says what it does with an allocator and its requests (`run`), and how to choose its arguments (`propose`). The
random driver, the Hypothesis machine, the shrinker, replay and the vector format are all derived from this table. An
action that a world has no use for does nothing, so any part of a trace is a trace.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from slotproof.conformance.adapter import NO_HIT, Hit, Profile
from slotproof.conformance.reach import Cell, HitKind, Outcome, Reach, boundary_of, hit_kind
from slotproof.conformance.world import World
from slotproof.spec.admission import Call
from slotproof.spec.config import Config
from slotproof.spec.keys import KeyTable
from slotproof.spec.lookup import Hit as SpecHit
from slotproof.spec.lookup import get_computed_blocks
from slotproof.spec.pool import NO_KEY
from slotproof.spec.request import Request, Status, await_load, new_request, propose, schedule, settle, withdraw
from slotproof.spec.snapshot import Snapshot

Item = TypeVar("Item")

Side = TypeVar("Side", contravariant=True)
"""What the verbs of a table act upon."""


class Chooser(Protocol):
    """Where arguments come from: a seeded generator, or Hypothesis."""

    ways: int
    """Of how many alternatives an action is the least exercised; more than one only where volume matters."""

    def integer(self, low: int, high: int) -> int:
        """An integer of the closed range."""
        ...

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        ...

    def chance(self, percent: int) -> bool:
        """True so many times in a hundred."""
        ...


class Port(Protocol):
    """The allocator an action calls, with the world it changes."""

    world: World
    config: Config
    profile: Profile
    parameters: tuple[str, ...]
    reach: Reach

    def look_up(self, request: Request) -> Hit: ...
    def allocate(self, call: Call, hit: Hit = NO_HIT) -> int | None: ...
    def allocate_batch(self, calls: Sequence[Call]) -> int: ...
    def commit(self, request: Request, num_computed_tokens: int) -> None: ...
    def settled(self, request: Request, before: Request) -> None: ...
    def free(self, request: Request) -> None: ...
    def preempt(self, request: Request) -> None: ...
    def defer_free(self, request: Request) -> None: ...
    def return_deferred(self) -> None: ...
    def release_copy(self) -> None: ...
    def evict(self, blocks: tuple[int, ...]) -> None: ...
    def reset_prefix_cache(self) -> None: ...
    def offers(self, verb: str) -> bool: ...


Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Action:
    """One call with its arguments; JSON in and out."""

    verb: str
    arguments: Arguments = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The action as an object of a vector file."""
        return {"verb": self.verb, **self.arguments}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Action":
        """The action of a vector file's object; lists become tuples."""
        arguments: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
        }
        verb = str(arguments.pop("verb"))
        return cls(verb, arguments)

    def __str__(self) -> str:
        words = [self.verb]
        for name, value in self.arguments.items():
            shown = abridged(value) if isinstance(value, tuple) else value
            words.append(str(value) if name == "request" else f"{name}={shown}")
        return " ".join(words)


def abridged(values: tuple[Any, ...]) -> str:
    """A list in words, its end left out where it is long."""
    if len(values) > 16:
        return f"[{' '.join(map(str, values[:4]))} … {len(values)} in all]"
    return f"[{' '.join(map(str, values))}]"


@dataclass(frozen=True, slots=True)
class Verb(Generic[Side]):
    """One row of the table.

    `needs` names the arguments it cannot go without, `weight` is how often the driver tries it; `propose` returns None
    where the world has no use for it.
    """

    name: str
    meaning: str
    needs: tuple[str, ...]
    weight: int
    propose: Callable[[Side, Chooser], Arguments | None]
    run: Callable[[Side, Arguments], None]
    applies: Callable[[Any], bool] = lambda _: True
    """Whether the driver tries it at all in a configuration."""


# Admission: a new request, a waiting one again, or one whose tokens a connector loads.


def propose_admit(port: Port, chooser: Chooser) -> Arguments | None:
    """A new request, of a few the one whose situation the run has met least."""
    if len(port.world.requests) >= 5 or max_tokens(port) < 1:
        return None
    ways = [propose_new_request(port, chooser) for _ in range(chooser.ways)]
    return least_met(port, [(request_of(port, way)[1], way) for way in ways])


def propose_new_request(port: Port, chooser: Chooser) -> dict[str, Any]:
    """A new prompt that may share its beginning with one seen before."""
    prompt = propose_prompt(port, chooser)
    arguments: dict[str, Any] = {"request": name_of(port.world), "prompt": prompt}
    if port.profile.salts and chooser.chance(12):
        arguments |= chooser.pick(({"salt": "s"}, {"salt": "t"}, {"extra": ("s",)}))
    return {**arguments, **propose_chunk(port, chooser, len(prompt)), **propose_pressure(port, chooser, entering=True)}


def request_of(port: Port, arguments: Arguments) -> tuple[KeyTable, Request]:
    """The new request that an admission introduces."""
    prompt, extra = arguments["prompt"][: max_tokens(port)], tuple(arguments.get("extra", ()))
    config, salt = port.config, arguments.get("salt")
    return new_request(
        port.world.keys, arguments["request"], prompt, config.block_size, salt, extra, hash_size=config.hash_size
    )


def propose_prompt(port: Port, chooser: Chooser) -> tuple[int, ...]:
    """Two token ids only, so that prompts collide: a fresh prompt, an earlier one, or one grown from it."""
    seen = [*port.world.requests.values(), *port.world.ended[-4:]]
    beginning: tuple[int, ...] = ()
    if seen and chooser.chance(80):
        tokens = chooser.pick(seen).token_ids
        beginning = tokens if chooser.chance(70) else tokens[: chooser.integer(1, len(tokens))]
    more = chooser.integer(0 if beginning else 1, 2 * port.config.block_size + 1)
    # Most prompts leave room for the tokens and drafts that follow.
    longest = max_tokens(port) if chooser.chance(40) else -(-2 * max_tokens(port) // 3)
    return (beginning + tuple(chooser.integer(1, 2) for _ in range(more)))[:longest]


def max_tokens(port: Port) -> int:
    """Finalized tokens a request may reach."""
    return port.config.max_model_len - 1


def propose_chunk(port: Port, chooser: Chooser, remaining: int) -> Arguments:
    """How many of the remaining tokens this call computes, all of them if it does not say; short chunks end inside a
    block.
    """
    if not port.profile.chunked_prefill or chooser.chance(35):
        return {}
    return {"new": chooser.integer(1, min(remaining, port.config.block_size + 2))}


def propose_pressure(port: Port, chooser: Chooser, *, entering: bool) -> Arguments:
    """The parameters that make an admission harder, those the target has."""
    pressure: dict[str, Any] = {}
    if chooser.chance(45):
        pressure["lookahead"] = chooser.integer(1, port.config.block_size)
    if chooser.chance(50):
        pressure["whole"] = True
    if chooser.chance(30):
        more_than_free = port.world.snapshot.pool.num_free() + 1
        pressure["reserved"] = more_than_free if chooser.chance(30) else chooser.integer(1, more_than_free)
    if entering and chooser.chance(30):
        pressure["alone"] = True
    if entering and chooser.chance(10):
        pressure["external"] = chooser.integer(1, 2 * port.config.block_size)
    return {name: value for name, value in pressure.items() if PARAMETERS[name] in port.parameters}


PARAMETERS = {
    "lookahead": "num_lookahead_tokens",
    "whole": "full_sequence_must_fit",
    "reserved": "reserved_blocks",
    "alone": "has_scheduled_reqs",
    "external": "num_external_computed_tokens",
}
"""Argument of an action -> parameter of `allocate_slots`."""


def name_of(world: World) -> str:
    """A name for the next request: A … Z, then A1 …"""
    number = len(world.requests) + len(world.ended)
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def run_admit(port: Port, arguments: Arguments) -> None:
    """Introduce a request and ask for its first slots."""
    name, prompt = arguments["request"], arguments["prompt"][: max_tokens(port)]
    known = {*port.world.requests, *(request.request_id for request in port.world.ended)}
    if name in known or not prompt:
        return
    keys, request = request_of(port, arguments)
    port.world = port.world.with_request(request, keys)
    enter(port, request, arguments)


def propose_retry(port: Port, chooser: Chooser) -> Arguments | None:
    """A waiting request again, of a few ways to ask the one whose situation the run has met least."""
    waiting = port.world.waiting()
    if not waiting:
        return None
    ways = []
    for _ in range(chooser.ways):
        request = chooser.pick(waiting)
        chunk = propose_chunk(port, chooser, max(1, request.num_uncomputed_tokens))
        ways.append({"request": request.request_id, **chunk, **propose_pressure(port, chooser, entering=True)})
    return least_met(port, [(port.world.requests[way["request"]], way) for way in ways])


def least_met(port: Port, ways: list[tuple[Request, dict[str, Any]]]) -> Arguments:
    """The arguments whose situation the run has met least."""
    if len(ways) == 1:
        return ways[0][1]
    snapshot = port.world.snapshot
    hits: dict[tuple[Any, ...], tuple[Hit, HitKind]] = {(): (NO_HIT, HitKind.NONE)}

    def times_met(request: Request, arguments: Arguments) -> tuple[float, float]:
        prefix = (*request.prefix_keys, *request.part_keys[-1:]) if request.num_computed_tokens == 0 else ()
        if prefix not in hits:
            found = get_computed_blocks(snapshot, request)
            hits[prefix] = Hit(found.num_tokens, found.blocks, tails=found.tails), hit_kind(snapshot, found)
        hit, kind = hits[prefix]
        external, new = entering_tokens(port, request, hit, arguments)
        start = request.num_computed_tokens + hit.num_tokens + external
        if not 0 < new <= port.config.max_model_len - start:
            return inf, inf
        lookahead, drafts = arguments.get("lookahead", 0), len(arguments.get("drafts", ()))
        boundary = boundary_of(port.config, start, new + drafts + lookahead)
        situation = request.status, kind, lookahead > 0, boundary
        asked = ASKED_IN_FULL if "whole" in arguments else ASKED_FOR_THIS_STEP
        met = [port.reach[Cell(outcome, *situation)] for outcome in asked]
        return min(met), sum(met)

    return min(ways, key=lambda way: times_met(*way))[1]


ASKED_FOR_THIS_STEP = (Outcome.ACCEPTED, Outcome.STEP)
ASKED_IN_FULL = (*ASKED_FOR_THIS_STEP, Outcome.WHOLE_PROMPT)


def run_retry(port: Port, arguments: Arguments) -> None:
    """Ask again for a request that was refused or preempted, or whose load is done."""
    request = port.world.requests.get(arguments["request"])
    if request is not None and request in port.world.waiting():
        enter(port, request, arguments)


def enter(port: Port, request: Request, arguments: Arguments) -> None:
    """Look up if nothing is computed, then ask."""
    hit = port.look_up(request) if request.num_computed_tokens == 0 else NO_HIT
    call = entering_call(port, request, hit, arguments)
    found = port.allocate(call, hit) if call is not None else None
    if call is not None and found is not None:
        computed_here = call.num_new_tokens - (found - hit.num_tokens)
        adopted = found + call.num_external_computed_tokens
        port.world = port.world.with_request(schedule(request, adopted, computed_here))


def entering_call(port: Port, request: Request, hit: Hit, arguments: Arguments) -> Call | None:
    """The call behind an admission."""
    external, new = entering_tokens(port, request, hit, arguments)
    return call_of(port, request, hit, new, {**arguments, "external": external})


def entering_tokens(port: Port, request: Request, hit: Hit, arguments: Arguments) -> tuple[int, int]:
    """External and new tokens of an admission; what is not computed here leaves at least one token to compute."""
    remaining = request.num_uncomputed_tokens - hit.num_tokens
    external = min(arguments.get("external", 0), remaining - 1) if request.num_computed_tokens == 0 else 0
    remaining -= external
    return external, min(arguments.get("new", remaining), remaining) if port.profile.chunked_prefill else remaining


def call_of(port: Port, request: Request, hit: Hit, new: int, arguments: Arguments) -> Call | None:
    """The call with what the target's signature has; None if it would ask for nothing, or for more than the model's
    length.
    """
    external = arguments.get("external", 0)
    start = request.num_computed_tokens + hit.num_tokens + external
    if new + hit.num_tokens + external < 1 or new < 0 or start + new > port.config.max_model_len:
        return None
    return Call(
        request,
        new,
        SpecHit(hit.num_tokens, hit.blocks or ((),) * len(port.config.groups), hit.tails),
        arguments.get("lookahead", 0),
        external,
        delay_cache_blocks=bool(arguments.get("delayed", False)),
        full_sequence_must_fit=bool(arguments.get("whole", False)),
        reserved_blocks=arguments.get("reserved", 0),
        has_scheduled_reqs=not arguments.get("alone", False),
    )


def propose_load(port: Port, chooser: Chooser) -> Arguments | None:
    """A waiting request whose first tokens a connector loads while nothing is computed."""
    fresh = [request for request in port.world.waiting() if request.num_computed_tokens == 0]
    if not fresh or not {"num_external_computed_tokens", "delay_cache_blocks"} <= set(port.parameters):
        return None
    request = chooser.pick(fresh)
    external = chooser.integer(1, max(1, request.num_tokens - 1))
    pressure = {**propose_pressure(port, chooser, entering=True), "external": external}
    return {"request": request.request_id, **pressure}


def run_load(port: Port, arguments: Arguments) -> None:
    """Ask for the slots of an asynchronous load: no new tokens, no keys yet, and the request keeps waiting."""
    request = port.world.requests.get(arguments["request"])
    if request is None or request not in port.world.waiting() or request.num_computed_tokens > 0:
        return
    hit = port.look_up(request)
    external = min(arguments["external"], request.num_tokens - 1 - hit.num_tokens)
    if external < 1:
        return
    without_lookahead = {**arguments, "external": external, "lookahead": 0, "delayed": True}
    call = call_of(port, request, hit, 0, without_lookahead)
    if call is not None and port.allocate(call, hit) is not None:
        world = port.world.with_request(await_load(request, hit.num_tokens + external))
        port.world = replace(world, loading=world.loading | {request.request_id})


def propose_loaded(port: Port, chooser: Chooser) -> Arguments | None:
    """One of the loads under way."""
    loading = sorted(port.world.loading)
    return {"request": chooser.pick(loading)} if loading else None


def run_loaded(port: Port, arguments: Arguments) -> None:
    """The load is done: its blocks may be offered, and the request may be admitted."""
    name = arguments["request"]
    if name in port.world.loading:
        request = port.world.requests[name]
        port.world = replace(port.world, loading=port.world.loading - {name})
        port.commit(request, request.num_computed_tokens)


# Running requests.


def propose_extend(port: Port, chooser: Chooser) -> Arguments | None:
    """The next chunk of a prompt, or the next token with drafts behind it."""
    ready = [
        request
        for request in port.world.running()
        if request.num_uncomputed_tokens > 0 and (port.profile.runs_ahead or not request.flights)
    ]
    if not ready:
        return None
    ways = [propose_next_tokens(port, chooser, chooser.pick(ready)) for _ in range(chooser.ways)]
    return least_met(port, [(port.world.requests[way["request"]], way) for way in ways])


def propose_next_tokens(port: Port, chooser: Chooser, request: Request) -> dict[str, Any]:
    """A chunk, or all that is known and drafts behind it."""
    chunk = propose_chunk(port, chooser, request.num_uncomputed_tokens)
    arguments: dict[str, Any] = {"request": request.request_id, **chunk}
    reaches_end = chunk.get("new", request.num_uncomputed_tokens) == request.num_uncomputed_tokens
    if not port.profile.one_token_decode and reaches_end and chooser.chance(65):
        drafts = chooser.integer(1, port.config.block_size + 1)
        arguments["drafts"] = tuple(chooser.integer(1, 2) for _ in range(drafts))
    return {**arguments, **propose_pressure(port, chooser, entering=False)}


def run_extend(port: Port, arguments: Arguments) -> None:
    """Ask for the slots of a running request's next tokens."""
    request = port.world.requests.get(arguments["request"])
    if request is None or request.status != Status.RUNNING or request.num_uncomputed_tokens < 1:
        return
    if request.flights and not port.profile.runs_ahead:
        return
    new = min(arguments.get("new", request.num_uncomputed_tokens), request.num_uncomputed_tokens)
    room = port.config.max_model_len - request.num_computed_tokens - new
    drafts = arguments.get("drafts", ())[:room] if new == request.num_uncomputed_tokens else ()
    proposed = propose(request, drafts)
    call = call_of(port, proposed, NO_HIT, new + len(drafts), {**arguments, "external": 0})
    if call is not None and port.allocate(call) is not None:
        port.world = port.world.with_request(schedule(proposed, 0, new + len(drafts)))


def propose_batch(port: Port, chooser: Chooser) -> Arguments | None:
    """Some running requests decode together, in any order."""
    ready = [request.request_id for request in port.world.running() if may_decode(port, request)]
    if len(ready) < 2 or not port.offers("batch"):
        return None
    rows: list[str] = []
    while ready and (len(rows) < 2 or chooser.chance(60)):
        rows.append(ready.pop(chooser.integer(0, len(ready) - 1)))
    pressure = propose_pressure(port, chooser, entering=False)
    return {"requests": tuple(rows), **{name: pressure[name] for name in ("lookahead", "reserved") if name in pressure}}


def may_decode(port: Port, request: Request) -> bool:
    """Whether a running request has a token to compute and may be scheduled now."""
    waits = request.flights and not port.profile.runs_ahead
    return request.num_uncomputed_tokens > 0 and not waits and request.num_computed_tokens < port.config.max_model_len


def run_batch(port: Port, arguments: Arguments) -> None:
    """Ask for one token of each of these requests; those that are served are scheduled."""
    running = {request.request_id: request for request in port.world.running() if may_decode(port, request)}
    rows = [running[name] for name in dict.fromkeys(arguments["requests"]) if name in running]
    if not rows or not port.offers("batch"):
        return
    asked = {**arguments, "external": 0}
    calls = [call for row in rows if (call := call_of(port, propose(row, ()), NO_HIT, 1, asked)) is not None]
    for call in calls[: port.allocate_batch(calls)]:
        port.world = port.world.with_request(schedule(call.request, 0, 1))


def propose_output(port: Port, chooser: Chooser) -> Arguments | None:
    """The step in flight of some request is done."""
    flying = [request for request in port.world.running() if request.flights]
    if not flying:
        return None
    request = chooser.pick(flying)
    accepted = chooser.integer(0, len(request.flights[0].drafts)) if chooser.chance(60) else 0
    arguments: dict[str, Any] = {"request": request.request_id, "accepted": accepted, "token": chooser.integer(1, 2)}
    if port.profile.keys_at == "schedule" and chooser.chance(50):
        arguments["uncommitted"] = True
    return arguments


def run_output(port: Port, arguments: Arguments) -> None:
    """Process the oldest step: tokens become final, rejected drafts are dropped, and the target is told."""
    request = port.world.requests.get(arguments["request"])
    if request is None or not request.flights:
        return
    flight = request.flights[0]
    accepted = min(arguments["accepted"], len(flight.drafts), max_tokens(port) - request.num_tokens - 1)
    if flight.samples and accepted < 0:
        return
    config = port.config
    keys, after = settle(port.world.keys, request, accepted, arguments["token"], config.block_size, config.hash_size)
    port.world = port.world.with_request(after, keys)
    port.settled(after, request)
    if not arguments.get("uncommitted", False):
        settled = after.num_computed_tokens - after.num_in_flight_tokens
        port.commit(after, min(settled, after.num_tokens))


# Giving back.


def propose_holder(port: Port, chooser: Chooser) -> Arguments | None:
    """A live request; now and then one that ended before, where the target says what freeing it does."""
    if port.profile.unknown_free != "undefined" and port.world.ended and chooser.chance(10):
        return {"request": chooser.pick(port.world.ended).request_id}
    live = sorted(port.world.requests)
    return {"request": chooser.pick(live)} if live else None


def run_free(port: Port, arguments: Arguments) -> None:
    """End a request, or free one that ended before."""
    name = arguments["request"]
    request = port.world.requests.get(name)
    if request is not None:
        port.free(request)
        port.world = port.world.without_request(name)
    elif port.profile.unknown_free != "undefined":
        ended = [request for request in port.world.ended if request.request_id == name]
        for request in ended[:1]:
            port.free(request)


def propose_running(port: Port, chooser: Chooser) -> Arguments | None:
    """A running request."""
    running = port.world.running()
    return {"request": chooser.pick(running).request_id} if running else None


def propose_preempt(port: Port, chooser: Chooser) -> Arguments | None:
    """A running request; mostly one that shares blocks, because it comes back to a hit that others hold in part."""
    running = port.world.running()
    if not running:
        return None
    shared = [request for request in running if shares_blocks(port.world.snapshot, request)]
    return {"request": chooser.pick(shared if shared and chooser.chance(70) else running).request_id}


def shares_blocks(snapshot: Snapshot, request: Request) -> bool:
    """Whether another request's table names a block of this one's."""
    tables = snapshot.holding(request.request_id).tables
    return any(snapshot.pool.ref(block) > 1 for table in tables for block in table.entries)


def run_preempt(port: Port, arguments: Arguments) -> None:
    """Take a running request's blocks; it waits again."""
    request = port.world.requests.get(arguments["request"])
    if request is not None and request.status == Status.RUNNING:
        port.preempt(request)
        port.world = port.world.with_request(withdraw(request))


def propose_defer(port: Port, chooser: Chooser) -> Arguments | None:
    """A running request ends while a step may still write its blocks."""
    return propose_running(port, chooser) if port.offers("defer") else None


def run_defer(port: Port, arguments: Arguments) -> None:
    """End a request and keep its blocks held."""
    request = port.world.requests.get(arguments["request"])
    if request is not None and port.offers("defer"):
        port.defer_free(request)
        port.world = port.world.without_request(request.request_id)


def propose_return(port: Port, chooser: Chooser) -> Arguments | None:
    """Some deferred free waits."""
    return {} if port.world.snapshot.waiting_frees else None


def run_return(port: Port, arguments: Arguments) -> None:
    """Give the oldest deferred free back."""
    if port.world.snapshot.waiting_frees:
        port.return_deferred()


def propose_copied(port: Port, chooser: Chooser) -> Arguments | None:
    """Some copy is not known to be done."""
    return {} if port.world.snapshot.copies else None


def run_copied(port: Port, arguments: Arguments) -> None:
    """The step of the oldest copy is done."""
    if port.world.snapshot.copies:
        port.release_copy()


def propose_evict(port: Port, chooser: Chooser) -> Arguments | None:
    """Some of the keyed blocks, held or idle."""
    pool = port.world.snapshot.pool
    keyed = [block for block in range(1, port.config.num_blocks) if pool.key_of(block) != NO_KEY]
    if not keyed or not port.offers("evict"):
        return None
    return {"blocks": tuple(sorted({chooser.pick(keyed) for _ in range(chooser.integer(1, 2))}))}


def run_evict(port: Port, arguments: Arguments) -> None:
    """Take keys away."""
    blocks = tuple(block for block in arguments["blocks"] if 0 < block < port.config.num_blocks)
    if blocks and port.offers("evict"):
        port.evict(blocks)


def propose_reset(port: Port, chooser: Chooser) -> Arguments | None:
    """The cache is to be emptied; mostly when that can succeed."""
    if not port.offers("reset"):
        return None
    held = port.world.snapshot.pool.num_free() < port.config.usable_blocks
    return {} if chooser.chance(20 if held else 100) else None


def run_reset(port: Port, arguments: Arguments) -> None:
    """Empty the cache."""
    if port.offers("reset"):
        port.reset_prefix_cache()


VERBS: tuple[Verb[Port], ...] = (
    Verb(
        "admit",
        "a new request with this prompt asks for its first slots",
        ("request", "prompt"),
        20,
        propose_admit,
        run_admit,
    ),
    Verb("retry", "a waiting or preempted request asks again", ("request",), 32, propose_retry, run_retry),
    Verb(
        "load",
        "a waiting request asks for the slots of an asynchronous load",
        ("request", "external"),
        3,
        propose_load,
        run_load,
    ),
    Verb("loaded", "a load is done and its blocks may be offered", ("request",), 4, propose_loaded, run_loaded),
    Verb(
        "extend", "a running request asks for slots for its next tokens", ("request",), 20, propose_extend, run_extend
    ),
    Verb(
        "batch",
        "running requests decode together, a token each",
        ("requests",),
        4,
        propose_batch,
        run_batch,
    ),
    Verb(
        "output",
        "the oldest step in flight of a request is processed",
        ("request", "accepted", "token"),
        20,
        propose_output,
        run_output,
    ),
    Verb("free", "a request ends", ("request",), 8, propose_holder, run_free),
    Verb("preempt", "a running request loses its blocks and waits", ("request",), 16, propose_preempt, run_preempt),
    Verb("defer", "a request ends, its blocks stay held for now", ("request",), 3, propose_defer, run_defer),
    Verb("return", "the oldest deferred free gives its blocks back", (), 3, propose_return, run_return),
    Verb(
        "copied",
        "the step of the oldest copy is done, so both blocks are let go",
        (),
        6,
        propose_copied,
        run_copied,
        lambda config: config.has_partial_hits,
    ),
    Verb("evict", "keys are taken away from outside", ("blocks",), 2, propose_evict, run_evict),
    Verb("reset", "the prefix cache is emptied, if nothing is held", (), 1, propose_reset, run_reset),
)

BY_NAME: dict[str, Verb[Port]] = {verb.name: verb for verb in VERBS}


def perform(port: Port, action: Action) -> None:
    """Carry an action out; it does nothing where the world has no use for it."""
    BY_NAME[action.verb].run(port, action.arguments)

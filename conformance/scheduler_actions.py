"""The second action table: everything that happens to a scheduler, once.

Whatever is random about a request is drawn when it is added and travels with the action that adds it, so any part of a
trace is a trace.
"""

from collections.abc import Sequence

from slotproof.conformance.actions import Arguments, Chooser, Verb
from slotproof.conformance.engine import Client, Engine
from slotproof.conformance.scheduler_adapter import LoadOffer, NewRequest
from slotproof.conformance.worker import Behaviour

MOST_LIVE = 5
"""Requests at once."""


def propose_add(engine: Engine, chooser: Chooser) -> Arguments | None:
    """A new request, its prompt perhaps grown from another's whole conversation."""
    longest = engine.config.pool.max_model_len
    if len(engine.live) >= MOST_LIVE or longest < 2:
        return None
    prompt = propose_prompt(engine, chooser)
    arguments: dict[str, object] = {"request": name_of(engine), "prompt": prompt}
    room = max(1, longest - len(prompt))
    arguments["max_tokens"] = (
        room if chooser.chance(30) else chooser.integer(1, min(room, 3 * engine.config.pool.block_size))
    )
    arguments |= {"seed": chooser.integer(1, 2)} if chooser.chance(15) else {}
    if engine.config.policy == "priority":
        arguments["priority"] = chooser.integer(0, 2)
    if chooser.chance(20):
        arguments["stops_at"] = len(prompt) + chooser.integer(1, 2 * engine.config.pool.block_size)
    if engine.config.num_drafts:
        arguments["miss"] = chooser.pick((0, 30, 60, 100))
    if chooser.chance(30):
        arguments["session"] = True
    if engine.config.connector:
        arguments |= propose_transfers(engine, chooser, len(prompt))
    return arguments


def propose_transfers(engine: Engine, chooser: Chooser, length: int) -> dict[str, object]:
    """What the connector has for the request, and what becomes of it."""
    transfers: dict[str, object] = {}
    if chooser.chance(75):
        block_size = engine.config.pool.block_size
        blocks = chooser.integer(1, max(1, length // block_size))
        transfers["load"] = length if chooser.chance(25) else min(length, blocks * block_size)
        transfers |= {"beside": True} if chooser.chance(60) else {}
        transfers |= {"unsure": chooser.integer(1, 3)} if chooser.chance(20) else {}
        # With several groups vLLM takes no failures block by block.
        if len(engine.config.pool.groups) == 1 and chooser.chance(40):
            transfers["fails_at"] = chooser.integer(0, blocks - 1)
    if chooser.chance(20):
        transfers["sends"] = True
    if transfers and chooser.chance(60):
        transfers["latency"] = chooser.integer(1, 4)
    return transfers


def propose_prompt(engine: Engine, chooser: Chooser) -> tuple[int, ...]:
    """Two token ids only: a fresh prompt, or all or some of an earlier request's tokens, outputs included, and more."""
    longest = engine.config.pool.max_model_len - 1
    seen = list(engine.clients.values())[-6:]
    beginning: Sequence[int] = ()
    if seen and chooser.chance(80):
        client = chooser.pick(seen)
        beginning = [token for token in client.tokens if token in (1, 2)]
        if chooser.chance(20):
            beginning = client.request.prompt
        if beginning and chooser.chance(25):
            beginning = beginning[: chooser.integer(1, len(beginning))]
    more = chooser.integer(0 if beginning else 1, 2 * engine.config.pool.block_size + 1)
    # Most prompts leave room for outputs, so that running requests outgrow the pool.
    longest = longest if chooser.chance(40) else max(1, longest // 2)
    return (*beginning, *(chooser.integer(1, 2) for _ in range(more)))[:longest]


def name_of(engine: Engine) -> str:
    """A name for the next request: A … Z, then A1 …"""
    number = len(engine.clients)
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def run_add(engine: Engine, arguments: Arguments) -> None:
    """A client sends a request; one that the engine would not take is not sent."""
    name, prompt = arguments["request"], tuple(arguments["prompt"])
    room = engine.config.pool.max_model_len - len(prompt)
    if name in engine.clients or not prompt or room < 1:
        return
    load = min(arguments.get("load", 0), len(prompt)) if engine.config.connector else 0
    offer = LoadOffer(load, arguments.get("beside", False), arguments.get("unsure", 0)) if load else None
    request = NewRequest(
        name,
        prompt,
        min(arguments["max_tokens"], room),
        arguments.get("priority", 0),
        resumable=arguments.get("session", False),
        offer=offer,
        sends=bool(engine.config.connector) and arguments.get("sends", False),
    )
    behaviour = Behaviour(
        arguments.get("seed", 0),
        arguments.get("stops_at", 0),
        arguments.get("miss", 0),
        arguments.get("latency", 0),
        arguments.get("fails_at"),
    )
    engine.add(request, behaviour)


def propose_step(engine: Engine, chooser: Chooser) -> Arguments | None:
    """One turn of the engine's loop, during which now and then a client goes away."""
    if not engine.view.has_work and not engine.steps_in_flight:
        return None
    if engine.live and chooser.chance(4):
        return {"abort": chooser.pick(engine.live).request.request_id}
    return {}


def run_step(engine: Engine, arguments: Arguments) -> None:
    """Schedule, execute and process as the engine core does."""
    engine.step(live_client(engine, arguments.get("abort", "")))


def propose_live(engine: Engine, chooser: Chooser) -> Arguments | None:
    """A request that has not ended."""
    return {"request": chooser.pick(engine.live).request.request_id} if engine.live else None


def run_abort(engine: Engine, arguments: Arguments) -> None:
    """A client goes away between two steps."""
    client = live_client(engine, arguments["request"])
    if client is not None:
        engine.abort(client)


def propose_input(engine: Engine, chooser: Chooser) -> Arguments | None:
    """More input for a session, which may still be busy with the last one."""
    sessions = [client for client in engine.live if client.request.resumable and not client.closing]
    if not sessions:
        return None
    client = chooser.pick(sessions)
    tokens = tuple(chooser.integer(1, 2) for _ in range(chooser.integer(1, engine.config.pool.block_size + 1)))
    return {"request": client.request.request_id, "tokens": tokens, "max_tokens": chooser.integer(1, 4)}


def run_input(engine: Engine, arguments: Arguments) -> None:
    """Say more in a session, as far as the model's length allows."""
    client = live_client(engine, arguments["request"])
    if client is None or not client.request.resumable or client.closing or not arguments["tokens"]:
        return
    waiting = sum(len(tokens) + most for tokens, most in client.inputs)
    longest = len(client.tokens) - client.told + client.max_tokens + waiting
    room = engine.config.pool.max_model_len - longest - len(arguments["tokens"])
    if room >= 1:
        engine.add_input(client, tuple(arguments["tokens"]), min(arguments["max_tokens"], room))


def run_close(engine: Engine, arguments: Arguments) -> None:
    """Close a session."""
    client = live_client(engine, arguments["request"])
    if client is not None and client.request.resumable and not client.closing:
        engine.add_input(client, (), 1)


def propose_close(engine: Engine, chooser: Chooser) -> Arguments | None:
    """One of the open sessions."""
    sessions = [client for client in engine.live if client.request.resumable and not client.closing]
    return {"request": chooser.pick(sessions).request.request_id} if sessions else None


def propose_reset(engine: Engine, chooser: Chooser) -> Arguments | None:
    """The cache is to be emptied, with what runs or without."""
    return {"running": True} if chooser.chance(60) else {}


def run_reset(engine: Engine, arguments: Arguments) -> None:
    """Empty the prefix cache."""
    engine.reset(arguments.get("running", False))


def propose_drain(engine: Engine, chooser: Chooser) -> Arguments | None:
    """Nothing new comes for a while."""
    return {} if engine.live else None


def run_drain(engine: Engine, arguments: Arguments) -> None:
    """Step until everything has ended."""
    engine.drain()


def live_client(engine: Engine, name: str) -> Client | None:
    """The client of that name, unless its request has ended."""
    client = engine.clients.get(name)
    return client if client is not None and client.live else None


SCHEDULER_VERBS: tuple[Verb[Engine], ...] = (
    Verb("add", "a new request arrives", ("request", "prompt", "max_tokens"), 22, propose_add, run_add),
    Verb("step", "the engine schedules, executes and processes", (), 100, propose_step, run_step),
    Verb("abort", "a client goes away", ("request",), 2, propose_live, run_abort),
    Verb("input", "a session gets more input", ("request", "tokens", "max_tokens"), 10, propose_input, run_input),
    Verb("close", "a session is closed", ("request",), 1, propose_close, run_close),
    Verb("reset", "the prefix cache is emptied", (), 4, propose_reset, run_reset),
    Verb("drain", "nothing new comes until everything has ended", (), 2, propose_drain, run_drain),
)

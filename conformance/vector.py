"""Vectors: a configuration, the calls made and what must come out of them, as JSON that anybody can read.

The schema is `vectors/schema.json`. A vector without expectations still says something: the laws must hold at each of
its steps.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema

from slotproof.conformance.actions import BY_NAME, Action, perform
from slotproof.conformance.adapter import Adapter, Strictness
from slotproof.conformance.deviations import Deviation
from slotproof.conformance.errors import SetupError
from slotproof.conformance.json_file import document_of, text_of
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.settings import make_groups, parse_groups
from slotproof.spec.config import Config, FreeOrder
from slotproof.spec.groups import SlidingWindow
from slotproof.spec.laws import BY_ID
from slotproof.spec.pool import NO_KEY
from slotproof.spec.transition import Allocated, Reset

FORMAT = "slotproof-vector-1"
FOLDER = files("slotproof.conformance.vectors")


@dataclass(frozen=True, slots=True)
class Step:
    """One action and what is expected after it, by the names of the schema."""

    action: Action
    expect: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Vector:
    """A named trace tagged with the laws it speaks about."""

    name: str
    laws: tuple[str, ...]
    config: Config
    steps: tuple[Step, ...]
    source: str = ""
    violates: Mapping[str, str] | None = None

    @property
    def actions(self) -> tuple[Action, ...]:
        """The calls alone."""
        return tuple(step.action for step in self.steps)

    def as_json(self) -> dict[str, Any]:
        """The vector as a JSON object of the schema."""
        document: dict[str, Any] = {
            "format": FORMAT,
            "name": self.name,
            "laws": list(self.laws),
            "config": config_as_json(self.config),
            "actions": [
                {**step.action.as_json(), **({"expect": dict(step.expect)} if step.expect else {})}
                for step in self.steps
            ],
        }
        if self.source:
            document["source"] = self.source
        if self.violates is not None:
            document["violates"] = dict(self.violates)
        return document


def read_vector(path: Path) -> Vector:
    """The vector in a file.

    Raises:
        SetupError: for a file that cannot be read, is no JSON, or is JSON of another kind.
    """
    return parse_vector(text_of(path), str(path))


def parse_vector(text: str, where: str) -> Vector:
    """The vector in a JSON text; `where` names it in messages."""
    document = document_of(text, where)
    schema = json.loads(FOLDER.joinpath("schema.json").read_text(encoding="utf-8"))
    problem = next(iter(sorted(jsonschema.Draft202012Validator(schema).iter_errors(document), key=str)), None)
    if problem is not None:
        place = "/".join(map(str, problem.absolute_path)) or "its top level"
        raise SetupError(f"{where} is JSON but no slotproof vector: at {place}, {problem.message}")
    for fields in document["actions"]:
        if fields["verb"] not in BY_NAME:
            known = ", ".join(BY_NAME)
            raise SetupError(f"{where} has an action with the unknown verb {fields['verb']!r}; the verbs are {known}")
        lacking = [name for name in BY_NAME[fields["verb"]].needs if name not in fields]
        if lacking:
            place = f"actions/{document['actions'].index(fields)}"
            raise SetupError(
                f"{where} is JSON but no slotproof vector: at {place}, {fields['verb']} needs {lacking[0]}"
            )
    unknown = [law for law in document["laws"] if law not in BY_ID]
    if unknown:
        raise SetupError(f"{where} is tagged with the unknown law {unknown[0]}; `slotproof laws` lists them")
    try:
        return _from_document(document)
    except (ValueError, KeyError, SetupError) as error:
        raise SetupError(f"{where} cannot be used: {error}") from error


def _from_document(document: dict[str, Any]) -> Vector:
    steps = []
    for fields in document["actions"]:
        arguments = {name: value for name, value in fields.items() if name != "expect"}
        steps.append(Step(Action.from_json(arguments), fields.get("expect", {})))
    return Vector(
        document["name"],
        tuple(document["laws"]),
        config_from_json(document["config"]),
        tuple(steps),
        document.get("source", ""),
        document.get("violates"),
    )


def config_as_json(config: Config) -> dict[str, Any]:
    """A configuration as the schema has it."""
    return {
        "num_blocks": config.num_blocks,
        "block_size": config.block_size,
        "groups": [f"window:{group.window}" if isinstance(group, SlidingWindow) else "full" for group in config.groups],
        "max_model_len": config.max_model_len,
        "max_in_flight_tokens": config.max_in_flight_tokens,
        "watermark_blocks": config.watermark_blocks,
        "caching": config.caching,
        "free_order": config.free_order.value,
        **({"hash_size": config.hash_size} if config.hash_size is not None else {}),
    }


def config_from_json(fields: Mapping[str, Any]) -> Config:
    """The configuration of a vector; what it leaves out is as unrestrictive as can be."""
    kinds = [parse_groups(text) for text in fields["groups"]]
    for text, parsed in zip(fields["groups"], kinds, strict=True):
        if len(parsed) > 1 or parsed[0][0] == "partial" or (parsed[0][0] == "window" and parsed[0][1] is None):
            raise SetupError(f"{text!r} is no group of a vector; write full, or window:W with W tokens, one a string")
    groups = make_groups(tuple(kind for (kind,) in kinds), fields["block_size"], window=2)
    longest = fields.get("max_model_len", fields["num_blocks"] * fields["block_size"])
    return Config(
        fields["num_blocks"],
        groups,
        longest,
        fields.get("max_in_flight_tokens", longest),
        fields.get("watermark_blocks", 0),
        fields.get("caching", True),
        FreeOrder(fields.get("free_order", "unhashed-first")),
        fields.get("hash_size"),
    )


def shipped_vectors() -> list[Vector]:
    """The vectors of the suite, by name."""
    found = [entry for entry in FOLDER.iterdir() if entry.name.endswith(".json") and entry.name != "schema.json"]
    return [parse_vector(entry.read_text(encoding="utf-8"), entry.name) for entry in sorted(found, key=str)]


class Mismatch(Exception):
    """A step of a vector came out otherwise than expected."""


def run_vector(
    adapter: Adapter, vector: Vector, tally: Tally | None = None, deviations: Sequence[Deviation] = ()
) -> None:
    """Carry a vector out on a target, the laws at each step, then what the vector expects of it.

    Known deviations are counted in the tally, and do not stop it.

    Raises:
        Violation: when a law objects.
        Mismatch: when a law-abiding answer is not the expected one; expectations are for targets at `identity`.
    """
    session = Session(adapter, vector.config, tally or Tally.fresh(), deviations=deviations)
    for number, step in enumerate(vector.steps, start=1):
        session.answers.clear()
        perform(session, step.action)
        if adapter.profile.strictness == Strictness.IDENTITY:
            for name, due in step.expect.items():
                if name == "answer" and not any(isinstance(event, Allocated) for event in session.answers):
                    raise Mismatch(f"{vector.name}, call {number} ({step.action}): it asked for nothing")
                got = OBSERVED[name](session, due)
                if got != due:
                    raise Mismatch(f"{vector.name}, call {number} ({step.action}): {name} is {got}, expected {due}")


def not_for(adapter: Adapter, vector: Vector) -> str | None:
    """Why a target cannot be asked about a vector, or None."""
    profile, config = adapter.profile, vector.config
    kinds = {"window" if isinstance(group, SlidingWindow) else "full" for group in config.groups}
    needed = [*sorted(kinds), *(["hybrid"] if len(config.groups) > 1 else [])]
    needed += ["partial"] if config.has_partial_hits else []
    lacking = [kind for kind in needed if kind not in profile.group_kinds]
    if lacking:
        return f"{profile.name} has no {lacking[0]} groups"
    if config.free_order.value not in profile.free_orders:
        return f"{profile.name} has no free order {config.free_order.value}"
    if config.caching not in profile.caching:
        return f"{profile.name} cannot have caching {'on' if config.caching else 'off'}"
    return None


def _answer(session: Session) -> Any:
    answered = [event for event in session.answers if isinstance(event, Allocated)]
    if not answered or answered[-1].answer is None:
        return None
    return [list(blocks) for blocks in answered[-1].answer]


def _tables(session: Session, name: str) -> list[list[int]]:
    return [list(table.entries) for table in session.snapshot.holding(name).tables]


def _refs(session: Session, blocks: Mapping[str, int]) -> dict[str, int | str]:
    pool = session.snapshot.pool
    return {block: pool.ref(int(block)) if int(block) < pool.num_blocks else "no block of the pool" for block in blocks}


OBSERVED: dict[str, Callable[[Session, Any], Any]] = {
    "answer": lambda session, _: _answer(session),
    "num_new": lambda session, _: sum(len(blocks) for blocks in _answer(session) or []),
    "hit": lambda session, _: sum(
        event.call.hit.num_tokens for event in session.answers if isinstance(event, Allocated)
    ),
    "free": lambda session, _: session.snapshot.pool.num_free(),
    "queue": lambda session, _: list(session.snapshot.pool.queue),
    "keyed": lambda session, _: [block for block, key in enumerate(session.snapshot.pool.keys) if key != NO_KEY],
    "tables": lambda session, due: {name: _tables(session, name) for name in due},
    "table_length": lambda session, due: {name: len(_tables(session, name)[0]) for name in due},
    "refs": lambda session, due: _refs(session, due),
    "copies": lambda session, _: [list(copy) for copy in session.snapshot.copies],
    "succeeded": lambda session, _: any(event.succeeded for event in session.answers if isinstance(event, Reset)),
}
"""What a vector can expect, by name, and how it is read off a session."""

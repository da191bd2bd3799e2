"""Traces of schedulers: an engine's configuration and what happened to it, as JSON that anybody can read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema

from slotproof.conformance.actions import Action
from slotproof.conformance.errors import SetupError
from slotproof.conformance.json_file import document_of, text_of
from slotproof.conformance.scheduler_actions import SCHEDULER_VERBS
from slotproof.conformance.scheduler_adapter import EngineConfig
from slotproof.conformance.scheduler_laws import LAW_IDS
from slotproof.conformance.vector import config_as_json, config_from_json

TRACE_FORMAT = "slotproof-scheduler-trace-1"

_ENGINE_FIELDS = tuple(name for name in EngineConfig.__dataclass_fields__ if name != "pool")

_TYPES = {"integer": int, "boolean": bool, "string": str}


def _json_type(value: object) -> str:
    return next(name for name, kind in _TYPES.items() if type(value) is kind)


SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["format", "name", "config", "actions"],
    "additionalProperties": False,
    "properties": {
        "format": {"const": TRACE_FORMAT},
        "name": {"type": "string"},
        "source": {"type": "string"},
        "config": {
            "type": "object",
            "required": ["pool"],
            "additionalProperties": False,
            "properties": {
                "pool": {"type": "object", "required": ["num_blocks", "block_size", "groups"]},
                **{
                    name: {"type": _json_type(EngineConfig.__dataclass_fields__[name].default)}
                    for name in _ENGINE_FIELDS
                },
            },
        },
        "actions": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["verb"],
                "properties": {"verb": {"enum": [verb.name for verb in SCHEDULER_VERBS]}},
                "allOf": [
                    {"if": {"properties": {"verb": {"const": verb.name}}}, "then": {"required": list(verb.needs)}}
                    for verb in SCHEDULER_VERBS
                ],
            },
        },
        "violates": {
            "type": "object",
            "required": ["law", "target", "objection"],
            "properties": {"law": {"enum": list(LAW_IDS)}},
        },
    },
}
"""What a trace looks like."""


@dataclass(frozen=True, slots=True)
class SchedulerTrace:
    """A named trace."""

    name: str
    config: EngineConfig
    actions: tuple[Action, ...]
    source: str = ""
    violates: Mapping[str, str] | None = None

    def as_json(self) -> dict[str, Any]:
        """The trace as a JSON object of the schema."""
        document: dict[str, Any] = {
            "format": TRACE_FORMAT,
            "name": self.name,
            "config": engine_as_json(self.config),
            "actions": [action.as_json() for action in self.actions],
        }
        if self.source:
            document["source"] = self.source
        if self.violates is not None:
            document["violates"] = dict(self.violates)
        return document


def is_trace(text: str) -> bool:
    """Whether a JSON text is a scheduler's trace, well formed or not."""
    try:
        document = json.loads(text)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("format") == TRACE_FORMAT


def read_trace(path: Path) -> SchedulerTrace:
    """The trace in a file.

    Raises:
        SetupError: for a file that cannot be read or is no trace.
    """
    return parse_trace(text_of(path), str(path))


def parse_trace(text: str, where: str) -> SchedulerTrace:
    """The trace in a JSON text; `where` names it in messages."""
    document = document_of(text, where)
    problem = next(iter(sorted(jsonschema.Draft202012Validator(SCHEMA).iter_errors(document), key=str)), None)
    if problem is not None:
        place = "/".join(map(str, problem.absolute_path)) or "its top level"
        raise SetupError(f"{where} is JSON but no trace of a scheduler: at {place}, {problem.message}")
    try:
        config = engine_from_json(document["config"])
    except (ValueError, KeyError, TypeError, SetupError) as error:
        raise SetupError(f"{where} cannot be used: {error}") from error
    actions = tuple(Action.from_json(fields) for fields in document["actions"])
    return SchedulerTrace(document["name"], config, actions, document.get("source", ""), document.get("violates"))


def engine_as_json(config: EngineConfig) -> dict[str, Any]:
    """An engine as a trace has it."""
    return {"pool": config_as_json(config.pool)} | {name: getattr(config, name) for name in _ENGINE_FIELDS}


def engine_from_json(fields: Mapping[str, Any]) -> EngineConfig:
    """The engine of a trace."""
    others = {name: value for name, value in fields.items() if name != "pool"}
    return EngineConfig(config_from_json(fields["pool"]), **others)


def engine_words(config: EngineConfig) -> str:
    """What an engine has beyond its pool, in one line."""
    words = ["asynchronous" if config.asynchronous else "synchronous", config.policy]
    words += [f"at most {config.max_num_seqs} run", f"{config.max_num_batched_tokens} tokens a step"]
    if config.long_prefill_token_threshold:
        words.append(f"chunks of {config.long_prefill_token_threshold}")
    if config.num_drafts:
        words.append(
            f"{config.num_drafts} drafts" + (" and as many lookahead tokens" if config.draft_lookahead else "")
        )
    if not config.reserve_whole_prompt:
        words.append("prompts need not fit whole")
    if config.connector:
        words.append(f"a connector, failed loads: {config.connector}")
    return ", ".join(words)

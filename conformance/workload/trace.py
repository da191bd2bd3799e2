"""Readers of recorded request traces: Mooncake, WEKA (run-length encoded), Azure and Vidur, plain or gzipped.

They stream: a file is read as its requests are asked for. A line that cannot be used is named by its number.
"""

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from slotproof.conformance.errors import SetupError

SUFFIXES = (".jsonl", ".csv", ".gz")

FORMATS = "Mooncake (JSON lines with hash_ids), WEKA (JSON lines with sessions), Azure (CSV) and Vidur (CSV)"


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request of a trace.

    arrival: seconds as the file has them, since the trace, the session or the sub-agent began; None where it has none.
    ids: what stands for each block of the prompt and everything before it, `id_tokens` tokens a block; the last id may
        stand for a partial block. None where the trace has none.
    """

    line: int
    session: int
    arrival: float | None
    num_prompt_tokens: int
    num_output_tokens: int
    id_tokens: int
    ids: tuple[int, ...] | None


Requests = Iterator[TraceRequest]


class _BadLineError(Exception):
    """What is wrong with a line."""


def is_trace(path: Path) -> bool:
    """Whether the name says that it is a trace, and no vector."""
    return path.suffix in SUFFIXES


def read_trace(path: Path) -> Requests:
    """The requests in the order of the file.

    Raises:
        SetupError: for a file that is not there or of no known format, and, when that is reached, for a bad line.
    """
    with _opened(path) as lines:
        first = lines.readline()
    reader = _reader_for(first)
    if reader is None:
        raise SetupError(f"{path}, line 1: no known trace begins so; known are {FORMATS}")
    return _read(path, reader)


def _read(path: Path, reader: Callable[[Iterable[str]], Requests]) -> Requests:
    number = 0

    def counted(lines: Iterable[str]) -> Iterator[str]:
        nonlocal number
        for number, line in enumerate(lines, start=1):  # noqa: B007
            yield line

    with _opened(path) as lines:
        try:
            yield from reader(counted(lines))
        except _BadLineError as error:
            raise SetupError(f"{path}, line {number}: {error}") from None
        except (UnicodeDecodeError, EOFError, OSError) as error:
            raise SetupError(f"{path}, after line {number}: it cannot be read on, {error}") from None


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            yield lines
    except FileNotFoundError:
        raise SetupError(f"{path} is not there; give the path of a trace") from None
    except (gzip.BadGzipFile, UnicodeDecodeError, IsADirectoryError, PermissionError) as error:
        raise SetupError(f"{path} cannot be read as a trace: {error}") from None


def _reader_for(first: str) -> Callable[[Iterable[str]], Requests] | None:
    if first.startswith("{"):
        return _weka if '"requests"' in first else _mooncake if '"hash_ids"' in first else None
    columns = first.strip().split(",")
    if {"TIMESTAMP", "ContextTokens", "GeneratedTokens"} <= set(columns):
        return _azure
    if {"num_prefill_tokens", "num_decode_tokens"} <= set(columns):
        return _vidur
    return None


MOONCAKE_BLOCK = 512


def _mooncake(lines: Iterable[str]) -> Requests:
    for number, line in enumerate(lines, start=1):
        row = _json(line)
        prompt, ids = _count(row, "input_length", least=1), _ids(row, "hash_ids")
        expected = -(-prompt // MOONCAKE_BLOCK)
        if len(ids) != expected:
            raise _BadLineError(
                f"input_length {prompt} needs {expected} hash_ids of {MOONCAKE_BLOCK} tokens, it has {len(ids)}"
            )
        arrival = _count(row, "timestamp") / 1000
        yield TraceRequest(number, 0, arrival, prompt, _count(row, "output_length"), MOONCAKE_BLOCK, ids)


def _weka(lines: Iterable[str]) -> Requests:
    for number, line in enumerate(lines, start=1):
        session = _json(line)
        size = _count(session, "block_size", least=1)
        for row in _flat(session.get("requests")):
            prompt, ids = _count(row, "in", least=1), _runs(row)
            if len(ids) != prompt // size:
                raise _BadLineError(
                    f"a request of {prompt} tokens needs {prompt // size} ids of {size} tokens, it has {len(ids)}"
                )
            # Ids are local to a session.
            keys = tuple(number << 32 | one for one in ids)
            yield TraceRequest(number, number, row["t"], prompt, _count(row, "out"), size, keys)


def _flat(rows: Any) -> Iterator[dict[str, Any]]:
    """The requests of a session in order, those of its sub-agents in their place."""
    if not isinstance(rows, list):
        raise _BadLineError("its requests are no list")
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("t"), int | float):
            raise _BadLineError("a request without a time t")
        if row.get("type") == "subagent":
            yield from _flat(row.get("requests"))
        else:
            yield row


def _runs(row: dict[str, Any]) -> tuple[int, ...]:
    """`[[a, n], …]` as a, a+1, …, a+n-1, and so on."""
    runs = row.get("h")
    if not isinstance(runs, list) or not all(
        isinstance(run, list) and len(run) == 2 and all(isinstance(part, int) and part >= 0 for part in run)
        for run in runs
    ):
        raise _BadLineError("h is no list of [first id, how many]")
    return tuple(one for first, many in runs for one in range(first, first + many))


def _azure(lines: Iterable[str]) -> Requests:
    began: datetime | None = None
    for number, row in _table(lines):
        try:
            # Seven digits of a second are one more than Python reads.
            at = datetime.fromisoformat(row["TIMESTAMP"][:26])
        except (ValueError, TypeError):
            raise _BadLineError(f"{row['TIMESTAMP']!r} is no time") from None
        began = began or at
        prompt, output = _number(row, "ContextTokens", least=1), _number(row, "GeneratedTokens")
        yield TraceRequest(number, 0, (at - began).total_seconds(), prompt, output, 0, None)


def _vidur(lines: Iterable[str]) -> Requests:
    for number, row in _table(lines):
        prompt, output = _number(row, "num_prefill_tokens", least=1), _number(row, "num_decode_tokens")
        yield TraceRequest(number, 0, None, prompt, output, 0, None)


def _table(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    for number, row in enumerate(csv.DictReader(lines), start=2):
        if None in row or None in row.values():
            raise _BadLineError("it has not as many fields as the first line")
        yield number, row


def _json(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        raise _BadLineError("it is no JSON, perhaps cut off") from None
    if not isinstance(row, dict):
        raise _BadLineError("it is no JSON object")
    return row


def _count(row: dict[str, Any], name: str, least: int = 0) -> int:
    value = row.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise _BadLineError(f"{name} is {value!r}, which is no whole number from {least} on")
    return value


def _number(row: dict[str, str], name: str, least: int = 0) -> int:
    text = row[name]
    if not text.isdigit() or int(text) < least:
        raise _BadLineError(f"{name} is {text!r}, which is no whole number from {least} on")
    return int(text)


def _ids(row: dict[str, Any], name: str) -> tuple[int, ...]:
    ids = row.get(name)
    if not isinstance(ids, list) or not all(isinstance(one, int) and one >= 0 for one in ids):
        raise _BadLineError(f"{name} is no list of whole numbers")
    return tuple(ids)


def load_requests(path: Path, limit: int | None, by_time: bool) -> list[TraceRequest]:
    """The requests to serve, in the order of the file or, if `by_time`, of their arrivals, then sessions, then lines.

    Raises:
        SetupError: for a trace that cannot be read, has nothing to serve, or has no times to go by.
    """
    requests = list(islice(read_trace(path), limit))
    if not requests:
        raise SetupError(f"{path} has no requests")
    if by_time:
        if any(request.arrival is None for request in requests):
            raise SetupError(f"{path} has no times to go by; leave out --by-time")
        requests.sort(key=lambda request: (request.arrival, request.session))
    return requests

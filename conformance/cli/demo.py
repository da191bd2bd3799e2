"""`slotproof demo`: one request through `allocate_slots`, every number from the specification."""

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from slotproof.conformance.cli.options import AsJson
from slotproof.conformance.cli.output import new_console, new_table, print_json, print_text
from slotproof.spec import (
    Allocation,
    Config,
    FullAttention,
    Hit,
    KeyTable,
    Refusal,
    Request,
    Snapshot,
    allocate_slots,
    empty,
    free,
    get_computed_blocks,
    new_request,
    schedule,
    settle,
)

NAME = "demo"
EXAMPLE = "Example: slotproof demo"

BLOCK_SIZE = 16
WATERMARK = 5
PREFIX = tuple(range(128))
PROMPT = PREFIX + tuple(range(1000, 1172))
NEIGHBOUR_TOKENS = 960
DECODE_STEPS = 6
LOOKAHEAD = 16
NO_HIT = Hit(0, ((),))

SCENE = f"""\
A pool of 100 blocks of {BLOCK_SIZE} tokens, watermark {WATERMARK}. A neighbour holds 60 blocks, 40 are free.
A request with a prompt of 300 tokens arrives. Its first 128 tokens are cached in 8 blocks: 2 of them the
neighbour holds, 6 stand idle in the free queue. This step has room for 100 more tokens.
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One accepted call of the traced request: blocks popped, free blocks and blocks in its table after it."""

    call: str
    new_blocks: int
    free: int
    table: int


@dataclass(frozen=True, slots=True)
class Trace:
    """One run: the traced request's calls, the free blocks its admission used up, and the second request's answer."""

    lines: tuple[Line, ...]
    used_by_admission: int
    second: Allocation | Refusal


class Engine:
    """As much of an engine as the trace needs: it keeps the snapshot, and runs a step after every yes."""

    def __init__(self, watermark: int) -> None:
        groups = (FullAttention(BLOCK_SIZE),)
        config = Config(101, groups, max_model_len=4096, max_in_flight_tokens=4096, watermark_blocks=watermark)
        self.snapshot: Snapshot = empty(config)
        self.keys = KeyTable()

    @property
    def num_free(self) -> int:
        """Free blocks."""
        return self.snapshot.pool.num_free()

    def arrive(self, name: str, prompt: tuple[int, ...]) -> Request:
        """A new waiting request."""
        self.keys, request = new_request(self.keys, name, prompt, BLOCK_SIZE)
        return request

    def ask(self, request: Request, new: int, lookahead: int = 0) -> tuple[Allocation | Refusal, Request]:
        """One call; a request of which nothing is computed brings its hit and must fit as a whole."""
        enters = request.num_computed_tokens == 0
        hit = get_computed_blocks(self.snapshot, request) if enters else NO_HIT
        answer = allocate_slots(
            self.snapshot, request, new, hit=hit, num_lookahead_tokens=lookahead, full_sequence_must_fit=enters
        )
        self.snapshot = answer.snapshot
        return answer, self._run_step(schedule(request, hit.num_tokens, new)) if _accepted(answer) else request

    def _run_step(self, request: Request) -> Request:
        """The forward pass; at the end of what is known it samples a token."""
        self.keys, request = settle(self.keys, request, 0, 7, BLOCK_SIZE)
        return request


def _accepted(answer: Allocation | Refusal) -> bool:
    return isinstance(answer, Allocation)


def command(as_json: AsJson = False) -> None:
    """Trace one request through allocate_slots: admission with a cache hit, prefill, decoding, and a refusal.

    Ends with three variations: no watermark, no idle hits, and a lookahead at every step.
    """
    trace, variations = run_trace(), exercises()
    if as_json:
        second = _second_document(trace.second)
        print_json({"lines": [asdict(line) for line in trace.lines], "second": second, "exercises": variations})
    else:
        print_trace(new_console(), trace, variations)


def run_trace(watermark: int = WATERMARK, shared: int = 32, lookahead: int = 0) -> Trace:
    """The trace with this watermark and lookahead; a neighbour holds the first `shared` tokens of the prompt."""
    engine = Engine(watermark)
    engine.ask(engine.arrive("earlier", (*PREFIX, 0)), len(PREFIX) + 1)
    engine.snapshot = free(engine.snapshot, "earlier")
    rest = NEIGHBOUR_TOKENS - shared
    engine.ask(engine.arrive("neighbour", PREFIX[:shared] + tuple(range(2000, 2000 + rest))), rest)
    free_before = engine.num_free
    lines = []

    def step(request: Request, call: str, new: int, ahead: int = 0) -> Request:
        answer, request = engine.ask(request, new, ahead)
        table = engine.snapshot.holding("first").tables[0].length
        lines.append(Line(call, _num_new(answer), engine.num_free, table))
        return request

    request = step(engine.arrive("first", PROMPT), "admission: new 100, hit 128", 100)
    used = free_before - engine.num_free
    request = step(request, "prefill goes on: new 72", 72)
    for _ in range(DECODE_STEPS):
        request = step(request, f"token {request.num_tokens}: new 1", 1, lookahead)
    step(request, f"token {request.num_tokens}: new 1, lookahead {LOOKAHEAD}", 1, LOOKAHEAD)
    second, _ = engine.ask(engine.arrive("second", tuple(range(5000, 5600))), 100)
    return Trace(tuple(lines), used, second)


def _num_new(answer: Allocation | Refusal) -> int:
    assert isinstance(answer, Allocation)
    return sum(len(blocks) for blocks in answer.new_blocks)


def exercises() -> list[dict[str, Any]]:
    """Three variations of the trace, each with what it shows."""
    no_watermark, no_idle, ahead = run_trace(watermark=0), run_trace(shared=128), run_trace(lookahead=LOOKAHEAD)
    admission = no_idle.lines[0]
    decode = [(line, plain) for line, plain in zip(ahead.lines, run_trace().lines, strict=True) if "token" in line.call]
    grown = [(line.call.split(":")[0].split()[1], line.table) for line, _ in decode[:DECODE_STEPS] if line.new_blocks]
    return [
        {"change": "watermark 0", "second": _second_document(no_watermark.second)},
        {
            "change": "no idle hits",
            "used": no_idle.used_by_admission,
            "new_blocks": admission.new_blocks,
            "free": admission.free,
        },
        {
            "change": f"lookahead {LOOKAHEAD} at every decode step",
            "new_blocks_at_tokens": [int(token) for token, _ in grown],
            "tables": [table for _, table in grown],
            "more_blocks": sorted({line.table - plain.table for line, plain in decode[:DECODE_STEPS]}),
        },
    ]


def _second_document(answer: Allocation | Refusal) -> dict[str, Any]:
    assert isinstance(answer, Refusal)
    return {"needed": answer.needed, "watermark": answer.watermark, "free": answer.free, "answer": None}


def print_trace(console: Console, trace: Trace, variations: list[dict[str, Any]]) -> None:
    """The trace and its variations."""
    print_text(console, SCENE)
    numbers = ("new blocks", "free", "table")
    table = new_table("allocate_slots", *numbers, right=numbers)
    for line in trace.lines:
        table.add_row(line.call, str(line.new_blocks), str(line.free), str(line.table))
    console.print(table)
    new, used = trace.lines[0].new_blocks, trace.used_by_admission
    print_text(console, f"\nAdmission took {used} free blocks: {new} new ones and {used - new} idle hits.\n")
    print_text(console, "A second request arrives with 600 tokens, none of them cached:")
    print_text(console, f"  {_second_words(_second_document(trace.second))}: it keeps waiting.\n")
    print_variations(console, *variations)


def print_variations(
    console: Console, no_watermark: dict[str, Any], no_idle: dict[str, Any], ahead: dict[str, Any]
) -> None:
    """What changes with the watermark, with who holds the hits, and with a lookahead."""
    print_text(console, "What if …")
    second = _second_words(no_watermark["second"])
    print_text(console, f"1. the watermark is 0? The second request {second} all the same.")
    used, new, left = no_idle["used"], no_idle["new_blocks"], no_idle["free"]
    print_text(console, f"2. the neighbour holds all 8 hits? Admission takes {used} blocks, {new} new, free {left}.")
    tokens, tables = (" and ".join(map(str, ahead[name])) for name in ("new_blocks_at_tokens", "tables"))
    more = " or ".join(map(str, ahead["more_blocks"]))
    print_text(console, f"3. each decode step has lookahead {LOOKAHEAD}? New blocks at tokens {tokens},")
    print_text(console, f"   tables of {tables} blocks: always {more} more than without.")


def _second_words(second: dict[str, Any]) -> str:
    return f"needs {second['needed']} blocks + {second['watermark']} watermark > {second['free']} free -> None"

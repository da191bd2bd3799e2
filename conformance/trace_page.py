"""A trace as one self-contained page: every state as a strip of blocks, the requests, and what the last turn breaks.

It needs no script: what changed in a turn is coloured, the rest is text in tables.
"""

from html import escape

from slotproof.conformance.scheduler_model import World
from slotproof.conformance.scheduler_search import Found
from slotproof.conformance.scheduler_words import queues_words, turn_words, world_lines
from slotproof.spec.laws import BY_ID
from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.predicates.scheduling import prefixes_of
from slotproof.spec.scheduler.state import SchedulerState
from slotproof.spec.scheduler.turn import Turn


def page(world: World, trace: Found, found: tuple[str, str] | None = None, title: str = "") -> str:
    """The trace of a policy in a world; `found` is the law that is broken at its end and what it objects to."""
    head = f"{found[0]} broken by {title}" if found is not None else title
    turns = [turn_section(number, turn, trace.repeats_from) for number, turn in enumerate(trace.turns, start=1)]
    parts = [
        f"<h1>{escape(head)}</h1>",
        law_box(found) if found is not None else "",
        "<pre>" + escape("\n".join(world_lines(world))) + "</pre>",
        LEGEND,
        state_section("At the beginning", trace.turns[0].before, None),
        *turns,
        law_box(found) if found is not None else "",
    ]
    return PAGE.format(title=escape(head), style=STYLE, body="\n".join(parts))


def law_box(found: tuple[str, str]) -> str:
    """The broken law."""
    law_id, objection = found
    sentence = escape(BY_ID[law_id].sentence)
    return f'<p class="law"><b>{law_id}</b> {sentence}<br><b>Found:</b> {escape(objection)}.</p>'


def turn_section(number: int, turn: Turn, repeats_from: int | None) -> str:
    """One turn and the state behind it."""
    again = '<p class="again">From here on everything repeats, for ever:</p>' if repeats_from == number - 1 else ""
    return again + state_section(f"{number}. {turn_words(turn)}", turn.after, turn.before)


def state_section(heading: str, state: SchedulerState, before: SchedulerState | None) -> str:
    """A state: its blocks, the free queue, its requests; what differs from the state before is marked."""
    return (
        f"<section><h2>{escape(heading)}</h2>\n{blocks_table(state, before)}\n"
        f"{queue_line(state, before)}\n{requests_table(state, before)}</section>"
    )


def blocks_table(state: SchedulerState, before: SchedulerState | None) -> str:
    """A column a block: who holds it, the prefix it is offered for, and what its slots hold."""
    rows = {"block": ids_of, "held by": owners_of, "offered for": keys_of, "holds": contents_of}
    lines = [
        table_row(name, cells(state), None if before is None or name == "block" else cells(before))
        for name, cells in rows.items()
    ]
    return f'<table class="blocks">{"".join(lines)}</table>'


def ids_of(state: SchedulerState) -> list[str]:
    """The usable blocks."""
    return [str(block) for block in range(1, state.scope.config.num_blocks)]


def owners_of(state: SchedulerState) -> list[str]:
    """Who holds each block, and at which place of which table."""
    owners: dict[int, list[str]] = {}
    for name, holding in state.snapshot.holdings.items():
        for group, table in enumerate(holding.tables):
            where = f"/{group}" if len(holding.tables) > 1 else ""
            for index, block in enumerate(table.entries):
                owners.setdefault(block, []).append(f"{name}[{index}]{where}")
    for run in state.snapshot.waiting_frees:
        for block in run:
            owners.setdefault(block, []).append("a step in flight")
    queue = state.snapshot.pool.queue
    return [
        ", ".join(owners.get(block, [f"free, {queue.index(block) + 1}." if block in queue else "nobody"]))
        for block in range(1, state.scope.config.num_blocks)
    ]


def keys_of(state: SchedulerState) -> list[str]:
    """The prefix that each block is offered for."""
    prefixes, groups = prefixes_of(state.keys), len(state.scope.config.groups)
    keys = [state.snapshot.pool.key_of(block) for block in range(1, state.scope.config.num_blocks)]
    return [prefix_words(prefixes[key // groups]) if key != NO_KEY else "" for key in keys]


def prefix_words(prefix: tuple[int, ...]) -> str:
    """A prefix, its middle left out where it is long."""
    if len(prefix) <= MOST_TOKENS:
        return " ".join(map(str, prefix))
    return f"{' '.join(map(str, prefix[:2]))} … {' '.join(map(str, prefix[-4:]))} ({len(prefix)})"


MOST_TOKENS = 8
"""Tokens of a prefix that are shown in full."""


def contents_of(state: SchedulerState) -> list[str]:
    """The last token of what each slot holds; a dot for nothing that may be read."""
    return [" ".join("·" if slot is None else str(slot[-1]) for slot in slots) for slots in state.memory[1:]]


def queue_line(state: SchedulerState, before: SchedulerState | None) -> str:
    """The free queue, the block popped next first; then who runs, who waits, and what is in flight."""
    changed = before is not None and before.snapshot.pool.queue != state.snapshot.pool.queue
    queue = " ".join(map(str, state.snapshot.pool.queue)) or "empty"
    queues = queues_words(state)
    moved = before is not None and queues_words(before) != queues
    return f"<p>free queue: <span{mark(changed)}>{queue}</span> | <span{mark(moved)}>{escape(queues)}</span></p>"


def requests_table(state: SchedulerState, before: SchedulerState | None) -> str:
    """A row a request."""
    names = list(state.requests)
    if not names:
        return "<p>no requests</p>"
    head = "".join(f"<th>{title}</th>" for title in ("request", *REQUEST_COLUMNS))
    rows = []
    for name in names:
        now = request_cells(state, name)
        then = request_cells(before, name) if before is not None and name in before.requests else [""] * len(now)
        cells = "".join(
            f"<td{mark(before is not None and cell != old)}>{escape(cell)}</td>"
            for cell, old in zip(now, then, strict=True)
        )
        rows.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


REQUEST_COLUMNS = ("state", "tokens", "computed", "in flight", "tables")


def request_cells(state: SchedulerState, name: str) -> list[str]:
    """What a row says about a request."""
    request = state.requests[name]
    where = "loading" if name in state.loading else "loaded" if name in state.loaded else request.status.value
    tables = [
        " ".join("null" if block == NULL_BLOCK else str(block) for block in table.entries) or "-"
        for table in state.snapshot.holding(name).tables
    ]
    counts = request.num_tokens, request.num_computed_tokens, request.num_in_flight_tokens
    return [where, *map(str, counts), " / ".join(tables)]


def table_row(name: str, cells: list[str], before: list[str] | None) -> str:
    """A row of the block table; cells that changed are marked."""
    old = before or cells
    shown = "".join(f"<td{mark(cell != then)}>{escape(cell)}</td>" for cell, then in zip(cells, old, strict=True))
    return f"<tr><th>{name}</th>{shown}</tr>"


def mark(changed: bool) -> str:
    """The class of what a turn has changed."""
    return ' class="changed"' if changed else ""


LEGEND = (
    "<p>A block is <i>offered for</i> a prefix while it carries its key; <i>holds</i> shows the last token written to "
    'each slot, a dot is nothing that may be read. <span class="changed">Coloured</span>: changed by this turn.</p>'
)

STYLE = """<style>
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222; }
h1 { font-size: 1.4em; } h2 { font-size: 1.05em; margin: 0 0 .5em; }
pre { background: #f4f4f4; padding: .7em; overflow-x: auto; }
section { border-top: 1px solid #bbb; padding: .8em 0; overflow-x: auto; }
table { border-collapse: collapse; margin: .3em 0; }
th, td { border: 1px solid #ccc; padding: .2em .6em; text-align: left; font-weight: normal; white-space: nowrap; }
th { background: #f4f4f4; color: #555; }
.blocks td { min-width: 4.5em; }
.changed { background: #ffe08a; }
.law { border-left: 5px solid #c0392b; background: #fbeaea; padding: .6em 1em; }
.again { color: #c0392b; font-weight: bold; }
@media (prefers-color-scheme: dark) {
  body { background: #1b1b1b; color: #ddd; } pre, th { background: #2a2a2a; color: #bbb; }
  th, td { border-color: #444; } .changed { background: #6b5510; } .law { background: #3a2020; }
}
</style>"""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
{style}
</head>
<body>
{body}
</body>
</html>
"""

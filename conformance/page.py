"""One self-contained page of a trace: every state as a strip of blocks, the requests, and what the last call breaks.

It needs no script: what changed since the state before is coloured, the rest is text in tables.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from slotproof.spec.keys import KeyTable
from slotproof.spec.laws import BY_ID
from slotproof.spec.pool import NO_KEY, NULL_BLOCK
from slotproof.spec.predicates.scheduling import prefixes_of
from slotproof.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Frame:
    """A state: a row of cells a part of the blocks, the free queue, the other queues, a row of cells a request.

    `after` is what led to it; `again` says that from its call on everything repeats.
    """

    after: str
    blocks: Mapping[str, Sequence[str]]
    queue: str
    others: str
    requests: Mapping[str, Sequence[str]]
    again: bool = False


def page(
    head: str, setting: Sequence[str], frames: Sequence[Frame], columns: Sequence[str], found: tuple[str, str] | None
) -> str:
    """The page of a trace; `found` is the law that is broken at its end and what it objects to, `columns` are the names
    of the cells of a request.
    """
    law = law_box(found) if found is not None else ""
    befores = [None, *frames]
    sections = [section(frame, before, columns) for frame, before in zip(frames, befores, strict=False)]
    setting_box = "<pre>" + escape("\n".join(setting)) + "</pre>"
    parts = [f"<h1>{escape(head)}</h1>", law, setting_box, legend(frames[0]), *sections, law]
    return PAGE.format(title=escape(head), style=STYLE, body="\n".join(parts))


def law_box(found: tuple[str, str]) -> str:
    """The broken law."""
    law_id, objection = found
    sentence = escape(BY_ID[law_id].sentence)
    return f'<p class="law"><b>{law_id}</b> {sentence}<br><b>Found:</b> {escape(objection)}.</p>'


def section(frame: Frame, before: Frame | None, columns: Sequence[str]) -> str:
    """A state and what led to it; what differs from the state before is marked."""
    again = '<p class="again">From here on everything repeats, for ever:</p>' if frame.again else ""
    return (
        f"{again}<section><h2>{escape(frame.after)}</h2>\n{blocks_table(frame, before)}\n"
        f"{queue_line(frame, before)}\n{requests_table(frame, before, columns)}</section>"
    )


def blocks_table(frame: Frame, before: Frame | None) -> str:
    """A column a block."""
    lines = [
        table_row(name, cells, None if before is None else before.blocks[name]) for name, cells in frame.blocks.items()
    ]
    return f'<table class="blocks">{"".join(lines)}</table>'


def queue_line(frame: Frame, before: Frame | None) -> str:
    """The free queue, the block popped next first, and the other queues."""
    changed = before is not None and before.queue != frame.queue
    moved = before is not None and before.others != frame.others
    others = f" | <span{mark(moved)}>{escape(frame.others)}</span>" if frame.others else ""
    return f"<p>free queue: <span{mark(changed)}>{escape(frame.queue)}</span>{others}</p>"


def requests_table(frame: Frame, before: Frame | None, columns: Sequence[str]) -> str:
    """A row a request."""
    if not frame.requests:
        return "<p>no requests</p>"
    head = "".join(f"<th>{title}</th>" for title in ("request", *columns))
    unknown = [""] * len(columns)
    rows = [
        table_row(name, cells, None if before is None else before.requests.get(name, unknown))
        for name, cells in frame.requests.items()
    ]
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def table_row(name: str, cells: Sequence[str], before: Sequence[str] | None) -> str:
    """A row; cells that changed are marked."""
    old = before if before is not None else cells
    shown = "".join(f"<td{mark(cell != then)}>{escape(cell)}</td>" for cell, then in zip(cells, old, strict=True))
    return f"<tr><th>{escape(name)}</th>{shown}</tr>"


def mark(changed: bool) -> str:
    """The class of what has changed."""
    return ' class="changed"' if changed else ""


# The rows of a snapshot.


def block_rows(snapshot: Snapshot, prefixes: Mapping[int, tuple[Hashable, ...]]) -> dict[str, list[str]]:
    """A column a usable block: its id, who holds it, and the prefix it is offered for, by the key that it carries."""
    return {"block": ids_of(snapshot), "held by": owners_of(snapshot), "offered for": keys_of(snapshot, prefixes)}


def ids_of(snapshot: Snapshot) -> list[str]:
    """The usable blocks."""
    return [str(block) for block in range(1, snapshot.config.num_blocks)]


def owners_of(snapshot: Snapshot) -> list[str]:
    """Who holds each block, and at which place of which table."""
    owners: dict[int, list[str]] = {}
    for name, holding in snapshot.holdings.items():
        for group, table in enumerate(holding.tables):
            where = f"/{group}" if len(holding.tables) > 1 else ""
            for index, block in enumerate(table.entries):
                owners.setdefault(block, []).append(f"{name}[{index}]{where}")
    for run in snapshot.waiting_frees:
        for block in run:
            owners.setdefault(block, []).append("a step in flight")
    queue = snapshot.pool.queue
    return [
        ", ".join(owners.get(block, [f"free, {queue.index(block) + 1}." if block in queue else "nobody"]))
        for block in range(1, snapshot.config.num_blocks)
    ]


def keys_of(snapshot: Snapshot, prefixes: Mapping[int, tuple[Hashable, ...]]) -> list[str]:
    """The prefix that each block is offered for; a key that nobody knows is a question mark."""
    keys = [snapshot.pool.key_of(block) for block in range(1, snapshot.config.num_blocks)]
    return [prefix_words(prefixes.get(key, ("?",))) if key != NO_KEY else "" for key in keys]


def prefixes_in_pool(keys: KeyTable, num_groups: int) -> dict[int, tuple[Hashable, ...]]:
    """What each key of a pool stands for; a pool keys the same prefix apart in each group."""
    known = prefixes_of(keys)
    return {key * num_groups + group: prefix for key, prefix in known.items() for group in range(num_groups)}


def prefix_words(prefix: tuple[Hashable, ...]) -> str:
    """A prefix, its middle left out where it is long."""
    if len(prefix) <= MOST_TOKENS:
        return " ".join(map(str, prefix))
    return f"{' '.join(map(str, prefix[:2]))} … {' '.join(map(str, prefix[-4:]))} ({len(prefix)})"


MOST_TOKENS = 8
"""Tokens of a prefix that are shown in full."""


def queue_words(snapshot: Snapshot) -> str:
    """The free queue."""
    return " ".join(map(str, snapshot.pool.queue)) or "empty"


def tables_words(snapshot: Snapshot, name: str) -> str:
    """A request's tables, a group."""
    return " / ".join(
        " ".join("null" if block == NULL_BLOCK else str(block) for block in table.entries) or "-"
        for table in snapshot.holding(name).tables
    )


OFFERED = "A block is <i>offered for</i> a prefix while it carries its key."
HOLDS = "<i>Holds</i> shows the last token written to each slot, a dot is nothing that may be read."
COLOURED = '<span class="changed">Coloured</span>: changed by this turn.'


def legend(frame: Frame) -> str:
    """What the rows of the frames mean."""
    sentences = [OFFERED, *([HOLDS] if "holds" in frame.blocks else []), COLOURED]
    return f"<p>{' '.join(sentences)}</p>"


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

"""The demo prints exactly the numbers of the traced lesson, and of its three variations."""

import json

from typer.testing import CliRunner

from slotproof.conformance.cli.app import app

NO_NEED = [("token 301: new 1", 0, 23, 19), ("token 302: new 1", 0, 23, 19), ("token 303: new 1", 0, 23, 19)]
LINES = [
    ("admission: new 100, hit 128", 7, 27, 15),
    ("prefill goes on: new 72", 4, 23, 19),
    *NO_NEED,
    ("token 304: new 1", 0, 23, 19),
    ("token 305: new 1", 1, 22, 20),
    ("token 306: new 1", 0, 22, 20),
    ("token 307: new 1, lookahead 16", 1, 21, 21),
]
TEXT = """\
Admission took 13 free blocks: 7 new ones and 6 idle hits.

A second request arrives with 600 tokens, none of them cached:
  needs 38 blocks + 5 watermark > 21 free -> None: it keeps waiting.

What if …
1. the watermark is 0? The second request needs 38 blocks + 0 watermark > 21 free -> None all the same.
2. the neighbour holds all 8 hits? Admission takes 7 blocks, 7 new, free 33.
3. each decode step has lookahead 16? New blocks at tokens 301 and 305,
   tables of 20 and 21 blocks: always 1 more than without.
"""


def test_the_demo_gives_the_numbers_of_the_lesson() -> None:
    outcome = CliRunner().invoke(app, ["demo", "--json"])
    document = json.loads(outcome.stdout)
    assert outcome.exit_code == 0
    assert [tuple(line.values()) for line in document["lines"]] == LINES
    assert document["second"] == {"needed": 38, "watermark": 5, "free": 21, "answer": None}
    assert document["exercises"] == [
        {"change": "watermark 0", "second": {"needed": 38, "watermark": 0, "free": 21, "answer": None}},
        {"change": "no idle hits", "used": 7, "new_blocks": 7, "free": 33},
        {
            "change": "lookahead 16 at every decode step",
            "new_blocks_at_tokens": [301, 305],
            "tables": [20, 21],
            "more_blocks": [1],
        },
    ]


def test_the_demo_prints_them() -> None:
    outcome = CliRunner().invoke(app, ["demo"])
    assert outcome.exit_code == 0
    for call, new_blocks, free, table in LINES:
        row = next(line for line in outcome.stdout.splitlines() if line.startswith(call + " "))
        assert row.removeprefix(call).split() == [str(new_blocks), str(free), str(table)]
    assert outcome.stdout.endswith(TEXT)

"""`slotproof bench`: what each call costs, beside a peer and beside the least that Python needs."""

import importlib.util
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from slotproof.conformance.bench import explorer
from slotproof.conformance.bench.batches import BATCHES
from slotproof.conformance.bench.cases import CASES
from slotproof.conformance.bench.measure import FLOOR, OURS, PLAIN, SINGLE
from slotproof.conformance.bench.memory import MOVES, Move
from slotproof.conformance.bench.run import Peer, Timings, find_peer, number_of_measurements, run
from slotproof.conformance.bench.trace import FILE, FOLDER, WHAT, trace_path
from slotproof.conformance.bench.trace import NAME as TRACE
from slotproof.conformance.bench.world import PROMPT_BLOCKS
from slotproof.conformance.cli.options import AsJson
from slotproof.conformance.cli.output import new_console, new_table, print_json, print_text, progress_bar
from slotproof.conformance.errors import SetupError
from slotproof.conformance.explore import Speed
from slotproof.conformance.targets.vllm import HOW_TO_GET

NAME = "bench"
EXAMPLE = "Example: slotproof bench --peer vllm@/path/to/python"

SMALLEST_POOL = 16 * PROMPT_BLOCKS + 1

PeerName = Annotated[
    str | None,
    typer.Option(
        "--peer",
        metavar="NAME",
        help="Compare with vllm, or with vllm@/path/to/python in the environment of another Python.",
        show_default="vllm where it can be imported",
    ),
]
Blocks = Annotated[
    list[int] | None, typer.Option(help="Blocks in the pool; may be repeated.", show_default="10000, 100000")
]
Only = Annotated[
    list[str] | None, typer.Option("--case", help="Time only this case; may be repeated.", show_default="all")
]
Values = Annotated[int, typer.Option(min=3, help="Values measured a case; the median counts.")]


def command(
    peer: PeerName = None, blocks: Blocks = None, case: Only = None, values: Values = 15, as_json: AsJson = False
) -> None:
    """Time every call of the allocator, side by side with vLLM where there is one.

    Both are called in one process as an engine calls them, by their public names with keyword arguments; hashing is
    done before, events are off. Times are medians of CPU time, in microseconds a call. *floor* is the same effect on
    flat lists in one function without checks: what Python needs at least. *single* is our call row by row, *plain* the
    device moving as many bytes in one piece. SLOTPROOF_TRACES names the folder of the recorded traces.

    Exit code 0: measured. 2: it could not be measured.
    """
    if importlib.util.find_spec("pyperf") is None:
        raise SetupError("bench needs pyperf; install it with pip install 'slotproof[bench]'")
    explores, cases = not case or explorer.NAME in case, known_cases(case or [])
    sizes = blocks or [10_000, 100_000]
    if min(sizes) < SMALLEST_POOL:
        raise SetupError(f"a pool of {min(sizes)} blocks is too small to time; give at least {SMALLEST_POOL}")
    found = find_peer(peer)
    with progress_bar("timing", number_of_measurements(cases, sizes, found), None) as tell:
        timings = run(cases, sizes, values, found, tell)
    pace = explorer.explorer_speed() if explores else None
    if as_json:
        print_json({**as_document(timings, found), "explorer": None if pace is None else asdict(pace)})
    else:
        print_timings(timings, sizes, found)
        print_pace(pace)


def known_cases(named: list[str]) -> list[str]:
    """The allocator's cases by their names, all if none is named.

    Raises:
        SetupError: for a name that no case has.
    """
    singles, with_torch = [case.name for case in CASES], [batch.name for batch in BATCHES]
    with_torch += [move.name for move in MOVES]
    names = [*singles, *with_torch, TRACE]
    for name in named:
        if name not in (*names, explorer.NAME):
            raise SetupError(f"there is no case {name!r}; the cases are {', '.join((*names, explorer.NAME))}")
    if TRACE in named and trace_path() is None:
        raise SetupError(f"the case {TRACE} needs {FILE}; let {FOLDER} name the folder that has it")
    lacks_torch = importlib.util.find_spec("torch") is None
    for name in named:
        if lacks_torch and name in with_torch:
            raise SetupError(f"the case {name} needs torch; install it with pip install 'slotproof[torch]'")
    possible = [*singles, *([] if lacks_torch else with_torch), *([] if trace_path() is None else [TRACE])]
    return [name for name in named if name != explorer.NAME] if named else possible


def print_pace(pace: Speed | None) -> None:
    """How fast the explorer is, if that was asked for."""
    if pace is not None:
        up_to_names, as_they_are = f"{pace.canonical:,.0f} states/s", f"{pace.raw:,.0f}"
        line = f"explore visits {up_to_names} up to renaming, {as_they_are} without, every law on, in one process."
        print_text(new_console(), line)


def as_document(timings: Timings, peer: Peer | None) -> dict[str, Any]:
    """The fields of `--json`."""
    name = None if peer is None else peer.name
    return {
        "versions": timings.versions,
        "cases": [
            {
                "name": case,
                "blocks": num_blocks,
                "ours_us": sides[OURS],
                "floor_us": sides.get(FLOOR),
                "single_us": sides.get(SINGLE),
                "plain_us": sides.get(PLAIN),
                "peer": name,
                "peer_us": None if name is None else sides.get(name),
                "ratio": None if name is None else timings.ratio(case, num_blocks, name),
            }
            for (case, num_blocks), sides in timings.us.items()
        ],
        "mean_ratio": {}
        if name is None
        else {str(size): timings.mean_ratio(size, name) for size in dict.fromkeys(size for _, size in timings.us)},
    }


def print_timings(timings: Timings, sizes: list[int], peer: Peer | None) -> None:
    """Two tables a pool size, then what it comes to."""
    console = new_console()
    singles = {case.name: case.what for case in CASES}
    batches = {batch.name: batch.what for batch in BATCHES}
    for size in sizes:
        print_table(console, timings, size, f"pool of {size:,} blocks", singles, FLOOR, peer)
        print_table(console, timings, size, "decode step of a batch, µs a row", batches, SINGLE, peer)
        print_table(console, timings, size, "whole trace, µs a request", {TRACE: WHAT}, None, peer)
    print_moves(console, timings)
    if trace_path() is None:
        print_text(console, f"The whole trace was left out: no folder with {FILE} is named by {FOLDER}.")
    if peer is None:
        print_text(console, f"No peer: vLLM cannot be imported here. To compare, {HOW_TO_GET} with --peer.")
        return
    means = [
        f"{mean:.1f} times with {size:,} blocks"
        for size in sizes
        if (mean := timings.mean_ratio(size, peer.name)) is not None
    ]
    if means:
        print_text(
            console,
            f"impl {timings.versions[OURS]} is faster than {peer.name} {timings.versions[peer.name]}: "
            f"{' and '.join(means)}, in the geometric mean over the allocator's calls.",
            "bold",
        )


def print_table(
    console: Console,
    timings: Timings,
    size: int,
    title: str,
    words: dict[str, str],
    beside: str | None,
    peer: Peer | None,
) -> None:
    """The cases of one kind: ours, what stands beside it (the floor, or our single call), and the peer."""
    columns = ["µs", *([beside, "ratio"] if beside else []), *([peer.name, "faster"] if peer is not None else [])]
    table = new_table("case", title, *columns, right=columns)
    for (case, num_blocks), sides in timings.us.items():
        if num_blocks == size and case in words:
            ours, other = sides[OURS], sides.get(beside) if beside else None
            cells = ["", ""] if beside else []
            if other is not None:
                cells = [in_us(other), f"{max(ours, other) / min(ours, other):.1f}"]
            if peer is not None:
                cells += [in_us(sides[peer.name]), f"{sides[peer.name] / ours:.1f}"]
            table.add_row(case, words[case], in_us(ours), *cells)
    if table.row_count:
        console.print(table)
        console.print()


def print_moves(console: Console, timings: Timings) -> None:
    """The memory's bandwidth, beside that of plain operators."""
    table = new_table("case", f"KV memory on {timings.device}, GB/s", "ours", PLAIN, right=["ours", PLAIN])
    for (case, _), sides in timings.us.items():
        for move in MOVES:
            if move.name == case:
                table.add_row(case, move.what, in_rate(move, sides[OURS]), in_rate(move, sides[PLAIN]))
    if table.row_count:
        console.print(table)
        console.print()


def in_rate(move: Move, us_a_block: float) -> str:
    """Gigabytes a second."""
    return f"{move.gigabytes_a_second(us_a_block):.1f}"


def in_us(us: float) -> str:
    """Three digits that count."""
    return f"{us:.3f}" if us < 1 else f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:.0f}"

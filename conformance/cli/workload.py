"""`slotproof replay` of a recorded request trace: what the prefix cache makes of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotproof.conformance.cli.output import (
    new_console,
    new_table,
    others_on_stderr,
    print_json,
    print_text,
    progress_bar,
)
from slotproof.conformance.errors import SetupError
from slotproof.conformance.remote import command_in
from slotproof.conformance.targets.registry import load_bare
from slotproof.conformance.workload.elsewhere import serve_in
from slotproof.conformance.workload.lru import lru_table
from slotproof.conformance.workload.overlap import session_overlaps, summary
from slotproof.conformance.workload.serve import Served, Setting, longest_prompt, serve
from slotproof.conformance.workload.trace import TraceRequest

INTERVALS = 10
POINTS = 200

DEFAULT_BLOCKS = 10_001
DEFAULT_BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class Selection:
    """Which requests of which file, and in which order."""

    path: Path
    first: int | None
    by_time: bool


def id_tokens(requests: list[TraceRequest]) -> int:
    """Tokens that an id of the trace stands for; the usual block size where it has none."""
    return requests[0].id_tokens or DEFAULT_BLOCK_SIZE


def replay_trace(target: str, selection: Selection, requests: list[TraceRequest], setting: Setting) -> list[Served]:
    """Serve the requests under a progress bar; the totals at evenly spaced points."""
    every = max(len(requests) // POINTS, 1)
    name, _, python = target.partition("@")
    with others_on_stderr(), progress_bar(f"serving by {name}", len(requests), None) as tell:
        if not python:
            return serve(load_bare(name), requests, setting, every, tell)
        order = {"target": name, "path": str(selection.path.resolve()), "every": every}
        order |= {"first": selection.first, "by_time": selection.by_time}
        return serve_in(lambda text: command_in(python, serve_in.__module__, text), order, setting, tell)


def report(
    selection: Selection, target: str, requests: list[TraceRequest], setting: Setting, plot: Path | None, as_json: bool
) -> None:
    """Serve, and print the totals and how they came about."""
    samples = replay_trace(target, selection, requests, setting)
    name = selection.path.name
    if plot is not None:
        draw(plot, name, samples, setting)
    if as_json:
        print_json(as_document(selection.path, target, samples, setting))
        return
    console, total = new_console(), samples[-1]
    shares = "" if requests[0].ids is not None else "; the trace has no ids, so nothing is shared"
    print_text(console, f"{name} on {target}: {total.requests:,} requests, {total.prompt_tokens:,} prompt tokens")
    print_text(
        console,
        f"  {setting.num_blocks - 1:,} usable blocks of {setting.block_size} tokens, free order "
        f"{setting.free_order.value}; one request at a time{shares}",
    )
    console.print()
    table = new_table(*COLUMNS, right=COLUMNS)
    for row in intervals(samples):
        table.add_row(*cells(row, setting))
    console.print(table)
    console.print()
    if words := overlap_words(requests, selection):
        print_text(console, words)
    print_text(
        console,
        f"{total.hit_blocks:,} hit blocks, token hit rate {total.hit_rate:.6f}, {total.evictions:,} evictions, "
        f"{total.refused:,} refused.",
        "bold",
    )


def overlap_words(requests: list[TraceRequest], selection: Selection) -> str:
    """What the sessions of a trace have in common with themselves; nothing for a trace without several sessions."""
    if requests[0].session == requests[-1].session or requests[0].ids is None or selection.by_time:
        return ""
    least, lower, median, upper, most, mean = summary(session_overlaps(requests))
    return (
        f"Blocks of a session that its request before has: min {least:.1%}, quartiles {lower:.1%} {median:.1%} "
        f"{upper:.1%}, max {most:.1%}, mean {mean:.1%}."
    )


COLUMNS = ("requests", "at s", "hit rate", "evictions", "refused", "held", "cached")


def intervals(samples: list[Served]) -> list[Served]:
    """About ten of the samples, the last one among them."""
    step = max(len(samples) // INTERVALS, 1)
    return samples[step - 1 :: step] if len(samples) % step == 0 else [*samples[step - 1 :: step], samples[-1]]


def cells(row: Served, setting: Setting) -> list[str]:
    """One line of the table; held and cached are shares of the usable blocks."""
    usable = setting.num_blocks - 1
    return [
        f"{row.requests:,}",
        "" if row.arrival is None else f"{row.arrival:,.0f}",
        f"{row.hit_rate:.4f}",
        f"{row.evictions:,}",
        f"{row.refused:,}",
        f"{row.held / usable:.1%}",
        f"{row.cached / usable:.1%}",
    ]


def as_document(path: Path, target: str, samples: list[Served], setting: Setting) -> dict[str, Any]:
    """The fields of `--json`."""
    return {
        "trace": str(path),
        "target": target,
        "num_blocks": setting.num_blocks,
        "block_size": setting.block_size,
        "free_order": setting.free_order.value,
        **fields(samples[-1]),
        "over_time": [fields(sample) for sample in samples],
    }


def fields(served: Served) -> dict[str, Any]:
    """One point of the run."""
    return {
        "requests": served.requests,
        "arrival": served.arrival,
        "prompt_tokens": served.prompt_tokens,
        "hit_blocks": served.hit_blocks,
        "hit_rate": served.hit_rate,
        "evictions": served.evictions,
        "refused": served.refused,
        "held_blocks": served.held,
        "cached_blocks": served.cached,
    }


def report_lru(path: Path, requests: list[TraceRequest], as_json: bool) -> None:
    """Print plain LRU's hit share for several capacities.

    Raises:
        SetupError: for a trace without ids.
    """
    prompts = [request.ids for request in requests if request.ids is not None]
    if len(prompts) < len(requests):
        raise SetupError(f"{path} has no ids, so plain LRU has nothing to cache")
    rows = lru_table(prompts)
    if as_json:
        print_json(
            {"trace": str(path), "lru": [{"capacity": capacity, "hit_share": share} for capacity, share in rows]}
        )
        return
    console = new_console()
    table = new_table("capacity in blocks", "hit share", right=("capacity in blocks", "hit share"))
    for capacity, share in rows:
        table.add_row("no limit" if capacity is None else f"{capacity:,}", f"{share:.3f}")
    console.print(table)
    console.print()
    print_text(console, f"{path.name}: plain LRU, share of block references that hit a cached prefix.", "bold")


def draw(plot: Path, title: str, samples: list[Served], setting: Setting) -> None:
    """Hit rate, held and cached blocks over the requests, as an image.

    Raises:
        SetupError: without matplotlib, or when the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise SetupError("--plot needs matplotlib; install it with pip install 'slotproof[plot]'") from None
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    usable, served = setting.num_blocks - 1, [sample.requests for sample in samples]
    axes.plot(served, [sample.hit_rate for sample in samples], label="token hit rate so far")
    axes.plot(served, [sample.held / usable for sample in samples], label="blocks held", linewidth=0.8)
    axes.plot(served, [sample.cached / usable for sample in samples], label="blocks cached")
    axes.set(title=f"{title}, {usable:,} blocks of {setting.block_size} tokens", xlabel="requests", ylabel="share")
    axes.set_ylim(0, 1.02)
    axes.legend()
    try:
        figure.savefig(plot)
    except (OSError, ValueError) as error:
        raise SetupError(f"the plot cannot be written to {plot}: {error}") from error


def setting_for(requests: list[TraceRequest], blocks: int | None, block_size: int | None, free_order: Any) -> Setting:
    """The pool that was asked for."""
    size = block_size or id_tokens(requests)
    return Setting(blocks or DEFAULT_BLOCKS, size, longest_prompt(requests), free_order)

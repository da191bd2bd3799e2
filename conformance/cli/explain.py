"""`slotproof explain`: one call, stage by stage."""

from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from slotproof.conformance.cli.explanation import Count, Explanation, as_document, explain, headline
from slotproof.conformance.cli.files import find_vector
from slotproof.conformance.cli.options import AsJson
from slotproof.conformance.cli.output import new_console, new_table, print_json, print_text
from slotproof.conformance.cli.words import count_of
from slotproof.spec.admission import Refusal

NAME = "explain"
EXAMPLE = "Example: slotproof explain seed-trace --call 3"

Named = Annotated[str, typer.Argument(metavar="VECTOR", help="A vector file, or the name of a shipped vector.")]
Number = Annotated[
    int | None,
    typer.Option("--call", min=1, help="Which call of the vector.", show_default="the last that asks for slots"),
]

INDENT = "           "


def command(vector: Named, call: Number = None, as_json: AsJson = False) -> None:
    """Show why the specification answers a call as it does: every count, cap and free block, and "why None?".

    The numbers come from the specification, whatever target a counterexample names.
    """
    explanation = explain(find_vector(vector), call)
    if as_json:
        print_json(as_document(explanation))
    else:
        print_explanation(new_console(), explanation)


def print_explanation(console: Console, explanation: Explanation) -> None:
    """The call, its five stages, the answer and its reason."""
    print_text(console, headline(explanation) + "\n")
    print_call(console, explanation)
    print_stage(
        console,
        "stage 0",
        "does the whole prompt fit?",
        explanation.whole_prompt,
        "not asked: full_sequence_must_fit is off",
    )
    print_released(console, explanation)
    print_stage(console, "stage 2", "do the slots of this step fit?", explanation.step, "not reached")
    print_taken(console, explanation)
    print_answer(console, explanation)


def print_call(console: Console, explanation: Explanation) -> None:
    """Who asks, and for what."""
    call, request = explanation.call, explanation.call.request
    holds = count_of(explanation.held, "block") if explanation.held else "nothing"
    print_text(
        console,
        f"request    {request.request_id}, {request.status.value}: {request.num_tokens} tokens, "
        f"{request.num_computed_tokens} computed, {request.num_in_flight_tokens} in flight; holds {holds}",
    )
    print_text(
        console,
        f"asks for   {call.num_new_tokens} new tokens; hit {call.hit.num_tokens}, "
        f"external {call.num_external_computed_tokens}, lookahead {call.num_lookahead_tokens}",
    )
    count = explanation.whole_prompt or explanation.step
    assert count is not None
    print_text(console, f"watermark  {count.watermark}, because {explanation.watermark_because}\n")


def print_stage(console: Console, name: str, question: str, count: Count | None, otherwise: str) -> None:
    """One question with its numbers."""
    if count is None:
        print_text(console, f"{name}    {question} {otherwise}")
        return
    print_text(console, f"{name}    {question} {count.tokens} tokens")
    console.print(Padding(count_table(count), (0, 0, 0, len(INDENT))))
    missing = sum(group.missing for group in count.groups)
    print_text(console, f"{INDENT}needed {count.needed} = {missing} missing + {count.idle} idle hits")
    print_text(console, f"{INDENT}{inequality(count)}: {'no' if count.short else 'yes'}")


def count_table(count: Count) -> Table:
    """One row a group."""
    numbers = ("blocks", "cap", "skipped", "held", "hit", "missing")
    table = new_table("group", *numbers, right=numbers)
    for group in count.groups:
        counts = (group.required, group.cap, group.skipped, group.held, group.hit, group.missing)
        table.add_row(group.group, *("-" if count is None else str(count) for count in counts))
    return table


def inequality(count: Count) -> str:
    """What was compared, needed + watermark against free, less what is reserved."""
    available = f"{count.free} - {count.reserved}" if count.reserved else str(count.free)
    return f"{count.needed} + {count.watermark} {'>' if count.short else '<='} {available}"


def print_released(console: Console, explanation: Explanation) -> None:
    """Stage 1."""
    if explanation.released is None:
        what = "not reached"
    elif explanation.released:
        what = f"blocks {listed(explanation.released)}"
    else:
        what = "nothing"
    print_text(console, f"stage 1    released because no window reads them any more: {what}")


def print_taken(console: Console, explanation: Explanation) -> None:
    """Stages 3 and 4."""
    if isinstance(explanation.answer, Refusal):
        print_text(console, "stage 3    not reached: nothing is taken\nstage 4    not reached: nothing gets a key\n")
        return
    idle, held = listed(explanation.pinned_idle), listed(explanation.pinned_held)
    print_text(
        console, f"stage 3    hits pinned: idle {idle}, held by others {held}; popped {listed(explanation.popped)}"
    )
    copies = (
        explanation.answer.snapshot.copies[-len(explanation.call.hit.tails) :] if explanation.call.hit.tails else ()
    )
    for copy in copies:
        print_text(console, f"{INDENT}the end of the hit is to be copied from {copy.source} to {copy.destination}")
    if explanation.call.delay_cache_blocks or not explanation.config.caching:
        why = "caching is off" if not explanation.config.caching else "the call delays them"
        print_text(console, f"stage 4    no keys: {why}\n")
        return
    filled = explanation.finalized // explanation.config.block_size
    words = f"{explanation.finalized} finalized tokens fill {count_of(filled, 'block')}"
    print_text(console, f"stage 4    {words}; new keys for {listed(explanation.keyed)}\n")


def listed(blocks: tuple[int, ...]) -> str:
    """Block ids, a long list cut short."""
    shown = " ".join(map(str, blocks[:12]))
    return f"{shown} … ({len(blocks)} in all)" if len(blocks) > 12 else shown or "none"


def print_answer(console: Console, explanation: Explanation) -> None:
    """The answer, why, and whether waiting can help."""
    answer, refused = explanation.answer, explanation.refused
    if not isinstance(answer, Refusal) or refused is None:
        free = answer.snapshot.pool.num_free()
        print_text(console, f"answer     {count_of(len(explanation.popped), 'new block')}, {free} free")
        return
    what = "the whole prompt does" if refused is explanation.whole_prompt else "this step does"
    blocks = " + ".join(str(group.required) for group in refused.groups)
    print_text(console, f"answer     None, because {what} not fit: {refused.tokens} tokens -> {blocks} blocks,")
    reserved = f", reserved {refused.reserved}" if refused.reserved else ""
    numbers = f"needed {refused.needed}, watermark {refused.watermark}, free {refused.free}{reserved}"
    print_text(console, f"{INDENT}{numbers}: {inequality(refused)}")
    alone = explanation.alone
    needs = f"alone in the pool it needs {alone.needed} of {alone.free} blocks"
    short = f"it is short by {count_of(refused.lacking, 'block')} now, and {needs}"
    helps = f"cannot help: {needs}" if answer.never else f"can help: {short}"
    print_text(console, f"waiting    for others {helps}")

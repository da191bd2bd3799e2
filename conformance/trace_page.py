"""The page of a policy's trace: every turn, and what each slot really holds."""

from slotproof.conformance.page import Frame, block_rows, prefixes_in_pool, queue_words, tables_words
from slotproof.conformance.page import page as page_of
from slotproof.conformance.scheduler_model import World
from slotproof.conformance.scheduler_search import Found
from slotproof.conformance.scheduler_words import queues_words, turn_words, world_lines
from slotproof.spec.scheduler.state import SchedulerState

REQUEST_COLUMNS = ("state", "tokens", "computed", "in flight", "tables")


def page(world: World, trace: Found, found: tuple[str, str] | None = None, title: str = "") -> str:
    """The trace of a policy in a world; `found` is the law that is broken at its end and what it objects to."""
    head = f"{found[0]} broken by {title}" if found is not None else title
    frames = [frame_of(trace.turns[0].before, "At the beginning")]
    for number, turn in enumerate(trace.turns, start=1):
        frames.append(frame_of(turn.after, f"{number}. {turn_words(turn)}", trace.repeats_from == number - 1))
    return page_of(head, world_lines(world), frames, REQUEST_COLUMNS, found)


def frame_of(state: SchedulerState, after: str, again: bool = False) -> Frame:
    """A state: blocks and what their slots hold, the free queue, who runs and who waits, the requests."""
    rows = {
        **block_rows(state.snapshot, prefixes_in_pool(state.keys, len(state.scope.config.groups))),
        "holds": contents_of(state),
    }
    requests = {name: request_cells(state, name) for name in state.requests}
    return Frame(after, rows, queue_words(state.snapshot), queues_words(state), requests, again)


def contents_of(state: SchedulerState) -> list[str]:
    """The last token of what each slot holds; a dot for nothing that may be read."""
    return [" ".join("·" if slot is None else str(slot[-1]) for slot in slots) for slots in state.memory[1:]]


def request_cells(state: SchedulerState, name: str) -> list[str]:
    """What a row says about a request."""
    request = state.requests[name]
    where = "loading" if name in state.loading else "loaded" if name in state.loaded else request.status.value
    counts = request.num_tokens, request.num_computed_tokens, request.num_in_flight_tokens
    return [where, *map(str, counts), tables_words(state.snapshot, name)]

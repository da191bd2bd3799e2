"""The page of a target's trace: each call of an allocator or a scheduler, and the state behind it."""

from collections.abc import Sequence
from typing import Any

from slotproof.conformance.actions import Action
from slotproof.conformance.counterexample import outcome_words, setting_words
from slotproof.conformance.engine import Engine
from slotproof.conformance.page import Frame, block_rows, page, prefixes_in_pool, queue_words, tables_words
from slotproof.conformance.scheduler_adapter import RequestState
from slotproof.conformance.scheduler_laws import snapshot_of
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.subject import subject_of
from slotproof.conformance.violation import EpisodeOver, Violation
from slotproof.spec.request import Request

OF_ALLOCATOR = ("state", "tokens", "computed", "in flight", "tables")
OF_SCHEDULER = ("state", "tokens", "computed", "tables")


def target_page(adapter: Any, target: str, config: Any, actions: Sequence[Action]) -> str:
    """Carry the actions out on the target, up to the first broken law, as a page."""
    subject = subject_of(adapter)
    side = subject.begin(adapter, config, Tally.fresh())
    frames, violation = [frame_of(side, "At the beginning")], None
    for number, action in enumerate(actions, start=1):
        side.answers.clear()
        try:
            subject.perform(side, action)
        except Violation as raised:
            violation = raised
        except EpisodeOver:
            break
        frames.append(frame_of(side, f"{number}. {outcome_words(side, action)}"))
        if violation is not None:
            break
    name = f"{target} {adapter.profile.version}"
    head = name if violation is None else f"{violation.law_id} broken by {name}"
    found = None if violation is None else (violation.law_id, violation.objection)
    return page(head, setting_words(config), frames, columns_of(side), found)


def columns_of(side: Session | Engine) -> tuple[str, ...]:
    """What is shown of a request."""
    return OF_ALLOCATOR if isinstance(side, Session) else OF_SCHEDULER


def frame_of(side: Session | Engine, after: str) -> Frame:
    """The state of an allocator or a scheduler."""
    return allocator_frame(side, after) if isinstance(side, Session) else scheduler_frame(side, after)


def allocator_frame(session: Session, after: str) -> Frame:
    """The pool, and the requests of the engine that uses it."""
    snapshot, world = session.snapshot, session.world
    requests = {
        name: [*allocator_cells(request, name in world.loading), tables_words(snapshot, name)]
        for name, request in world.requests.items()
    }
    return Frame(
        after,
        block_rows(snapshot, prefixes_in_pool(world.keys, len(snapshot.config.groups))),
        queue_words(snapshot),
        "",
        requests,
    )


def allocator_cells(request: Request, loading: bool) -> list[str]:
    """A request's state and counts."""
    counts = request.num_tokens, request.num_computed_tokens, request.num_in_flight_tokens
    return ["loading" if loading else request.status.value, *map(str, counts)]


def scheduler_frame(engine: Engine, after: str) -> Frame:
    """The scheduler's pool, its queues and its requests."""
    view, snapshot = engine.view, snapshot_of(engine.config, engine.view)
    prefixes = {snapshot.pool.key_of(block): tuple(prefix) for block, _, prefix in view.keyed}
    requests = {name: [*scheduler_cells(state), tables_words(snapshot, name)] for name, state in view.requests.items()}
    queues = f"running: {' '.join(view.running) or '-'} | waiting: {' '.join(view.waiting) or '-'}"
    return Frame(after, block_rows(snapshot, prefixes), queue_words(snapshot), queues, requests)


def scheduler_cells(state: RequestState) -> list[str]:
    """A request's state and counts."""
    return [
        f"{state.status}{', blocked' if state.blocked else ''}",
        str(state.num_tokens),
        str(state.num_computed_tokens),
    ]

"""A refusal leaves no trace in any field of the allocator, but for what stage 1 lets go behind a window."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from slotproof.conformance.actions import Action, perform
from slotproof.conformance.adapter import NO_HIT, Hit
from slotproof.conformance.driver import SeededChooser, walk_episode
from slotproof.conformance.session import Session, Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.targets.impl import ImplAdapter
from slotproof.impl import SlotAllocator
from slotproof.spec.admission import Call, idle_hits, is_short, release_skipped, watermark_for, whole_prompt_need
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention
from slotproof.spec.snapshot import Snapshot


def fields_of(value: Any) -> Any:
    """Every field of an object and of what it is made of, all the way down, as one comparable value."""
    if value is None or isinstance(value, bool | int | float | str | bytes | Enum):
        return value
    if isinstance(value, dict):
        return tuple((fields_of(key), fields_of(entry)) for key, entry in value.items())
    if isinstance(value, list | tuple | deque):
        return tuple(map(fields_of, value))
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names += sorted(getattr(value, "__dict__", {}))
    assert names, f"a {type(value).__name__} has no fields to compare"
    return tuple((name, fields_of(getattr(value, name))) for name in names)


class WatchedAdapter(ImplAdapter):
    """Our allocator, every field of it compared around each refusal; what was refused is asked again for more."""

    HARDER = 9

    def __init__(self) -> None:
        super().__init__()
        self.refusals = refusals = Counter[str]()
        self.traces = traces = list[str]()

        class Watched(SlotAllocator):
            def allocate_slots(
                self, request: Any, new: int, *args: Any, reserved_blocks: int = 0, **kwargs: Any
            ) -> Any:
                before = fields_of(self)
                answer = super().allocate_slots(request, new, *args, reserved_blocks=reserved_blocks, **kwargs)
                if answer is not None:
                    return answer
                refusals[request.status.value] += 1
                for more in range(WatchedAdapter.HARDER + 1):
                    if fields_of(self) != before:
                        traces.append(f"{request} {new} {kwargs} reserved {reserved_blocks + more}")
                    if more < WatchedAdapter.HARDER:
                        kwargs["num_lookahead_tokens"] += more % 2
                        harder = super().allocate_slots(
                            request, new, *args, reserved_blocks=reserved_blocks + more, **kwargs
                        )
                        assert harder is None
                        refusals["asked again"] += 1
                return None

        self.allocator_type = Watched


@pytest.mark.parametrize(
    ("caching", "episodes", "due"),
    [
        (True, 12, 10_000),
        (False, 6, 5_000),
        pytest.param(True, 120, 100_000, marks=pytest.mark.slow),
    ],
)
def test_with_full_attention_a_refusal_leaves_every_field_as_it_was(caching: bool, episodes: int, due: int) -> None:
    adapter = WatchedAdapter()

    for number in range(episodes):
        settings = Settings(groups=("full", "full,full")[number % 2], caching=caching)
        assert walk_episode(adapter, settings, f"refusals/{caching}/{number}", 250, Tally.fresh()) is None

    assert adapter.traces == []
    assert adapter.refusals.total() >= due
    assert min(adapter.refusals[status] for status in ("waiting", "running", "preempted")) >= episodes


def test_a_field_that_a_refusal_changes_is_seen() -> None:
    config = Config(3, (FullAttention(2),), 8, 8)
    adapter = WatchedAdapter()
    adapter.reset(config)
    before = fields_of(adapter._allocator)

    adapter._allocator._pool.refs[2] += 1

    assert fields_of(adapter._allocator) != before


@dataclass(frozen=True)
class Visible:
    """What an allocator's caller can see of it."""

    queue: tuple[int, ...]
    refs: tuple[int, ...]
    keyed: frozenset[int]
    tables: dict[str, tuple[tuple[int, ...], ...]]
    counters: dict[str, tuple[int, ...]]

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot, names: Sequence[str]) -> "Visible":
        pool, held = snapshot.pool, {name: snapshot.holding(name) for name in names}
        return cls(
            pool.queue,
            pool.refs,
            frozenset(pool.keyed),
            {name: tuple(table.entries for table in holding.tables) for name, holding in held.items()},
            {name: holding.cached for name, holding in held.items()},
        )

    @classmethod
    def of_allocator(cls, allocator: SlotAllocator, names: Sequence[str]) -> "Visible":
        return cls(
            allocator.free_queue(),
            tuple(allocator.ref_count(block) for block in range(allocator.config.num_blocks)),
            frozenset(allocator.cached_blocks()),
            {name: allocator.block_table(name) for name in names},
            {name: tuple(count or 0 for count in allocator.cached_count(name)) for name in names},
        )


class RefusalSession(Session):
    """Compares what our allocator shows after each refusal with what the specification's stage 1 alone gives."""

    def __init__(self, adapter: ImplAdapter, config: Config, tally: Tally) -> None:
        super().__init__(adapter, config, tally)
        self.adapter = adapter
        self.refusals = Counter[str]()

    def allocate(self, call: Call, hit: Hit = NO_HIT) -> int | None:
        before, names = self.snapshot, sorted(self.world.requests)
        answer = super().allocate(call, hit)
        if answer is None:
            stage = "stage 0" if refused_by_stage_0(before, call) else "stage 2"
            due = before if stage == "stage 0" else release_skipped(before, call)
            assert Visible.of_allocator(self.adapter._allocator, names) == Visible.of_snapshot(due, names)
            self.refusals[stage] += 1
            self.refusals[f"{stage}, something behind the window"] += release_skipped(before, call) is not before
        return answer


def refused_by_stage_0(snapshot: Snapshot, call: Call) -> bool:
    needed = whole_prompt_need(snapshot, call, idle_hits(snapshot, call))
    return call.full_sequence_must_fit and is_short(needed, watermark_for(snapshot, call), snapshot.pool.num_free(), 0)


def chunked_walk(session: RefusalSession, chooser: SeededChooser, rounds: int) -> None:
    """Prompts that share their beginnings, computed in chunks; before each chunk too much is asked for."""
    for number in range(rounds):
        running = session.world.running()
        if not running or chooser.chance(10):
            length = chooser.integer(session.config.block_size, session.config.max_model_len - 1)
            prompt = (1,) * chooser.integer(1, length) + (2,) * length
            perform(session, Action("admit", {"request": str(number), "prompt": prompt[:length], "new": 3}))
            continue
        name = {"request": chooser.pick(running).request_id}
        perform(session, Action("output", {**name, "accepted": 0, "token": 1}))
        too_much = {"reserved": session.config.num_blocks, "whole": chooser.chance(50)}
        perform(session, Action("extend", {**name, "new": 1, **too_much}))
        perform(session, Action("extend", {**name, "new": chooser.integer(1, 4)}))
        if chooser.chance(10) or session.snapshot.pool.num_free() == 0:
            perform(session, Action(chooser.pick(("free", "preempt")), name))


@pytest.mark.parametrize(("groups", "episodes"), [("window:3", 50), ("full,window:3", 32), ("window:2,window:5", 24)])
def test_with_a_window_a_refusal_changes_exactly_what_stage_1_alone_would(groups: str, episodes: int) -> None:
    refusals = Counter[str]()

    for number in range(episodes):
        chooser = SeededChooser(f"windows/{groups}/{number}")
        settings = Settings(groups, number % 4 > 0, block_size=2, num_blocks=9 + 6 * groups.count(","))
        session = RefusalSession(ImplAdapter(), settings.draw(chooser, ImplAdapter.profile), Tally.fresh())
        chunked_walk(session, chooser, 120)
        refusals += session.refusals

    assert refusals["stage 2, something behind the window"] > 1000
    assert refusals["stage 0, something behind the window"] > 10

"""The content law end to end: over paged memory the same tokens come out as without a cache (MEM-1 to MEM-3)."""

from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="KV memory needs torch")

from slotproof.impl import AllocatorConfig, Request, SlotAllocator  # noqa: E402

from .engine import (  # noqa: E402
    BLOCK_SIZE,
    FULL_GROUPS,
    Engine,
    FingerprintEngine,
    Generation,
    Step,
    TransformerEngine,
)

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def reached(engine: Engine, *more: str) -> None:
    """The schedule had what makes the cache go wrong."""
    for what in ("preempted", "rejected", "accepted", "hit", *(more or ("forked", "refused"))):
        assert engine.count[what] > 5, (what, engine.count)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_token_is_what_decoding_without_a_cache_gives(seed: int, device: str) -> None:
    engine = TransformerEngine(seed, device=device)
    engine.run(600)
    assert engine.count["different"] == 0
    reached(engine)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_position_holds_the_fingerprint_of_its_prefix(seed: int) -> None:
    engine = FingerprintEngine(seed)
    engine.run(1500)
    assert (engine.count["misread"], engine.count["stale"], engine.count["different"]) == (0, 0, 0)
    reached(engine)


@pytest.mark.slow
def test_ten_thousand_tokens_do_not_differ() -> None:
    generated = 0
    for seed in range(10, 20):
        engine = TransformerEngine(seed)
        engine.run(1000)
        assert engine.count["different"] == 0, seed
        reached(engine)
        generated += engine.count["generated"]
    assert generated >= 10_000


class NoClear:
    def prepare(self: Any, step: Step) -> None:
        self.memory.copy_blocks(step.copies)


class LateCopy:
    def prepare(self: Any, step: Step) -> None:
        self.memory.prepare(step.fresh)

    def finish(self: Any, step: Step) -> None:
        self.memory.copy_blocks(step.copies)


class ShortCopy:
    """Copies all but the last token of a block."""

    def prepare(self: Any, step: Step) -> None:
        self.memory.prepare(step.fresh)
        for tensor in self.memory.tensors:
            for source, destination in step.copies:
                tensor[destination, :, :-1] = tensor[source, :, :-1]


class DraftsHashed:
    def new_allocator(self, config: AllocatorConfig) -> SlotAllocator:
        return KeysDrafts(config)

    def ask(self: Any, part: Any, **options: Any) -> Any:
        self.allocator.drafts = part.tokens[len(part.tokens) - part.num_drafts :]
        return super().ask(part, **options)  # type: ignore[misc]


class KeysDrafts(SlotAllocator):
    """Gives blocks their keys as if the drafts were final."""

    drafts: Sequence[int] = ()

    def _commit(self, request: Request, tables: Any, num_tokens: int) -> None:
        guessed = Request(request.request_id, [*request.token_ids, *self.drafts], block_size=request.block_size)
        super()._commit(guessed, tables, num_tokens)


class SlotOffByOne:
    def slots_to_write(self: Any, group: int, rows: Any, positions: Any) -> Any:
        return self.tables.slots(group, rows, positions) ^ 1


class StaleRow:
    """A row keeps what an earlier request had in it."""

    def enter(self: Any, sequence: Generation) -> None:
        if not self.tables.tables[0][sequence.row].any():
            super().enter(sequence)  # type: ignore[misc]


class WrongLayer:
    def layer_to_write(self, group: int, layer: int) -> int:
        return 0


FAULTS: list[type] = [NoClear, LateCopy, ShortCopy, DraftsHashed, SlotOffByOne, StaleRow, WrongLayer]


@pytest.mark.parametrize("engine", [TransformerEngine, FingerprintEngine])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_shows(fault: type, engine: type[Engine]) -> None:
    for seed in range(6):
        faulty: Engine = type(fault.__name__, (fault, engine), {})(seed)
        faulty.run(600)
        if faulty.count["different"] + faulty.count["misread"] + faulty.count["stale"]:
            return
    pytest.fail(f"{fault.__name__} went unnoticed")


# Hits that end inside a block.


class PartialHits:
    """Both groups are full attention, and a hit may end at every second token."""

    groups = FULL_GROUPS
    windows = (None, None, None)
    hash_size = 2

    def __init__(self, seed: int, num_blocks: int = 46, device: str = "cpu") -> None:
        super().__init__(seed, num_blocks, device)  # type: ignore[call-arg]


class PartialTransformer(PartialHits, TransformerEngine):
    pass


class PartialFingerprints(PartialHits, FingerprintEngine):
    pass


class PartialFingerprintsOfOne(PartialFingerprints):
    hash_size = 1


PARTIAL: list[type[Engine]] = [PartialTransformer, PartialFingerprints, PartialFingerprintsOfOne]


@pytest.mark.parametrize("engine", PARTIAL)
@pytest.mark.parametrize("seed", [0, 1])
def test_what_a_partial_hit_copied_is_what_computing_it_gives(engine: type[Engine], seed: int) -> None:
    copying = engine(seed)
    copying.run(600)
    assert (copying.count["different"], copying.count["misread"], copying.count["stale"]) == (0, 0, 0)
    reached(copying, "copied", "refused")


@pytest.mark.parametrize("engine", PARTIAL)
def test_nothing_stays_pinned(engine: type[Engine]) -> None:
    drained = engine(2)
    drained.run(200)
    for sequence in list(drained.running):
        drained.allocator.free(sequence.request)
    assert drained.allocator.usage == 0.0


@pytest.mark.slow
def test_ten_thousand_tokens_behind_partial_hits_do_not_differ() -> None:
    generated = 0
    for seed in range(10, 20):
        engine = PartialTransformer(seed)
        engine.run(1000)
        assert engine.count["different"] == 0, seed
        reached(engine, "copied", "refused")
        generated += engine.count["generated"]
    assert generated >= 10_000


class ShortTail:
    """Copies the first token of a block only."""

    def prepare(self: Any, step: Step) -> None:
        self.memory.prepare(step.fresh)
        for tensor in self.memory.tensors:
            for source, destination in step.copies:
                tensor[destination, :, :1] = tensor[source, :, :1]


class NoPin:
    """Lets go of both ends before the copy is made."""

    def take_copies(self: Any, step: Step) -> None:
        for copy in self.allocator.take_copies():
            step.copies.append(copy)
            assert self.allocator.release_copy()


class OfferedTooSoon:
    """Offers the parts of a block when they are scheduled, as whole blocks are."""

    def ask(self: Any, part: Any, **options: Any) -> Any:
        answer = super().ask(part, **options)  # type: ignore[misc]
        if answer is not None:
            request = part.sequence.request
            self.allocator.cache_blocks(request, part.start + len(part.tokens) - part.num_drafts)
        return answer


class DraftsOffered:
    """Offers the parts of what was computed, rejected drafts among it."""

    def commit(self: Any, request: Request) -> None:
        guessed = Request(request.request_id, [*request.token_ids, *self.drafts], block_size=BLOCK_SIZE, hash_size=2)
        self.allocator.cache_blocks(guessed, guessed.num_tokens)

    def settle(self: Any, part: Any, output: list[int]) -> None:
        self.drafts = part.tokens[len(part.tokens) - part.num_drafts :] if part.samples else []
        super().settle(part, output)  # type: ignore[misc]


PARTIAL_FAULTS: list[type] = [LateCopy, ShortTail, NoPin, OfferedTooSoon, DraftsOffered]


@pytest.mark.parametrize("engine", [PartialTransformer, PartialFingerprints])
@pytest.mark.parametrize("fault", PARTIAL_FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_planted_into_copying_shows(fault: type, engine: type[Engine]) -> None:
    for seed in range(6):
        faulty: Engine = type(fault.__name__, (fault, engine), {})(seed)
        faulty.run(400)
        if faulty.count["different"] + faulty.count["misread"] + faulty.count["stale"]:
            return
    pytest.fail(f"{fault.__name__} went unnoticed")

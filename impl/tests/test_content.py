"""The content law end to end: over paged memory the same tokens come out as without a cache (MEM-1 to MEM-3)."""

from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="KV memory needs torch")

from slotproof.impl import AllocatorConfig, Request, SlotAllocator  # noqa: E402

from .engine import Engine, FingerprintEngine, Generation, Step, TransformerEngine  # noqa: E402

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def reached(engine: Engine) -> None:
    """The schedule had what makes the cache go wrong."""
    for what in ("preempted", "rejected", "accepted", "hit", "forked", "refused"):
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

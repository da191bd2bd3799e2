"""Refusals to the last bit: nothing on the host, nothing on the device, and no memory more (REFUSE-1)."""

import pytest

torch = pytest.importorskip("torch", reason="KV memory needs torch")

from .crowded import GROUPS, Crowded  # noqa: E402

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def refusals(seed: int, kind: str, device: str, number: int) -> None:
    crowded = Crowded(seed, kind, device)
    before = crowded.digest()
    crowded.settled()
    if kind == "full":
        assert crowded.digest() == before
    before, storage = crowded.digest(), crowded.storage()
    on_device = torch.cuda.memory_allocated() if device == "cuda" else 0
    for done in range(number):
        crowded.refuse(done)
        assert crowded.digest() == before
    assert crowded.storage() == storage
    assert (torch.cuda.memory_allocated() if device == "cuda" else 0) == on_device


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", GROUPS)
def test_a_refusal_changes_no_bit(kind: str, device: str) -> None:
    for seed in range(3):
        refusals(seed, kind, device, 100)


@pytest.mark.slow
@pytest.mark.parametrize("kind", GROUPS)
def test_a_hundred_thousand_refusals_change_no_bit(kind: str) -> None:
    for seed in range(5):
        refusals(seed, kind, DEVICES[-1], 10_000)


def test_the_digest_sees_a_bit() -> None:
    crowded = Crowded(0, "hybrid", "cpu")
    crowded.settled()
    seen = [crowded.digest()]
    crowded.memory.tensors[1][3, 0, 1, 1, 2] += 1
    seen.append(crowded.digest())
    crowded.tables.tables[0][3, 0] += 1
    seen.append(crowded.digest())
    crowded.allocator.evict_blocks([1])
    seen.append(crowded.digest())
    assert len(set(seen)) == 4

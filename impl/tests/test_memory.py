"""KV memory: what is written is read back, in every dtype, and clears and copies touch what they name."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="KV memory needs torch")

from slotproof.impl.memory import BlockTables, KVMemory, MemoryConfig  # noqa: E402

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64] + [
    getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)
]
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def memory_of(**changes: Any) -> KVMemory:
    shape: dict[str, Any] = {"num_blocks": 7, "block_size": 4, "layers": (2, 1), "num_heads": 2, "head_size": 3}
    return KVMemory(MemoryConfig(**shape | {"dtype": torch.float32} | changes))


def numbered(memory: KVMemory) -> None:
    """Every block of every layer gets a number of its own, which every dtype has; block 0 gets 7."""
    for sign, tensor in zip((1, -1), memory.tensors, strict=True):
        for block in range(len(tensor)):
            tensor[block] = sign * (block or 7)


def numbers(memory: KVMemory) -> list[list[float]]:
    """The number of each block, a layer; it must fill the block."""
    for tensor in memory.tensors:
        assert all(len(block.unique()) == 1 for block in tensor)
    return [[float(block.flatten()[0]) for block in tensor] for tensor in memory.tensors]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_written_is_gathered(dtype: Any, device: str) -> None:
    memory = memory_of(dtype=dtype, device=device)
    tables = BlockTables(2, 3, 2, 4, device)
    tables.set_row(0, [[3, 5], []])
    tables.set_row(1, [[6, 0, 2], [4]])
    rows, positions = torch.tensor([0, 0, 1, 1], device=device), torch.tensor([3, 4, 0, 11], device=device)
    slots = tables.slots(0, rows, positions)
    assert slots.tolist() == [15, 20, 24, 11]
    keys = torch.arange(24, dtype=torch.float32, device=device).reshape(4, 2, 3) / 8
    memory.write(0, 1, slots, keys, -keys)
    found = memory.gather(0, 1, tables.tables[0])
    expected = keys.to(dtype).to(torch.float32)
    for side, sign in zip(found, (1, -1), strict=True):
        assert (side.dtype, side.shape) == (dtype, (2, 12, 2, 3))
        assert torch.equal(side[rows, positions].to(torch.float32), sign * expected)
    written = sum(int((tensor.to(torch.float32) != 0).sum()) for tensor in memory.tensors)
    assert written == 2 * int((expected != 0).sum())


def test_layer_i_of_every_group_lives_in_one_tensor() -> None:
    memory = memory_of()
    ones = torch.ones(1, 2, 3)
    memory.write(1, 0, torch.tensor([8]), ones, ones)
    assert len(memory.tensors) == 2
    assert float(memory.tensors[0][2, 0, 0, 0, 0]) == 1
    with pytest.raises(ValueError, match="group 1 has no layer 1 among 1"):
        memory.write(1, 1, torch.tensor([8]), ones, ones)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_clears_and_copies_touch_the_blocks_they_name_in_every_layer(dtype: Any) -> None:
    memory = memory_of(dtype=dtype)
    numbered(memory)
    memory.clear_blocks([2, 4])
    memory.copy_blocks([(1, 3), (3, 5)])
    wide = memory_of()
    for tensor, mine in zip(wide.tensors, memory.tensors, strict=True):
        tensor.copy_(mine.to(torch.float32))
    assert numbers(wide) == [[7, 1, 0, 1, 0, 3, 6], [-7, -1, 0, -1, 0, -3, -6]]


def test_a_step_is_prepared_by_clears_and_then_copies() -> None:
    memory = memory_of(clear_groups=(1,))
    numbered(memory)
    memory.prepare([[1], [2, 3]], [(6, 3)])
    assert numbers(memory) == [[7, 1, 0, 6, 4, 5, 6], [-7, -1, 0, -6, -4, -5, -6]]


def test_cleared_is_zero_whatever_was_there() -> None:
    memory = memory_of(dtype=torch.float16)
    for tensor in memory.tensors:
        tensor.fill_(float("nan"))
    memory.clear_blocks([3])
    assert not memory.tensors[1][3].isnan().any()
    assert memory.tensors[1][4].isnan().all()


def test_a_row_that_is_set_again_keeps_nothing_and_blocks_are_appended_to_many_rows() -> None:
    tables = BlockTables(3, 4, 1, 4, "cpu")
    tables.set_row(1, [[5, 6, 7]])
    tables.set_row(1, [[8]])
    tables.append(0, [0, 1], [0, 1], [2, 3])
    assert tables.tables[0].tolist() == [[2, 0, 0, 0], [8, 3, 0, 0], [0, 0, 0, 0]]
    with pytest.raises(ValueError, match="5 blocks in a table of 4 columns"):
        tables.set_row(0, [[1, 2, 3, 4, 5]])


def test_a_block_is_the_destination_of_one_copy() -> None:
    memory = memory_of()
    numbered(memory)
    with pytest.raises(ValueError, match="a block is a destination twice"):
        memory.copy_blocks([(1, 3), (2, 3)])
    assert numbers(memory)[0] == [7, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 0}, "num_heads is 0; give at least 1"),
        ({"layers": ()}, r"layers is \(\); give at least one layer for each group"),
        ({"clear_groups": (2,)}, "of 2 groups; give group numbers"),
    ],
)
def test_impossible_shapes(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        memory_of(**changes)


def test_size_in_bytes() -> None:
    memory = memory_of(dtype=torch.bfloat16)
    assert memory.config.num_bytes == sum(tensor.nbytes for tensor in memory.tensors) == 2 * 7 * 2 * 4 * 2 * 3 * 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA: the host's waiting is seen only there")
def test_a_decode_step_never_waits_for_the_device() -> None:
    memory = memory_of(device="cuda", clear_groups=(0,))
    tables = BlockTables(2, 3, 2, 4, "cuda")
    tables.set_row(0, [[3], [1]])
    rows, positions = torch.tensor([0, 0], device="cuda"), torch.tensor([0, 1], device="cuda")
    keys = torch.ones(2, 2, 3, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        memory.prepare([[5], []], [(3, 4)])
        tables.append(0, [0], [1], [5])
        memory.write(0, 1, tables.slots(0, rows, positions), keys, keys)
        memory.gather(0, 1, tables.tables[0])
    finally:
        torch.cuda.set_sync_debug_mode("default")

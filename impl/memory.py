"""KV memory in torch: the pool's tensors, and what a worker does with an allocator's answer before a forward.

Needs torch; nothing here waits for the device. Shapes: B blocks, S tokens a block, H heads, D numbers a head.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

NUM_SIDES = 2
"""Keys and values."""

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8)
"""Moving bits needs no arithmetic, and not every operator knows every dtype (fp8)."""


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """Shape and place of the memory. Raises `ValueError` on anything that cannot work.

    num_blocks, block_size: as the allocator's, the null block included.
    layers: attention layers of each KV cache group. Groups take their blocks from one pool, so layer i of every group
        lives in one tensor, and a block holds that layer of the group that holds it.
    clear_groups: groups whose fresh blocks must be cleared, because their attention reads slots that nothing was
        written to; a stale NaN there would spread.
    """

    num_blocks: int
    block_size: int
    layers: tuple[int, ...]
    num_heads: int
    head_size: int
    dtype: torch.dtype = torch.bfloat16
    device: torch.device | str = "cpu"
    clear_groups: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("num_blocks", "block_size", "num_heads", "head_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 1")
        if not self.layers or min(self.layers) < 1:
            raise ValueError(f"layers is {self.layers}; give at least one layer for each group")
        if any(not 0 <= group < len(self.layers) for group in self.clear_groups):
            raise ValueError(f"clear_groups is {self.clear_groups} of {len(self.layers)} groups; give group numbers")

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors."""
        shape = (max(self.layers), self.num_blocks, NUM_SIDES, self.block_size, self.num_heads, self.head_size)
        return prod(shape) * self.dtype.itemsize


class KVMemory:
    """Keys and values of every block, one tensor [B, 2, S, H, D] a layer. Block 0, the null block, takes padding."""

    __slots__ = ("_bits", "_rows", "config", "device", "tensors")

    def __init__(self, config: MemoryConfig) -> None:
        self.config = config
        self.device = torch.device(config.device)
        shape = (config.num_blocks, NUM_SIDES, config.block_size, config.num_heads, config.head_size)
        self.tensors = [torch.zeros(shape, dtype=config.dtype, device=self.device) for _ in range(max(config.layers))]
        as_bits = next(dtype for dtype in INTEGERS if dtype.itemsize == config.dtype.itemsize)
        self._bits = [tensor.view(as_bits) for tensor in self.tensors]
        # A block is one row of numbers as wide as its size allows.
        num_bytes = self.tensors[0][0].nbytes
        widest = next(dtype for dtype in INTEGERS if num_bytes % dtype.itemsize == 0)
        self._rows = [tensor.view(config.num_blocks, -1).view(widest) for tensor in self.tensors]

    def write(self, group: int, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Writes a layer's keys and values [tokens, H, D] to `slots`, int64 [tokens], all different (MEM-3)."""
        bits = self._layer(self._bits, group, layer)
        blocks, offsets = slots // self.config.block_size, slots % self.config.block_size
        for side, numbers in enumerate((keys, values)):
            bits[blocks, side, offsets] = numbers.to(self.config.dtype).contiguous().view(bits.dtype)

    def gather(self, group: int, layer: int, tables: Tensor) -> tuple[Tensor, Tensor]:
        """A layer's keys and values [rows, blocks * S, H, D] of block tables, integers [rows, blocks]."""
        bits, dtype = self._layer(self._bits, group, layer), self.config.dtype
        rows, blocks = tables.shape
        shape = (rows, blocks * self.config.block_size, self.config.num_heads, self.config.head_size)
        found = bits[tables.long()]
        return found[:, :, 0].reshape(shape).view(dtype), found[:, :, 1].reshape(shape).view(dtype)

    def prepare(self, fresh: Sequence[Sequence[int]], copies: Sequence[tuple[int, int]] = ()) -> None:
        """What comes before the forward of a step (MEM-2): clears, then copies, so a copy into a fresh block stays.

        fresh: the blocks that the step's answers handed out, a list for each group; those of `clear_groups` are
            cleared. Blocks that another store fills are left out.
        copies: (source, destination).
        """
        self.clear_blocks([block for group in self.config.clear_groups for block in fresh[group]])
        self.copy_blocks(copies)

    def clear_blocks(self, blocks: Sequence[int]) -> None:
        """Sets these blocks to 0 in every layer."""
        if blocks:
            at = self._sent(blocks)
            for rows in self._rows:
                rows.index_fill_(0, at, 0)

    def copy_blocks(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copies whole blocks in every layer, all from what they held before; no block is a destination twice.

        Raises `ValueError`, copying nothing, if one is.
        """
        if not pairs:
            return
        destinations = [destination for _, destination in pairs]
        if len(set(destinations)) < len(destinations):
            raise ValueError(f"copy_blocks: a block is a destination twice in {list(pairs)}; copy to each one once")
        source, destination = self._sent([source for source, _ in pairs]), self._sent(destinations)
        for rows in self._rows:
            rows.index_copy_(0, destination, rows.index_select(0, source))

    def _layer(self, tensors: list[Tensor], group: int, layer: int) -> Tensor:
        if not 0 <= layer < self.config.layers[group]:
            raise ValueError(f"group {group} has no layer {layer} among {self.config.layers[group]}")
        return tensors[layer]

    def _sent(self, numbers: Sequence[int]) -> Tensor:
        return sent(numbers, torch.int64, self.device)


class BlockTables:
    """The block tables of a batch on the device, int32 [rows, blocks] a group; what is not filled is null."""

    __slots__ = ("block_size", "device", "tables")

    def __init__(
        self, num_rows: int, num_columns: int, num_groups: int, block_size: int, device: torch.device | str
    ) -> None:
        self.block_size = block_size
        self.device = torch.device(device)
        self.tables = [
            torch.zeros((num_rows, num_columns), dtype=torch.int32, device=self.device) for _ in range(num_groups)
        ]

    def set_row(self, row: int, blocks: Sequence[Sequence[int]]) -> None:
        """Puts a request's whole tables into a row; what stood there before is gone."""
        for table, entries in zip(self.tables, blocks, strict=True):
            if len(entries) > table.shape[1]:
                raise ValueError(f"set_row: {len(entries)} blocks in a table of {table.shape[1]} columns")
            table[row].zero_()
            if entries:
                table[row, : len(entries)] = sent(entries, torch.int32, self.device)

    def append(self, group: int, rows: Sequence[int], columns: Sequence[int], blocks: Sequence[int]) -> None:
        """Adds single blocks to many rows at once: `blocks[i]` to column `columns[i]` of `rows[i]`."""
        if rows:
            at = sent(rows, torch.int64, self.device), sent(columns, torch.int64, self.device)
            self.tables[group][at] = sent(blocks, torch.int32, self.device)

    def slots(self, group: int, rows: Tensor, positions: Tensor) -> Tensor:
        """The slot of each token, int64 [tokens]: which row it is of, and its position in the sequence."""
        blocks = self.tables[group][rows, positions // self.block_size].long()
        return blocks * self.block_size + positions % self.block_size


def sent(numbers: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Numbers on the device; from pinned memory, so that the host need not wait."""
    if device.type != "cuda":
        return torch.tensor(numbers, dtype=dtype, device=device)
    return torch.tensor(numbers, dtype=dtype, pin_memory=True).to(device, non_blocking=True)

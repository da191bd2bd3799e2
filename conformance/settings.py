"""Which configurations a run draws from: what the user fixed, and small worlds for the rest."""

from dataclasses import dataclass

from slotproof.conformance.actions import Chooser
from slotproof.conformance.adapter import Profile
from slotproof.conformance.errors import SetupError
from slotproof.spec.config import Config, FreeOrder
from slotproof.spec.groups import FullAttention, Group, SlidingWindow

DEFAULT_GROUPS = ("full", "window", "full,window", "partial")
MODELLED = "full, window, window:W (W tokens), partial, partial:H (full attention, hits end at every H tokens)"

Kinds = tuple[tuple[str, int | None], ...]
"""Each group's kind, and what is said of it: a window, or a hash granularity."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One group setting and what else is fixed; None is drawn anew for every episode."""

    groups: str = "full"
    caching: bool = True
    block_size: int | None = None
    num_blocks: int | None = None
    free_order: str | None = None
    watermark_blocks: int | None = None

    def __post_init__(self) -> None:
        kinds = parse_groups(self.groups)
        try:
            self._require_partial_hits(kinds)
            make_groups(kinds, 1 if self.block_size is None else self.block_size, window=2)
            if self.num_blocks is not None:
                Config(self.num_blocks, (FullAttention(1),), 8, 8, self.watermark_blocks or 0)
            if self.free_order is not None:
                FreeOrder(self.free_order)
        except ValueError as error:
            raise SetupError(f"this configuration is not possible: {error}") from error

    def _require_partial_hits(self, kinds: Kinds) -> None:
        """Parts of blocks need full attention, one granularity, and blocks that it divides."""
        finest = hash_size_of(kinds)
        if finest is None:
            return
        if ("partial", 0) in kinds:
            raise ValueError("hits cannot end at every 0 tokens; use partial:1 or more")
        if any(kind == "window" for kind, _ in kinds):
            raise ValueError("hits that end inside a block are modelled for full attention only; use partial or full")
        if self.block_size is not None and not is_finer(finest, self.block_size):
            raise ValueError(
                f"hits cannot end inside blocks of {self.block_size} tokens"
                + (f" at every {finest} tokens; use a smaller divisor" if finest else "; use 2 or more")
            )

    @property
    def kinds(self) -> tuple[str, ...]:
        """What a target must support: its group kinds, and `hybrid` for several groups."""
        kinds = {kind for kind, _ in parse_groups(self.groups)}
        return tuple(sorted(kinds)) + (("hybrid",) if len(parse_groups(self.groups)) > 1 else ())

    def draw(self, chooser: Chooser, profile: Profile) -> Config:
        """The configuration of one episode: pools of a few blocks, so that everything runs out all the time."""
        block_size = self.block_size or chooser.pick(self._block_sizes(profile))
        window = chooser.integer(2, 4 * block_size + 1)
        groups = make_groups(parse_groups(self.groups), block_size, window)
        num_blocks = self.num_blocks or chooser.integer(2 + len(groups), 5 + 6 * len(groups))
        usable = num_blocks - 1
        watermark = self.watermark_blocks
        if watermark is None:
            watermark = min(chooser.pick((0, 1, 1, 2)), usable - 1)
        max_model_len = chooser.integer(2 * block_size, block_size * usable + block_size)
        in_flight = chooser.integer(1, max_model_len)
        orders = [order for order in FreeOrder if order in profile.free_orders]
        free_order = FreeOrder(self.free_order) if self.free_order else chooser.pick(orders)
        hash_size = self._draw_hash_size(chooser, block_size)
        return Config(num_blocks, groups, max_model_len, in_flight, watermark, self.caching, free_order, hash_size)

    def _block_sizes(self, profile: Profile) -> list[int]:
        """Small block sizes that the target takes, some of them twice; any that it takes if these are too small."""
        taken, finest = profile.block_sizes, hash_size_of(parse_groups(self.groups))
        if finest is not None:
            small = [size for size in (2, 4, 4, 6) if is_finer(finest, size)] or [2 * finest]
        else:
            small = [1, 2, 3, 3, 4, 4]
        return [size for size in small if taken is None or size in taken] or list(taken or (1,))

    def _draw_hash_size(self, chooser: Chooser, block_size: int) -> int | None:
        """A granularity finer than the block, where hits are to end inside blocks."""
        finest = hash_size_of(parse_groups(self.groups))
        if finest is None:
            return None
        return finest or chooser.pick([size for size in range(1, block_size) if block_size % size == 0])


def is_finer(hash_size: int, block_size: int) -> bool:
    """Whether hits can end inside blocks of this size at this granularity, 0 for any."""
    return max(hash_size, 1) < block_size and block_size % max(hash_size, 1) == 0


def default_groups(block_size: int | None) -> tuple[str, ...]:
    """The group settings of a run that names none: no hit ends inside a block of one token."""
    return tuple(groups for groups in DEFAULT_GROUPS if groups != "partial" or block_size != 1)


def hash_size_of(kinds: Kinds) -> int | None:
    """The hash granularity that is asked for, 0 for any that is finer than the block; None if hits are whole blocks."""
    asked = [argument or 0 for kind, argument in kinds if kind == "partial"]
    return max(asked, default=None)


def parse_groups(text: str) -> Kinds:
    """`full,window:32` as ((full, None), (window, 32)).

    Raises:
        SetupError: for a kind that is not modelled, by name.
    """
    parsed: list[tuple[str, int | None]] = []
    for part in text.split(","):
        kind, _, argument = part.strip().partition(":")
        if kind not in ("full", "window", "partial") or (argument and kind == "full"):
            raise SetupError(f"group kind {part.strip()!r} is not modelled; use a comma-separated list of {MODELLED}")
        if argument and not argument.isdigit():
            what = "window" if kind == "window" else "hash granularity"
            raise SetupError(f"{argument!r} is no {what} in tokens; write for example {kind}:32")
        parsed.append((kind, int(argument) if argument else None))
    return tuple(parsed)


def make_groups(kinds: Kinds, block_size: int, window: int) -> tuple[Group, ...]:
    """The groups; those without a window of their own take `window`, each further one a larger one."""
    groups: list[Group] = []
    for kind, fixed in kinds:
        if kind != "window":
            groups.append(FullAttention(block_size))
        else:
            groups.append(SlidingWindow(block_size, window if fixed is None else fixed))
            window += block_size
    return tuple(groups)

"""Which configurations a run draws from: what the user fixed, and small worlds for the rest."""

from dataclasses import dataclass

from slotproof.conformance.actions import Chooser
from slotproof.conformance.adapter import Profile
from slotproof.conformance.errors import SetupError
from slotproof.spec.config import Config, FreeOrder
from slotproof.spec.groups import FullAttention, Group, SlidingWindow

DEFAULT_GROUPS = ("full", "window", "full,window")
MODELLED = "full, window, window:W (W tokens)"


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
            make_groups(kinds, 1 if self.block_size is None else self.block_size, window=2)
            if self.num_blocks is not None:
                Config(self.num_blocks, (FullAttention(1),), 8, 8, self.watermark_blocks or 0)
            if self.free_order is not None:
                FreeOrder(self.free_order)
        except ValueError as error:
            raise SetupError(f"this configuration is not possible: {error}") from error

    @property
    def kinds(self) -> tuple[str, ...]:
        """What a target must support: its group kinds, and `hybrid` for several groups."""
        kinds = {kind for kind, _ in parse_groups(self.groups)}
        return tuple(sorted(kinds)) + (("hybrid",) if len(parse_groups(self.groups)) > 1 else ())

    def draw(self, chooser: Chooser, profile: Profile) -> Config:
        """The configuration of one episode: pools of a few blocks, so that everything runs out all the time."""
        sizes = [size for size in (1, 2, 3, 3, 4, 4) if profile.block_sizes is None or size in profile.block_sizes]
        block_size = self.block_size or chooser.pick(sizes or list(profile.block_sizes or (1,)))
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
        return Config(num_blocks, groups, max_model_len, in_flight, watermark, self.caching, free_order)


def parse_groups(text: str) -> tuple[tuple[str, int | None], ...]:
    """`full,window:32` as ((full, None), (window, 32)).

    Raises:
        SetupError: for a kind that is not modelled, by name.
    """
    parsed: list[tuple[str, int | None]] = []
    for part in text.split(","):
        kind, _, argument = part.strip().partition(":")
        if kind not in ("full", "window") or (argument and kind == "full"):
            raise SetupError(f"group kind {part.strip()!r} is not modelled; use a comma-separated list of {MODELLED}")
        if argument and not argument.isdigit():
            raise SetupError(f"{argument!r} is no window in tokens; write for example window:32")
        parsed.append((kind, int(argument) if argument else None))
    return tuple(parsed)


def make_groups(kinds: tuple[tuple[str, int | None], ...], block_size: int, window: int) -> tuple[Group, ...]:
    """The groups; those without a window of their own take `window`, each further one a larger one."""
    groups: list[Group] = []
    for kind, fixed in kinds:
        if kind == "full":
            groups.append(FullAttention(block_size))
        else:
            groups.append(SlidingWindow(block_size, window if fixed is None else fixed))
            window += block_size
    return tuple(groups)

"""What a key stands for: the whole prefix that a block ends, under one salt and one set of extra keys.

Real allocators hash; here a table hands out one small integer for each distinct prefix, so two prefixes never share a
key and a long prompt costs nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

ROOT_KEY = -1
"""The parent of every first block."""

Prefix = tuple[int, tuple[int, ...], tuple[str, ...]]
"""(the parent's key, the block's tokens, its extra keys)."""


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Keys handed out so far; equal prefixes have equal keys in every table that descends from one."""

    entries: Mapping[Prefix, int] = field(default_factory=lambda: MappingProxyType({}))

    def intern(self, parent: int, tokens: tuple[int, ...], extra: tuple[str, ...]) -> "tuple[KeyTable, int]":
        """The key of the prefix, and the table that knows it."""
        prefix = (parent, tokens, extra)
        known = self.entries.get(prefix)
        if known is not None:
            return self, known
        key = len(self.entries)
        return KeyTable(MappingProxyType({**self.entries, prefix: key})), key


def block_key(prefix_key: int, group: int, num_groups: int) -> int:
    """The key under which one group's block is offered: groups never share blocks, so each prefix has one key a
    group.
    """
    return prefix_key * num_groups + group

"""Plain LRU over a trace's ids, as most simulators have it: no last-token rule, and a partial last block counts."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

SHARES = (0.01, 0.05, 0.10, 0.25, 0.50)
"""Capacities that published tables use, as shares of the distinct ids."""


def hit_share(prompts: Iterable[Sequence[int]], capacity: int | None) -> float:
    """Share of the block references that are hits on a cached prefix; without a capacity nothing is evicted."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = references = 0
    for ids in prompts:
        references += len(ids)
        for one in ids:
            if one not in cache:
                break
            hits += 1
        for one in ids:
            cache[one] = None
            cache.move_to_end(one)
        while capacity is not None and len(cache) > capacity:
            cache.popitem(last=False)
    return hits / references if references else 0.0


def lru_table(prompts: Sequence[Sequence[int]]) -> list[tuple[int | None, float]]:
    """Hit share by capacity in blocks: the shares of the distinct ids, and no limit."""
    distinct = len({one for ids in prompts for one in ids})
    capacities: list[int | None] = [*(int(share * distinct) for share in SHARES), None]
    return [(capacity, hit_share(prompts, capacity)) for capacity in capacities]

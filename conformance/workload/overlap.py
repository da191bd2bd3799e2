"""How much of a session its requests have in common with the request before."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import fmean, quantiles

from slotproof.conformance.workload.trace import TraceRequest


def session_overlaps(requests: Iterable[TraceRequest]) -> list[float]:
    """Per session the share of all its blocks, those of its first request included, that are a prefix of the request
    before. The requests must be in the order of the file, and have ids.
    """
    overlaps = []
    for _, session in groupby(requests, key=lambda request: request.session):
        shared, total = 0, 0
        before: Sequence[int] = ()
        for request in session:
            ids = request.ids or ()
            shared += common_prefix(before, ids)
            total += len(ids)
            before = ids
        if total:
            overlaps.append(shared / total)
    return overlaps


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the longest common prefix, found by halving: ids that are equal at a place are equal before it."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[middle - 1] == other[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low


def summary(shares: Sequence[float]) -> tuple[float, float, float, float, float, float]:
    """Least, quartiles, greatest and mean; at least two shares."""
    lower, median, upper = quantiles(shares, n=4, method="inclusive")
    return min(shares), lower, median, upper, max(shares), fmean(shares)

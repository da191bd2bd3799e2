"""How fast the explorer is: states of one small world a second, every law on, in one process."""

from slotproof.conformance.explore import Speed, speed
from slotproof.conformance.scope import make_scope

NAME = "explore"

MAX_STATES = 10_000
"""Enough for what was worked out once to be asked again, as in a whole search."""


def explorer_speed() -> Speed:
    """States a second over the first states of 5 usable blocks, 3 requests and 4 tokens, up to renaming and as they
    are.
    """
    return speed(make_scope(blocks=6, requests=3, tokens=4), MAX_STATES)

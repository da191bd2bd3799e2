"""The specification walked alone: no law objects to any step of it."""

import pytest

from slotproof.conformance.driver import walk_episode
from slotproof.conformance.session import Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.targets.reference import ReferenceAdapter
from slotproof.spec import LAWS

UNTOLD = {"CAN-1"}
"""The specification foretells nothing."""


@pytest.mark.parametrize(
    "settings",
    [
        Settings(groups="full"),
        Settings(groups="window"),
        Settings(groups="full,window"),
        Settings(groups="window,full,window"),
        Settings(groups="full,window", caching=False),
        Settings(groups="full,window", free_order="lru"),
        Settings(groups="partial"),
        Settings(groups="partial,partial:1"),
    ],
    ids=["full", "window", "hybrid", "two windows", "caching off", "lru", "partial", "two partial"],
)
def test_no_law_objects_to_the_specification(settings: Settings) -> None:
    tally = Tally.fresh()
    for number in range(12):
        seed = f"spec:{settings.groups}:{number}"
        print("seed", seed)
        failure = walk_episode(ReferenceAdapter(), settings, seed, 100, tally)
        assert failure is None, [*map(str, failure.actions), str(failure.violation)]
    needs_keys = set() if settings.caching else {"EVICT-1"}
    assert {law.id for law in LAWS if not tally.checks[law.id]} == UNTOLD | needs_keys

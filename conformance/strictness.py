"""From which level of strictness each law is held against a target."""

from collections.abc import Iterable

from slotproof.conformance.adapter import Profile, Strictness
from slotproof.spec.laws import ANY, LAWS, Law
from slotproof.spec.transition import Allocated, Event

FROM_DECISIONS = ("REFUSE-2", "REFUSE-3", "ADMIT-1", "ADMIT-2", "ADMIT-3")
FROM_COUNTS = ("TABLE-1", "COUNT-1", "COUNT-2", "COUNT-3", "SKIP-1")
FROM_IDENTITY = ("BATCH-1", "COMMIT-2", "HASH-2", "HASH-3", "FREE-1")


def level_of(law_id: str) -> Strictness:
    """The lowest level that includes the law; a safety law holds for every sound allocator."""
    if law_id in FROM_DECISIONS:
        return Strictness.DECISIONS
    if law_id in FROM_COUNTS:
        return Strictness.COUNTS
    return Strictness.IDENTITY if law_id in FROM_IDENTITY else Strictness.SAFETY


def laws_for(profile: Profile) -> tuple[Law, ...]:
    """The laws a target of this profile is held to."""
    return tuple(law for law in LAWS if level_of(law.id) <= profile.strictness and not exempt(law.id, profile))


def exempt(law_id: str, profile: Profile) -> str | None:
    """Why the profile frees a target from a law, or None."""
    if law_id == "POOL-4" and not profile.free_counts_cached:
        return "its number of free blocks leaves cached blocks out"
    if law_id == "FREE-2" and profile.unknown_free == "undefined":
        return "freeing an unknown request is undefined for it"
    if law_id == "LEAK-1" and not profile.free_counts_cached:
        return "its number of free blocks leaves cached blocks out"
    return None


def by_event(laws: Iterable[Law]) -> dict[tuple[type[Event], bool | None], tuple[Law, ...]]:
    """The laws by the event, and for `Allocated` the answer, that they speak about."""
    listed = tuple(laws)
    return {
        (event, answered): tuple(law for law in listed if event in law.about and law.answered in (None, answered))
        for event in ANY
        for answered in ((True, False) if event is Allocated else (None,))
    }

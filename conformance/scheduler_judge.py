"""What the laws object to in a turn of a scheduler, and in each allocator call of it."""

from collections.abc import Collection

from slotproof.spec.laws import ALL_LAWS, LAWS, SCHEDULER_LAWS
from slotproof.spec.scheduler.turn import Turn

LAW_IDS = tuple(law.id for law in ALL_LAWS)

Objection = tuple[str, str]
"""A law's id, and what contradicts it."""


def objections(turn: Turn, law_ids: Collection[str] = LAW_IDS) -> list[Objection]:
    """What every law of these objects to, the scheduler's laws first."""
    said = [(law.id, law.objection(turn)) for law in SCHEDULER_LAWS if law.id in law_ids]
    for transition in turn.transitions:
        said += [
            (law.id, law.objection(transition)) for law in LAWS if law.id in law_ids and law.speaks_about(transition)
        ]
    return [(law_id, objection) for law_id, objection in said if objection is not None]


def objections_to_cycle(cycle: list[Turn], law_ids: Collection[str] = LAW_IDS) -> list[Objection]:
    """What the laws of these object to if these turns are repeated for ever."""
    judging = [law for law in SCHEDULER_LAWS if law.of_cycle is not None and law.id in law_ids]
    said = [(law.id, law.of_cycle(cycle)) for law in judging if law.of_cycle is not None]
    return [(law_id, objection) for law_id, objection in said if objection is not None]

"""What a scenario is, and short words for building its world."""

from dataclasses import dataclass

from slotproof.conformance.actions import Action
from slotproof.conformance.scheduler_model import World
from slotproof.spec.config import Config
from slotproof.spec.groups import FullAttention, Group
from slotproof.spec.scheduler.policy import Policy


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scheduler change, the law it breaks and the old policy keeps, and a world that shows it.

    `by_hand` is the number of `schedule` calls of the shortest trace that people found, from the same start.
    """

    id: str
    title: str
    old: Policy
    new: Policy
    law_id: str
    property: str
    world: World
    by_hand: int


def pool(usable: int, *groups: Group, max_model_len: int = 32, max_in_flight: int = 32, caching: bool = True) -> Config:
    """A pool of so many usable blocks; blocks of 4 tokens and full attention if nothing is said."""
    return Config(usable + 1, groups or (FullAttention(4),), max_model_len, max_in_flight, caching=caching)


def tokens(number: int, first: int) -> tuple[int, ...]:
    """So many tokens; prompts with different first tokens share nothing."""
    return (first, *((0,) * (number - 1)))


def arrive(name: str) -> Action:
    """A request arrives."""
    return Action("arrive", {"request": name})


SCHEDULE = Action("schedule")
PROCESS = Action("process")
STEP = (SCHEDULE, PROCESS)

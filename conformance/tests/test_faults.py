"""Planted faults: each is found by seeded walks, named by its law, shrunk to a few calls and replayed from its JSON."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from slotproof.conformance.adapter import Adapter
from slotproof.conformance.counterexample import narrate
from slotproof.conformance.driver import walk_episode
from slotproof.conformance.find import shortest_failure
from slotproof.conformance.replay import Failure, replay
from slotproof.conformance.session import Tally
from slotproof.conformance.settings import Settings
from slotproof.conformance.targets.impl import ImplAdapter
from slotproof.conformance.vector import parse_vector
from slotproof.spec.laws import BY_ID

from .faults import FAULTS, OF_BATCHES, OF_COPIES, SEEN_IN_THE_WILD, Edit, Fault, plant

EPISODES = 36
STEPS = 100
AT_MOST_CALLS = 6


@dataclass(frozen=True)
class Episode:
    """One short walk; the groups take turns."""

    number: int
    groups: tuple[str, ...] = ("full", "window", "full,window")

    @property
    def seed(self) -> str:
        return f"planted/{self.number}"

    @property
    def settings(self) -> Settings:
        return Settings(groups=self.groups[self.number % len(self.groups)])

    def walk(self, adapter: Adapter) -> Failure | None:
        return walk_episode(adapter, self.settings, self.seed, STEPS, Tally.fresh())


@pytest.mark.parametrize("fault", [*FAULTS, *SEEN_IN_THE_WILD, *OF_BATCHES, *OF_COPIES], ids=lambda fault: fault.name)
def test_a_planted_fault_is_found_named_shrunk_and_replayed(fault: Fault, tmp_path: Path) -> None:
    """Given a copy with one fault, when walks look for it, then the law it breaks says so in a few calls."""
    faulty = plant(fault, tmp_path)

    episode, found = first_failure(faulty, fault)
    shrunk = shortest_failure(faulty, episode.settings, found, episode.seed)
    counterexample = narrate(faulty, "faulty", 0, shrunk)

    assert fault.law in shrunk.violation.law_ids
    assert len(shrunk.actions) <= AT_MOST_CALLS

    vector = parse_vector(json.dumps(counterexample.vector().as_json()), "the counterexample")
    again = replay(faulty, vector.config, vector.actions)
    assert again is not None
    assert again.actions == shrunk.actions
    assert again.violation.law_ids == shrunk.violation.law_ids
    assert again.violation.objection == shrunk.violation.objection
    assert replay(ImplAdapter(), vector.config, vector.actions) is None


def first_failure(adapter: Adapter, fault: Fault) -> tuple[Episode, Failure]:
    """The first episode in which the fault's law objects."""
    for episode in (Episode(number, fault.groups) for number in range(EPISODES)):
        failure = episode.walk(adapter)
        if failure is not None and fault.law in failure.violation.law_ids:
            return episode, failure
    return pytest.fail(f"{fault.law} did not object in {EPISODES} episodes")


@pytest.mark.parametrize("groups", sorted({fault.groups for fault in [*FAULTS, *OF_COPIES]}))
def test_the_allocator_without_a_fault_passes_every_episode(groups: tuple[str, ...]) -> None:
    sound = ImplAdapter()
    episodes = [Episode(number, groups) for number in range(EPISODES)]
    assert [episode for episode in episodes if episode.walk(sound) is not None] == []


def test_the_copy_without_a_fault_passes_too(tmp_path: Path) -> None:
    """What is found is the fault, not the copying."""
    copy = plant(Fault("nothing", "POOL-1", ()), tmp_path)
    assert type(copy) is not ImplAdapter
    assert [episode for episode in map(Episode, range(6)) if episode.walk(copy) is not None] == []


def test_faults_have_names_of_their_own_and_laws_that_exist() -> None:
    faults = [*FAULTS, *SEEN_IN_THE_WILD, *OF_BATCHES, *OF_COPIES]
    assert len({fault.name for fault in faults}) == len(faults) == 24
    assert {fault.law for fault in faults} <= set(BY_ID)


@pytest.mark.parametrize(("lines", "times"), [("no such line", 0), ("request.num_tokens", 3)])
def test_a_fault_whose_lines_moved_is_an_error(lines: str, times: int) -> None:
    source = "request.num_tokens request.num_tokens request.num_tokens"
    with pytest.raises(LookupError) as caught:
        Edit("allocator.py", lines, "").applied_to(source)
    assert str(caught.value) == f"allocator.py has these lines {times} times, not once; adapt the fault:\n{lines}"


def test_a_fault_of_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"^no file tables_of_old\.py"):
        plant(Fault("nowhere", "POOL-1", (Edit("tables_of_old.py", "x", "y"),)), tmp_path)

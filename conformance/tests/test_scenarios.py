"""The nine changes: OLD keeps the property, NEW breaks it, by a trace no longer than the one people found."""

import ast
from pathlib import Path
from typing import Any

import pytest

import slotproof.conformance.scenarios as package
from slotproof.conformance.policy_diff import Relation, diff
from slotproof.conformance.scenarios import Scenario, scenarios
from slotproof.conformance.scenarios.s5_capped_count import JOBS, OLD
from slotproof.conformance.scenarios.scenario import pool, tokens
from slotproof.conformance.scheduler_model import World
from slotproof.conformance.scheduler_search import explore_policy
from slotproof.spec.groups import FullAttention, SlidingWindow
from slotproof.spec.scheduler import FCFS, Job, Scope


def job(name: str, prompt: int, outputs: int = 1, **more: Any) -> Job:
    """A job whose prompt shares nothing with others."""
    return Job(name, tokens(prompt, first=ord(name[-1])), (9,) * outputs, **more)


SHORTEST = {"S1": 2, "S2": 2, "S3": 1, "S4": 4, "S5": 1, "S6": 4, "S7": 1, "S8": 1, "S9": 2}
"""Calls of `schedule` on the shortest trace."""

SMALLER = {
    "S1": Scope(pool(6, caching=False), (job("A", 13), job("B", 13, num_external_tokens=12)), 12, max_chunk=8),
    "S2": Scope(pool(5), (job("B", 5, num_external_tokens=4, priority=1), job("H", 13)), 32),
    "S3": Scope(pool(3), (job("B", 1), job("C", 8)), 32, max_steps_in_flight=2),
    "S4": Scope(pool(6, caching=False), (job("R1", 15, 5), job("R2", 5)), 8, max_chunk=4),
    "S6": Scope(pool(4, caching=False), (job("Big", 9), job("S", 4, 2, again=True), job("T", 4, 2, again=True)), 32),
    "S8": Scope(pool(3, SlidingWindow(2, 4)), (job("R", 1, 2, num_drafts=3),), 16, max_steps_in_flight=2),
    "S9": Scope(pool(3), (job("P", 5, num_external_tokens=4), job("Hog", 8)), 4),
}
"""Smaller worlds in which the same change breaks the same law, as early: there the lists of people were not minimal.

S1 needs one load only, S2 and S9 fewer blocks, S3 two requests and one preemption, S4 a prompt of 5 tokens that comes
back, S6 smaller requests, S8 three drafts and a prompt of one token.
"""

every_scenario = pytest.mark.parametrize("scenario", scenarios().values(), ids=lambda scenario: scenario.id)


@every_scenario
def test_old_keeps_the_property_and_new_breaks_it(scenario: Scenario) -> None:
    result = diff(scenario.old, scenario.new, scenario.world)
    assert result.old_explored.exhausted
    assert scenario.law_id not in result.old_explored.broken
    assert result.relation == Relation.BREAKS
    assert result.trace is not None
    assert result.trace.objection_of(scenario.law_id) is not None
    assert result.trace.num_steps == SHORTEST[scenario.id] <= scenario.by_hand


@pytest.mark.parametrize("name", SMALLER)
def test_a_smaller_world_shows_the_same(name: str) -> None:
    scenario = scenarios()[name]
    names = {one.name for one in SMALLER[name].jobs}
    setup = tuple(act for act in scenario.world.setup if act.arguments.get("request", "") in ("", *names))
    world = World(f"{name} smaller", SMALLER[name], setup)
    (found,) = explore_policy(scenario.new, world, (scenario.law_id,), first_only=True).found
    assert found.num_steps <= SHORTEST[name]
    assert explore_policy(scenario.old, world, (scenario.law_id,)).found == ()
    assert size(world) < size(scenario.world)


def size(world: World) -> int:
    """Blocks and tokens."""
    return world.scope.config.usable_blocks + sum(len(job.token_ids) + job.num_drafts for job in world.scope.jobs)


@every_scenario
def test_the_reference_keeps_every_law_in_the_same_world(scenario: Scenario) -> None:
    assert explore_policy(FCFS, scenario.world).found == ()


@every_scenario
def test_a_change_is_a_few_lines(scenario: Scenario) -> None:
    """What is not documentation, imports, jobs and the scenario itself."""
    folder = Path(package.__file__).parent
    (file,) = folder.glob(f"{scenario.id.lower()}_*.py")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    told = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.Assign)]
    lines = sum((node.end_lineno or 0) - node.lineno + 1 for node in told if not _is_setting(node))
    assert lines <= 20


def _is_setting(node: ast.FunctionDef | ast.Assign) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("JOBS", "SCENARIO")


def test_the_ids_are_those_of_the_list() -> None:
    assert list(scenarios()) == list(SHORTEST) == [scenario.id for scenario in scenarios().values()]


def test_what_the_old_rule_of_s5_charges_too_much_is_refused_without_need() -> None:
    """The other half of the property: a prompt whose peak of 7 blocks fits into 8 is charged 10."""
    config = pool(8, FullAttention(4), SlidingWindow(4, 4), max_in_flight=4)
    world = World("S5 old", Scope(config, (Job("R", tokens(20, first=1), (9,)),), token_budget=4))
    assert {"REFUSE-2", "ADMIT-1"} <= explore_policy(OLD, world).broken
    assert explore_policy(FCFS, world).found == ()
    assert len(JOBS) == 2

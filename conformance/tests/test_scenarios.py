"""The nine changes: OLD keeps the property, NEW breaks it, by a trace no longer than the one people found."""

import ast
from pathlib import Path

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

SHORTEST = {"S1": 2, "S2": 2, "S3": 1, "S4": 4, "S5": 1, "S6": 4, "S7": 1, "S8": 1, "S9": 2}
"""Calls of `schedule` on the shortest trace."""

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

"""The page of a trace: complete, self-contained, readable without a script, and every text in it is escaped."""

from dataclasses import replace
from pathlib import Path

import pytest

from slotproof.conformance.policy_diff import diff
from slotproof.conformance.scenarios import scenarios
from slotproof.conformance.trace_page import page

from .pages import Reader, draw


def page_of(name: str) -> str:
    scenario = scenarios()[name]
    result = diff(scenario.old, scenario.new, scenario.world)
    assert result.trace is not None
    return page(scenario.world, result.trace, result.trace.objections[0], "NEW")


@pytest.mark.parametrize("name", scenarios())
def test_a_page_is_well_formed_and_needs_nothing_from_elsewhere(name: str) -> None:
    reader = Reader(page_of(name))
    assert reader.open == []
    assert reader.links == []
    assert "script" not in reader.tags
    assert {"html", "head", "style", "body", "h1", "table"} <= set(reader.tags)


def test_a_page_shows_turns_blocks_queue_requests_and_the_law() -> None:
    reader = Reader(page_of("S2"))
    assert reader.tags.count("section") == 7
    for words in (
        "SCHED-5 broken by NEW",
        "requests B, H can wait for ever",
        "5. schedule  ->  B is promoted; H is refused (needs 4, 5 free - 2 reserved)",
        "From here on everything repeats, for ever:",
        "B[2]",
        "1 0 … 0 0 0 0 (12)",
        "running: - | waiting: B (loaded) H",
        "free queue: 4 5 6 7 8",
        "1 0 0 0",
        "loading",
    ):
        assert words in reader.text


@pytest.mark.thirdparty
def test_a_browser_draws_the_page(tmp_path: Path) -> None:
    draw(page_of("S2"), tmp_path)


def test_what_a_turn_changes_is_marked() -> None:
    reader = Reader(page_of("S2"))
    for cell in ("B[0]", "loading", "loaded", "4 5 6 7 8", "12"):
        assert cell in reader.marked
    assert "9" not in reader.marked


def test_names_cannot_break_the_page() -> None:
    scenario = scenarios()["S7"]
    (low, high) = scenario.world.scope.jobs
    scope = replace(scenario.world.scope, jobs=(replace(low, name="<script>"), high))
    world = replace(scenario.world, scope=scope, setup=())
    result = diff(scenario.old, scenario.new, world)
    assert result.trace is not None
    text = page(world, result.trace, result.trace.objections[0], "<b>NEW</b>")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "<b>NEW" not in text

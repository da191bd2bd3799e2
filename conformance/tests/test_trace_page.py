"""The page of a trace: complete, self-contained, readable without a script, and every text in it is escaped."""

import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from shutil import which

import pytest

from slotproof.conformance.policy_diff import diff
from slotproof.conformance.scenarios import scenarios
from slotproof.conformance.trace_page import page

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Tags, whether they are closed in order, cells that are marked, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.marked: list[str] = []
        self.text = ""
        self._marking = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [name for name, _ in attrs if name in ("src", "href", "onclick")]
        self._marking = ("class", "changed") in attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self._marking = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._marking:
            self.marked.append(data)


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
    browser = next(filter(None, map(which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    source, picture = tmp_path / "trace.html", tmp_path / "trace.png"
    source.write_text(page_of("S2"), encoding="utf-8")
    flags = "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,1900"
    subprocess.run(
        [browser, *flags, f"--screenshot={picture}", source.as_uri()], check=True, capture_output=True, timeout=120
    )
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 50_000, "an empty page of this size is a tenth of that"


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

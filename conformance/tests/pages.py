"""Reading a page: its tags and texts, and whether a browser draws it."""

import subprocess
from html.parser import HTMLParser
from pathlib import Path
from shutil import which

import pytest

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


def draw(text: str, folder: Path) -> None:
    """Let a headless browser draw the page."""
    browser = next(filter(None, map(which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    source, picture = folder / "trace.html", folder / "trace.png"
    source.write_text(text, encoding="utf-8")
    flags = "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,1900"
    subprocess.run(
        [browser, *flags, f"--screenshot={picture}", source.as_uri()], check=True, capture_output=True, timeout=120
    )
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 50_000, "an empty page of this size is a tenth of that"

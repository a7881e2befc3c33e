"""The first picture of a graph, small or large: readable, nothing covered, as it was before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect

from tests.e2e.conftest import Debuggee
from tests.e2e.first_pictures import SIZES, Picture, read, reference, title, written
from tests.e2e.graphs import GRAPHS, no_node

Start = Callable[..., Debuggee]

LABELS = 12
FEWER = {"wide": 11}
"""Eight of four hundred alike, what they read, their sum and the scope's own name."""
USED = 0.35
USED_LESS = {"wide": 0.2, "deep": 0.3, "names": 0.3}
"""All of it is shown, enlarged as far as it may be; in the largest window that is less."""


def shown(page: Page, address: str) -> dict[str, Picture]:
    """The first pictures in windows of all sizes."""
    pictures: dict[str, Picture] = {}
    for size in SIZES:
        page.goto("about:blank")
        page.set_viewport_size(size)
        # The address works once; later the browser is recognised by its cookie.
        page.goto(address if not pictures else address.split("?")[0])
        pictures[title(size)] = read(page)
    return pictures


@pytest.mark.deep
@pytest.mark.parametrize("make", GRAPHS, ids=lambda make: make.__name__)
def test_the_first_picture(
    start: Start, page: Page, tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    faults: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            faults.append(message.text)

    page.on("console", note)
    pictures = shown(page, start("open", "--port", "0", "--no-browser", make(tmp_path)).address)
    page.remove_listener("console", note)
    assert faults == []
    for size in SIZES:
        picture = pictures[title(size)]
        assert picture.collisions() == []
        if make is no_node:
            assert picture.boxes == []
            continue
        nodes = page.evaluate("window.__nodescope.store.model().graph.count")
        if nodes < LABELS:
            assert len(picture.labels) >= nodes
            continue
        assert len(picture.labels) >= FEWER.get(make.__name__, LABELS)
        assert picture.used > USED_LESS.get(make.__name__, USED)
    assert written(pictures) == reference(make.__name__).read_text(), (
        "if this is meant: python -m tests.e2e.first_pictures --renew"
    )


@pytest.mark.deep
def test_a_busy_machine_shows_the_same(start: Start, page_of_its_own: Page, tmp_path: Path) -> None:
    page = page_of_its_own
    make = next(make for make in GRAPHS if make.__name__ == "transformer_4")
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 6})
    page.goto(start("open", "--port", "0", "--no-browser", make(tmp_path)).address)
    slow = read(page)
    lines = reference("transformer_4").read_text().split(f"{title(SIZES[1])}\n")[1]
    assert slow.lines() == lines.split(f"{title(SIZES[2])}\n")[0].splitlines()


def test_a_graph_that_was_not_run_is_drawn_as_it_is(
    start: Start, page: Page, tmp_path: Path
) -> None:
    make = next(make for make in GRAPHS if make.__name__ == "unet")
    page.goto(start("open", "--port", "0", "--no-browser", make(tmp_path)).address)
    picture = read(page)
    assert "conv_1" in picture.labels
    assert "stroke-dasharray" not in page.evaluate(
        "window.__nodescope.view.toSvg('screen', { title: '', fonts: '' })"
    )
    expect(page.get_by_test_id("legend")).not_to_contain_text("not yet")
    expect(page.get_by_test_id("mode")).to_have_text("graph")
    # Nothing has run, so the graph has the whole window.
    expect(page.get_by_label("Timeline, console and breakpoints")).to_have_count(0)

"""Moving about in the graph: searches, traces, what the wheel opens, views that are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import SAMPLE, Debuggee
from tests.e2e.test_first_flow import by
from tests.e2e.test_looks import stopped
from tests.e2e.waiting import eventually

Start = Callable[..., Debuggee]


@pytest.mark.deep
def test_a_search_walks_through_its_matches_and_names_what_it_cannot_read(
    start: Start, page: Page
) -> None:
    page.goto(start("run", "--no-browser", SAMPLE, "--epochs", "1").address)
    expect(by(page, "state")).to_contain_text("Stopped")
    page.keyboard.press("F8")
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    page.keyboard.press("/")
    expect(by(page, "search-words")).to_contain_text("shape:")
    page.keyboard.type("op:matmul -phase:backward")
    expect(by(page, "search-words")).to_have_count(0)
    count = by(page, "search-count")
    # The program is stopped at a match.
    expect(count).to_have_text(re.compile(r"^1 / \d$"))
    matches = int(count.inner_text()[-1])
    assert matches >= 2
    page.keyboard.press("Enter")
    expect(count).to_have_text(f"2 / {matches}")
    page.keyboard.press("Shift+F3")
    expect(count).to_have_text(f"1 / {matches}")
    expect(by(page, "inspector-title")).to_contain_text("matmul")
    page.keyboard.type(" slow:soon")
    expect(by(page, "search-error")).to_have_text(
        "slow: takes a count (10), a share (5%) or a time (1ms), not soon."
    )
    page.keyboard.press("Escape")
    expect(by(page, "search-error")).to_have_count(0)
    page.keyboard.type("slow:3")
    expect(count).to_have_text(re.compile(r"^(\d / )?3$"))  # The program may be stopped at a match.
    page.keyboard.press("ArrowDown")
    expect(by(page, "outline")).to_be_focused()


@pytest.mark.deep
def test_inputs_and_paths_are_traced_by_keys_alone(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path, "--break", "loss/sum")
    page.keyboard.press("F5")
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint loss/sum")
    page.keyboard.press("i")
    expect(by(page, "trace")).to_contain_text("Inputs of loss/sum: 1 operation")
    expect(by(page, "trace-depth")).to_have_text("1 deep")
    page.keyboard.press("i")
    expect(by(page, "trace-depth")).to_contain_text("2 deep")
    by(page, "trace-all").click()
    expect(by(page, "trace-depth")).to_have_text("all")
    expect(by(page, "trace-words")).to_contain_text("1 parameter")
    page.keyboard.press("F3")
    expect(by(page, "inspector-title")).not_to_have_text("sum")
    first = by(page, "inspector-title").inner_text()
    page.keyboard.press("j")
    expect(by(page, "trace-words")).to_contain_text("select the other end and press J")
    page.keyboard.press("c")
    expect(by(page, "inspector-title")).to_have_text("sum")
    page.keyboard.press("j")
    expect(by(page, "trace")).to_contain_text(f"Paths {first} to loss/sum")
    expect(by(page, "trace-words")).to_contain_text("the shortest path has")
    page.keyboard.press("Escape")
    expect(by(page, "trace")).to_have_count(0)


OPEN_IN_OUTLINE = """name => document.querySelector(
  `[data-testid=outline-row][data-name="${name}"]`)?.getAttribute("aria-expanded")"""


@pytest.mark.deep
def test_the_wheel_opens_a_folded_scope_and_folds_it_again(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path, "--break", "loss/sum")
    page.keyboard.press("F5")
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint loss/sum")
    command = "Fold all scopes"
    page.keyboard.press("Control+k")
    page.keyboard.type(command)
    page.keyboard.press("Enter")
    eventually(page, OPEN_IN_OUTLINE, "false", "net")

    def wheel(by_px: int, times: int) -> None:
        box = page.evaluate("window.__nodescope.view.boundsOf({kind: 'scope', path: 'net'})")
        canvas = by(page, "graph").bounding_box()
        assert box is not None
        assert canvas is not None
        x = canvas["x"] + box["x"] + box["width"] / 2
        page.mouse.move(x, canvas["y"] + box["y"] + 8)
        for _ in range(times):
            page.mouse.wheel(0, by_px)

    wheel(-200, 5)
    eventually(page, OPEN_IN_OUTLINE, "true", "net")
    wheel(200, 6)
    eventually(page, OPEN_IN_OUTLINE, "false", "net")


@pytest.mark.deep
def test_views_are_bookmarked_and_restored(start: Start, page: Page, tmp_path: Path) -> None:
    stopped(start, page, tmp_path, "--break", "loss/sum")
    page.keyboard.press("F5")
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint loss/sum")
    title = by(page, "inspector-title")
    page.keyboard.press("v")
    expect(by(page, "bookmark-name")).to_be_focused()
    page.keyboard.type("the 1st loss")
    page.keyboard.press("Enter")
    expect(by(page, "bookmark")).to_have_text("1the 1st loss")
    page.keyboard.press("Escape")
    expect(by(page, "bookmarks")).to_have_count(0)
    page.locator('[data-testid="outline-row"][data-name="w"]').click()
    expect(title).to_have_text("w")
    page.keyboard.press("Alt+ArrowLeft")
    expect(title).to_have_text("sum")
    page.keyboard.press("Alt+ArrowRight")
    expect(title).to_have_text("w")
    page.keyboard.press("v")
    page.keyboard.press("1")
    expect(title).to_have_text("sum")
    expect(by(page, "bookmarks")).to_have_count(0)


@pytest.mark.deep
def test_the_address_holds_camera_and_colouring(start: Start, page: Page, tmp_path: Path) -> None:
    stopped(start, page, tmp_path, "--break", "loss/sum")
    page.keyboard.press("F5")
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint loss/sum")
    page.get_by_role("radio", name="Memory").click()
    canvas = by(page, "graph").bounding_box()
    assert canvas is not None
    zoom = page.locator(".zoom")
    before = zoom.inner_text()
    page.mouse.move(canvas["x"] + 200, canvas["y"] + 120)
    page.mouse.wheel(0, -300)
    expect(zoom).not_to_have_text(before)
    held = "(/&at=([0-9.]+)/.exec(location.hash) ?? [])[1]"
    shown = "document.querySelector('.zoom').textContent"
    eventually(page, f"`${{Math.round(100 * {held})}} %` === {shown}", True)
    eventually(page, "/colour=memory/.test(location)", True)
    read = "JSON.stringify(window.__nodescope.view.boundsOf({kind: 'scope', path: 'net'}))"
    where = page.evaluate(f"JSON.parse({read})")
    said = zoom.inner_text()
    page.reload()
    expect(zoom).to_have_text(said)
    expect(page.get_by_role("radio", name="Memory")).to_be_checked()

    def near(text: str) -> bool:
        now = json.loads(text or "null")
        return now is not None and all(abs(now[key] - where[key]) < 3 for key in ("x", "y"))

    eventually(page, read, near)


DROP = """([name, text]) => {
  const files = new DataTransfer();
  files.items.add(new File([text], name));
  const init = { bubbles: true, cancelable: true, dataTransfer: files };
  const room = document.querySelector(".graph-room");
  for (const type of ["dragover", "drop"]) room.dispatchEvent(new DragEvent(type, init));
}"""


@pytest.mark.deep
def test_the_graph_is_coloured_by_zeros_gradients_and_a_file(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path, "--break", "loss/sum")
    page.keyboard.press("F5")
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint loss/sum")
    page.get_by_role("radio", name="Zeros").click()
    expect(by(page, "legend")).to_contain_text("Zeros in the outputs")
    expect(by(page, "legend-selected")).to_have_text("selected 0 %")
    page.get_by_role("radio", name="Gradient").click()
    expect(by(page, "legend")).to_contain_text("No gradient is known at this moment.")
    page.evaluate(DROP, ["cost.json", '{"results": {"loss/sum": {"value": 2.5}, "no": 1}}'])
    expect(by(page, "legend")).to_contain_text("cost.json")
    expect(by(page, "legend")).to_contain_text("1 name not in this graph")
    expect(by(page, "legend-selected")).to_have_text("selected 2.500")
    page.evaluate(DROP, ["bad.json", "[]"])
    expect(page.locator(".notice.error")).to_contain_text("bad.json: This is not node data")

"""No serious fault of accessibility on any view, dark and light; contrast is AA."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.axe import faults
from tests.e2e.conftest import SAMPLE, Debuggee
from tests.e2e.graphs import resnet_50
from tests.e2e.test_first_flow import by
from tests.e2e.waiting import eventually

Start = Callable[..., Debuggee]

TABS = "tabs => tabs.map(tab => tab.dataset.testid)"
THEME = "document.documentElement.dataset.theme"


def check(page: Page, where: str) -> None:
    """In both themes; ends as it began."""
    for _ in range(2):
        violations = faults(page)
        assert violations == [], f"{where}, {page.evaluate(THEME)}: {violations}"
        before = page.evaluate(THEME)
        page.evaluate("document.querySelector('[data-testid=theme]').click()")
        eventually(page, THEME, lambda theme, before=before: theme != before)


@pytest.mark.deep
@pytest.mark.parametrize("width", [1280, 1600])
def test_the_page(start: Start, page_of_its_own: Page, width: int) -> None:
    page = page_of_its_own
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(start("run", "--port", "0", "--no-browser", "--level", "values", SAMPLE).address)
    expect(by(page, "state")).to_contain_text("Stopped")
    check(page, "before the first node")
    page.keyboard.press("F8")
    expect(by(page, "state")).to_contain_text("step 2")
    page.keyboard.press("F11")
    expect(by(page, "inspector-reason")).to_contain_text("Stepped to here")
    tabs = page.locator("[data-testid^=tab-]:visible").evaluate_all(TABS)
    assert len(tabs) > 8
    for tab in tabs:
        by(page, tab).first.click()
        expect(by(page, tab).first).to_have_attribute("aria-selected", "true")
        check(page, tab)
    by(page, "tab-timeline").click()
    for course in ("path", "memory"):
        by(page, f"timeline-{course}").click()
        expect(by(page, "course-total")).to_be_visible()
        check(page, f"the timeline's {course}")
    page.keyboard.press("Control+F9")
    expect(by(page, "breakpoint-target")).to_be_visible()
    check(page, "a new breakpoint")
    page.keyboard.press("Escape")
    for key, name in (("Control+k", "Find a node or a command"), ("?", "")):
        page.keyboard.press(key)
        dialog = page.get_by_role("dialog", name=name)
        expect(dialog).to_be_visible()
        check(page, f"the dialog of {key}")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)


@pytest.mark.deep
def test_the_list_of_runs(start: Start, page_of_its_own: Page) -> None:
    page = page_of_its_own
    program = start("run", "--port", "0", "--no-browser", SAMPLE)
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    page.evaluate("location.hash = '#runs'")
    expect(by(page, "start-entry").first).to_be_visible()
    expect(page.get_by_role("grid", name="Recordings")).to_be_visible()
    check(page, "the list of runs")


@pytest.mark.deep
def test_a_comparison(start: Start, page_of_its_own: Page) -> None:
    page = page_of_its_own
    program = start(
        "compare", "--port", "0", "--no-browser", "--no-timing", SAMPLE, "--epochs", "1"
    )
    program.expect("open http", timeout_s=90)
    page.goto(program.address)
    expect(by(page, "fates")).to_be_visible()
    check(page, "a comparison")


@pytest.mark.deep
def test_a_graph_that_was_not_run(start: Start, page_of_its_own: Page, tmp_path: Path) -> None:
    page = page_of_its_own
    page.goto(start("open", "--port", "0", "--no-browser", resnet_50(tmp_path)).address)
    expect(by(page, "mode")).to_have_text("graph")
    check(page, "a graph that was not run")


@pytest.mark.deep
def test_an_empty_list_of_runs(start: Start, page_of_its_own: Page) -> None:
    page = page_of_its_own
    page.goto(start("open", "--port", "0", "--no-browser").address)
    expect(page.get_by_role("heading").first).to_be_visible()
    check(page, "an empty list of runs")

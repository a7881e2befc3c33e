"""The tour of the README by keyboard alone: the mouse is not used."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import SAMPLE, Debuggee
from tests.e2e.test_first_flow import by, row

REACHED = "(selector) => document.activeElement?.matches(selector) === true"
NAME = "document.activeElement?.dataset.name"
MOST_TABS = 120


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until the focus is there."""
    for _ in range(MOST_TABS):
        if page.evaluate(REACHED, selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{selector} is not reached by Tab")


def outline_to(page: Page, name: str) -> None:
    """Move down in the outline until a row has the focus."""
    tab_to(page, "[role=treeitem], [role=tree]")
    page.keyboard.press("Home")
    for _ in range(MOST_TABS):
        if page.evaluate(NAME) == name or row(page, name).get_attribute("aria-selected") == "true":
            return
        page.keyboard.press("ArrowDown")
    raise AssertionError(f"{name} is not reached by arrows")


@pytest.mark.deep
def test_the_tour_by_keyboard(page: Page, start: Callable[..., Debuggee]) -> None:
    page.goto(start("run", "--port", "0", "--no-browser", SAMPLE).address)
    state = by(page, "state")
    reason = by(page, "inspector-reason")

    def stopped(text: str) -> None:
        expect(state).to_contain_text(re.compile(f"Stopped.*{text}", re.S))

    stopped("step 1")
    page.keyboard.press("F8")
    stopped("step 2")

    outline_to(page, "loss")
    page.keyboard.press("ArrowRight")
    expect(row(page, "loss/exp")).to_be_visible()
    outline_to(page, "loss/exp")
    page.keyboard.press("F9")
    expect(by(page, "breakpoint-row")).to_have_count(1)
    page.keyboard.press("F5")
    expect(reason).to_contain_text("loss/exp")
    tab_to(page, "[data-testid=tab-value]")
    page.keyboard.press("ArrowRight")
    expect(by(page, "inspector-gradient")).to_contain_text("From step 1")

    title = by(page, "inspector-title")
    for name in ("sum", "log", "getitem", "subtract_1", "mean", "ones_like"):
        page.keyboard.press("F11")
        expect(title).to_have_text(name)
    expect(state).to_contain_text("backward")
    page.keyboard.press("Shift+F11")
    expect(by(page, "inspector-path")).not_to_contain_text("loss")

    tab_to(page, "[data-testid=breakpoint-row-condition]")
    page.keyboard.type("min(value) < 1e-6")
    page.keyboard.press("Enter")
    page.keyboard.press("F5")
    expect(reason).to_contain_text("min(value) < 1e-6")

    page.keyboard.press("b")
    expect(title).to_have_text("subtract")
    tab_to(page, "[data-testid=slider]")
    page.keyboard.press("Home")
    expect(state).to_contain_text("In the past")
    back = page.get_by_role("button", name="Back to live")
    for _ in range(MOST_TABS):
        if back.evaluate("button => button === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(state).to_contain_text("Stopped")

    tab_to(page, "[data-testid=breakpoint-remove]")
    page.keyboard.press("Enter")
    expect(by(page, "breakpoint-row")).to_have_count(0)
    page.keyboard.press("F5")
    expect(state).to_contain_text("Finished", timeout=90_000)
    for shown in ("Loss", "Slowest nodes", "What was kept"):
        expect(by(page, "summary")).to_contain_text(shown)
    page.keyboard.press("o")
    expect(by(page, "console")).to_contain_text("accuracy 0.9")

"""The tour of the README, word by word, on the demo's own program."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import ROOT, SAMPLE, Debuggee
from tests.e2e.test_first_flow import row as outline_row

README = (ROOT / "README.md").read_text()


def tour() -> list[str]:
    """The numbered steps of the tour, as written."""
    section = README.split("## A two-minute tour")[1].split("\n## ")[0]
    return [" ".join(step.split()) for step in re.split(r"^\d\. ", section, flags=re.M)[1:]]


def test_the_tour(page: Page, start: Callable[..., Debuggee], tmp_path: Path) -> None:
    page.goto(start("run", "--port", "0", "--no-browser", SAMPLE).address)
    state = page.get_by_test_id("state")
    reason = page.get_by_test_id("inspector-reason")

    def stopped(text: str) -> None:
        expect(state).to_contain_text(re.compile(f"Stopped.*{text}", re.S))

    def row(name: str) -> Locator:
        return outline_row(page, name)

    first, second, third, fourth, fifth, sixth, *more = tour()
    assert not more
    stopped("step 1")  # Before the first node.

    assert "(<kbd>F8</kbd>). Step 1 has run, and the program has stopped after the" in first
    page.keyboard.press("F8")
    stopped("step 2")
    for scope in ("hidden_1", "hidden_2", "output", "loss", "backward", "optimizer"):
        assert f"`{scope}`" in first
        expect(row(scope)).to_be_visible()

    assert "Select **loss** in the outline to the left and press <kbd>→</kbd> to open it" in second
    row("loss").click()
    page.keyboard.press("ArrowRight")
    assert "Select its `exp` and press <kbd>F9</kbd>" in second
    row("loss/exp").click()
    page.keyboard.press("F9")
    expect(page.get_by_test_id("breakpoint-row")).to_have_count(1)
    page.keyboard.press("F5")
    expect(reason).to_contain_text("loss/exp")
    stopped("step 2")
    inspector = page.get_by_test_id("inspector")
    for shown in ("Picture", "Numbers", "mean", "Distribution", "Source", "cross_entropy"):
        expect(inspector).to_contain_text(shown)
    page.get_by_test_id("tab-gradient").click()
    assert "gradient that reached it in step 1" in second
    expect(page.get_by_test_id("inspector-gradient")).to_contain_text("From step 1")

    assert "<kbd>F11</kbd> steps to the next node, and after `mean` into the backward pass" in third
    page.keyboard.press("F11")
    expect(reason).to_contain_text("sum")
    title = page.get_by_test_id("inspector-title")
    for name in ("log", "getitem", "subtract_1", "mean", "ones_like"):
        page.keyboard.press("F11")
        expect(title).to_have_text(name)
    expect(state).to_contain_text("backward")
    assert "<kbd>F10</kbd> steps over a scope, <kbd>Shift</kbd>+<kbd>F11</kbd> out of one" in third
    page.keyboard.press("Shift+F11")
    expect(page.get_by_test_id("inspector-path")).not_to_contain_text("loss")

    assert "give the breakpoint the condition `min(value) < 1e-6`" in fourth
    page.get_by_test_id("breakpoint-row-condition").click()
    page.keyboard.type("min(value) < 1e-6")
    page.keyboard.press("Enter")
    page.keyboard.press("F5")
    expect(reason).to_contain_text("min(value) < 1e-6")

    assert "Press <kbd>B</kbd> to go back one node, or drag the slider" in fifth
    page.keyboard.press("b")
    expect(title).to_have_text("subtract")
    page.get_by_test_id("slider").click()  # The click goes to the middle of the recording.
    expect(state).to_contain_text("In the past")
    assert "*Back to live* returns." in fifth
    page.get_by_role("button", name="Back to live").click()
    expect(state).to_contain_text("Stopped")

    assert "Remove the breakpoint with its ✕ and press <kbd>F5</kbd>" in sixth
    page.get_by_test_id("breakpoint-remove").click()
    expect(page.get_by_test_id("breakpoint-row")).to_have_count(0)
    page.keyboard.press("F5")
    expect(state).to_contain_text("Finished", timeout=90_000)
    assert "a summary shows the loss, the slowest nodes and what was kept" in sixth
    for shown in ("Loss", "Slowest nodes", "What was kept"):
        expect(page.get_by_test_id("summary")).to_contain_text(shown)
    assert "The console (<kbd>O</kbd>) shows the accuracy" in sixth
    page.keyboard.press("o")
    expect(page.get_by_test_id("console")).to_contain_text("accuracy 0.9")
    assert "opens again with `nodescope open`" in sixth
    (recording,) = (tmp_path / ".nodescope" / "runs").glob("*.nscope")
    page.goto(start("open", "--port", "0", "--no-browser", recording).address)
    expect(state).to_contain_text("Recording")
    expect(row("loss")).to_be_visible()

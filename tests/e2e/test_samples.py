"""Every sample, opened with `nodescope run`, stepped through and run to its end."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import ROOT, Debuggee
from tests.e2e.test_first_flow import by, expand, row
from tests.e2e.waiting import eventually

Start = Callable[..., Debuggee]
SAMPLES = sorted((ROOT / "samples").glob("*.py"))
# Arguments that make a sample short; the others are short already.
SHORT = {
    "char_transformer": ("--steps", "3", "--letters", "10"),
    "digits_cnn": ("--epochs", "1"),
    "digits_mlp": ("--epochs", "1"),
    "lstm_adding": ("--steps", "3"),
}
NO_GRADIENTS = {"graph_by_hand"}
# A size, followed by a number, the scale of a picture or statistics.
VALUE = re.compile(r"\d\s*([KM]i)?B.*\d", re.S)


def stop_elsewhere(page: Page, button: str) -> None:
    """Press a button of the debugger, and wait until the program stands again."""
    stops = page.evaluate("window.__nodescope.store.stops()")
    by(page, button).click()
    eventually(page, "window.__nodescope.store.stops()", stops + 1)
    expect(by(page, "state")).to_contain_text("Stopped")


def step_number(page: Page) -> int:
    """The training step that the page shows."""
    return int(page.evaluate("window.__nodescope.store.step()"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_debugged(start: Start, page: Page, sample: Path) -> None:
    program = start("run", "--no-browser", sample, *SHORT.get(sample.stem, ()))
    page.goto(program.address)

    # stopped on entry; one node later, its value is shown
    expect(by(page, "state")).to_contain_text("Stopped")
    stop_elsewhere(page, "step-node")
    expect(by(page, "state")).to_contain_text("forward")
    expect(by(page, "inspector-value")).to_contain_text(VALUE)

    # the next training step, and the one after
    first = step_number(page)
    stop_elsewhere(page, "next-step")
    second = eventually(page, lambda: step_number(page), lambda step: step > first)
    if second == 1:  # The first stop was not in a step.
        stop_elsewhere(page, "next-step")

    # stop in the backward pass, whose scope is known from the previous step
    if sample.stem not in NO_GRADIENTS:
        row(page, "backward").get_by_test_id("gutter").click()
        expect(by(page, "breakpoint-row")).to_contain_text("backward")
        stop_elsewhere(page, "continue")
        expect(by(page, "state")).to_contain_text("backward")
        expect(by(page, "inspector-reason")).to_contain_text("backward")
        expect(by(page, "inspector-value")).to_contain_text(VALUE)
        by(page, "breakpoint-remove").click()
        expect(by(page, "breakpoint-row")).to_have_count(0)

    # run to the end, then look at what ran
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text("Finished", timeout=60_000)
    eventually(page, "window.__nodescope.store.model().info.status", 0)
    by(page, "slider").focus()
    page.keyboard.press("Home")
    expect(by(page, "state")).to_contain_text("In the past")


def test_changes_of_a_dynamic_graph_are_seen(start: Start, page: Page) -> None:
    program = start("run", "--no-browser", ROOT / "samples/lstm_adding.py", "--steps", "8")
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    chip = by(page, "graph-changes")
    said = ""
    for step in range(2, 8):
        stop_elsewhere(page, "next-step")
        eventually(page, lambda: step_number(page), step)
        # the changes of the last step; in the first step everything is new, which is no change
        if step == 2:
            expect(chip).to_have_count(0)
        else:
            expect(chip).to_contain_text(f"step {step - 1}")
            expect(chip).to_have_attribute("aria-busy", "false")
            said += chip.inner_text() + "\n"
        if "new" in said and "skipped" in said:
            break
    assert re.search(r"\d+\s+new", said), said
    assert re.search(r"\d+\s+rewired", said), said
    assert re.search(r"\d+\s+skipped", said), said

    # on request, changes are marked in the legend, in the outline and in the address
    expect(by(page, "legend")).not_to_contain_text("rewired")
    page.keyboard.press("g")
    expect(chip).to_have_attribute("aria-pressed", "true")
    expect(by(page, "legend")).to_contain_text("rewired")
    expect(row(page, "output").get_by_test_id("outline-rewired")).to_have_text("1")
    page.wait_for_url(re.compile("changes=1"))

    # the inspector names the inputs that a rewired node had, and leads to them
    expand(page, "output")
    row(page, "output/matmul").click()
    note = by(page, "inspector-rewired")
    expect(note).to_contain_text(re.compile(r"Inputs changed in step \d"))
    expect(note).to_contain_text(re.compile(r"was time_\d/cell/\w+, is time_\d/cell/\w+"))
    note.get_by_role("button").first.click()
    expect(by(page, "inspector-title")).to_contain_text("multiply")
    chip.click()
    expect(by(page, "legend")).not_to_contain_text("rewired")

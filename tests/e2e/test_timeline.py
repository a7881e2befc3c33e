"""The timeline tells time as it was: what a loader took, what the debugger held, every step."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, TimeoutError, expect

from tests.e2e.conftest import Debuggee
from tests.e2e.test_first_flow import by
from tests.e2e.waiting import eventually

Start = Callable[..., Debuggee]

PROGRAM = """\
import time
import numpy as np
import nodescope as ns

w = ns.parameter(np.ones((4, 4)), name="w")

def batches():
    for k in range(60):
        time.sleep(0.15 if k < 2 else 0.004)
        yield np.ones((8, 4))

for batch in ns.steps(batches()):
    loss = np.tanh(ns.tensor(batch) @ w).mean()
    loss.backward()
    w.grad = None
"""
LINE = 1 + PROGRAM[: PROGRAM.index("for batch in ns")].count("\n")
# The first row of bars, below the axis and the names of steps, where an item was fetched.
PHASES_Y = 48
# When something began, as told where one step fills the timeline.
ZOOMED = re.compile(r"step \d\d, (at|[\d.]+\s(ms|s) before)")
WITHIN = """
([inner, outer]) => {
  const [words, pane] = [inner, outer].map((selector) => document.querySelector(selector)
    .getBoundingClientRect());
  return words.height > 0 && words.bottom <= pane.bottom;
}
"""


@pytest.mark.deep
def test_every_step_is_there_with_its_loader_and_what_was_held(
    start: Start, page: Page, tmp_path: Path
) -> None:
    script = tmp_path / "slow_batches_of_images.py"
    script.write_text(PROGRAM)
    program = start("run", "--no-browser", script)
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    by(page, "next-step").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text("Finished")
    over = "window.__nodescope.store.model().steps[1].end_seq"
    end = eventually(page, over, lambda seq: seq is not None and seq > 0)
    page.evaluate("seq => window.__nodescope.store.seek(seq)", end)
    words = by(page, "timeline-words")
    took = r"[\d.]+\s(ms|s)"
    expect(words).to_have_attribute(
        "title",
        re.compile(rf"step 2 · {took}: data loading {took}, .*; held by the debugger for {took}"),
    )
    timeline = page.get_by_label("Timeline. Arrow keys")
    tip = by(page, "timeline-tip")

    def at(part: float, y: float) -> tuple[float, float]:
        """A place on it: y from its upper edge, or from the lower one."""
        box = timeline.bounding_box()
        assert box is not None
        return box["x"] + 76 + part * (box["width"] - 86), box["y"] + y % box["height"]

    def hover(part: float, y: float, words: str) -> None:
        """Point to a place, again and again until what is told there is drawn."""

        def told() -> str:
            page.mouse.move(0, 0)
            page.mouse.move(*at(part, y))
            return "\n".join(tip.all_inner_texts())

        eventually(page, told, re.compile(words).search)

    by(page, "timeline-step").click()
    hover(0.15, PHASES_Y, rf"data loading · {script.stem}\.py:{LINE}")
    expect(tip).to_contain_text(f"most of it waiting in time.sleep · {script.name}:9")
    # The tip has three lines, all inside the pane.
    eventually(page, WITHIN, True, ["[data-testid=timeline-tip]", ".timeline-pane"])
    by(page, "timeline-all").click()
    hover(0.9, -40, r"step \d\d · ")
    expect(tip).to_contain_text("data loading")
    expect(tip).to_contain_text("Click to go to this step, double-click to zoom in")
    pointed = re.match(r"step (\d+)", tip.inner_text())
    assert pointed is not None
    page.mouse.down()
    page.mouse.up()  # The click goes to the step, and the columns stay.
    expect(words).to_contain_text(f"step {pointed[1]} · ")
    expect(tip).to_contain_text(f"step {pointed[1]} · ")

    def shown_whole() -> str:
        """A step that is clicked twice where all are shown; what is told in its first part."""
        by(page, "timeline-all").click()
        page.mouse.dblclick(*at(0.8, -40))
        page.mouse.move(*at(0.15, PHASES_Y))
        with contextlib.suppress(TimeoutError):
            tip.filter(has_text=ZOOMED).wait_for(timeout=2000)
        return "\n".join(tip.all_inner_texts())

    # Clicks count singly if columns are drawn between them, as on a busy machine.
    eventually(page, shown_whole, ZOOMED.search)
    timeline.focus()
    page.keyboard.press("Home")
    hover(0.9, -40, r"^step \d\d · ")


@pytest.mark.deep
def test_the_timeline_is_shown_again_at_a_stop(start: Start, page: Page, tmp_path: Path) -> None:
    script = tmp_path / "again.py"
    script.write_text(PROGRAM)
    page.goto(start("run", "--no-browser", script).address)
    for step in (2, 3):
        by(page, "next-step").click()
        expect(by(page, "state")).to_contain_text(re.compile(f"Stopped.*step {step}", re.S))
    words = by(page, "timeline-words")
    expect(words).to_contain_text("step 3 · ")
    page.keyboard.press("o")
    expect(words).to_have_count(0)
    page.keyboard.press("y")
    expect(words).to_contain_text("step 3 · ")

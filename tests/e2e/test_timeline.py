"""The timeline tells time as it was: what a loader took, what the debugger held, every step."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.e2e.conftest import Debuggee
from tests.e2e.test_first_flow import by

Start = Callable[..., Debuggee]

PROGRAM = """\
import time
import numpy as np
import nodescope as ns

w = ns.parameter(np.ones((4, 4)), name="w")

def batches():
    for k in range(60):
        time.sleep(0.05 if k < 2 else 0.004)
        yield np.ones((8, 4))

for batch in ns.steps(batches()):
    loss = np.tanh(ns.tensor(batch) @ w).mean()
    loss.backward()
    w.grad = None
"""
LINE = 1 + PROGRAM[: PROGRAM.index("for batch in ns")].count("\n")
# Below the axis and the names of steps; the first row of bars, where an item was fetched.
PHASES_Y = 48


def test_every_step_is_there_with_its_loader_and_what_was_held(
    start: Start, page: Page, tmp_path: Path
) -> None:
    script = tmp_path / "slow.py"
    script.write_text(PROGRAM)
    program = start("run", "--no-browser", script)
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    by(page, "next-step").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text("Finished")
    page.evaluate(
        "window.__nodescope.store.seek(window.__nodescope.store.model().steps[1].end_seq)"
    )
    words = by(page, "timeline-words")
    took = r"[\d.]+\s(ms|s)"
    expect(words).to_have_text(
        re.compile(rf"step 2 · {took}: data loading {took}, .*; held by the debugger for {took}")
    )
    timeline = page.get_by_label("Timeline. Arrow keys")
    box = timeline.bounding_box()
    assert box is not None
    tip = by(page, "timeline-tip")

    def hover(part: float, y: float) -> None:
        page.mouse.move(box["x"] + 76 + part * (box["width"] - 86), box["y"] + y)

    by(page, "timeline-step").click()
    hover(0.15, PHASES_Y)
    expect(tip).to_contain_text(re.compile(rf"data loading · slow\.py:{LINE}"))
    expect(tip).to_contain_text("most of it waiting in time.sleep · slow.py:9")
    by(page, "timeline-all").click()
    hover(0.9, box["height"] - 40)
    expect(tip).to_contain_text(re.compile(r"step \d\d · "))
    expect(tip).to_contain_text("data loading")
    page.mouse.down()
    page.mouse.up()  # a step that is clicked is shown whole
    hover(0.15, PHASES_Y)
    expect(tip).to_contain_text(re.compile(r"step \d\d, at"))
    timeline.focus()
    page.keyboard.press("Home")
    hover(0.9, box["height"] - 40)
    expect(tip).to_contain_text(re.compile(r"^step \d\d · "))

"""On the timeline: what a step waited for, and the memory that it needed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Debuggee
from tests.e2e.test_first_flow import by
from tests.e2e.waiting import eventually

Start = Callable[..., Debuggee]

# The second thread takes much longer than the main thread, which then needs its result.
PROGRAM = """\
import threading
import numpy as np
import nodescope as ns

large = ns.tensor(np.full((400, 400), 0.01, np.float32), name="large")
small = ns.tensor(np.full((4, 4), 0.01, np.float32), name="small")

def work(results):
    with ns.name_scope("slow"):
        results.append(np.tanh(large @ large @ large))

for _ in ns.steps(range(3)):
    results = []
    thread = threading.Thread(target=work, args=(results,))
    thread.start()
    with ns.name_scope("quick"):
        square = small @ small
    thread.join()
    with ns.name_scope("both"):
        total = results[0].reshape((160_000,)).sum() + square.sum()
"""
SELECTED = (
    "window.__nodescope.store.model().graph.nodes[window.__nodescope.store.selection().id].name"
)
MOMENT = "window.__nodescope.store.cursor()"
# The middle of the memory lane, below the axis and the names of steps.
LANE_Y = 60


@pytest.fixture
def opened(start: Start, page: Page, tmp_path: Path) -> Page:
    (tmp_path / "two_threads.py").write_text(PROGRAM)
    path = tmp_path / "run.nscope"
    run = ("run", "--no-browser", "--no-stop-on-entry", "--exit", "--level", "timing")
    start(*run, "--record", path, tmp_path / "two_threads.py").process.wait(60)
    page.goto(start("open", "--port", "0", "--no-browser", path).address)
    return page


def test_the_critical_path_goes_through_both_threads(opened: Page) -> None:
    page = opened
    by(page, "timeline-path").click()
    expect(by(page, "timeline-path")).to_have_attribute("aria-pressed", "true")
    total = by(page, "course-total")
    expect(total).to_have_text(re.compile(r"^[\d.]+\s(µs|ms) of [\d.]+\s(µs|ms), \d+ %$"))
    course = by(page, "course")
    expect(course).to_contain_text("for its result, or for its thread")
    rows = course.locator(".course-row")
    names = rows.evaluate_all("rows => rows.map(row => row.title)")
    assert {"slow/matmul", "slow/matmul_1", "slow/tanh"} <= set(names)
    assert any(name.startswith("both/") for name in names)
    assert not any(name.startswith("quick/") for name in names)
    rows.filter(has_text="slow/tanh").click()
    eventually(page, SELECTED, "slow/tanh")
    page.get_by_role("radio", name="Data alone").click()
    expect(course).to_contain_text("Each needs the result of the one before.")
    by(page, "timeline-path").click()
    expect(course).to_have_count(0)


def test_memory_leads_to_the_values_of_its_peak_and_to_moments(opened: Page) -> None:
    page = opened
    by(page, "timeline-memory").click()
    course = by(page, "course")
    # The input and two products of its size, one of which is read to make the other.
    expect(by(page, "course-total")).to_contain_text("1.83\u202fMiB in ")
    rows = course.locator(".course-row")
    expect(rows.first).to_contain_text("(400, 400)")
    expect(rows.first).to_contain_text("625\u202fKiB")
    rows.filter(has_text="slow/matmul").first.click()
    eventually(page, SELECTED, lambda name: str(name).startswith("slow/matmul"))
    timeline = page.get_by_label("Timeline. Arrow keys")
    box = timeline.bounding_box()
    assert box is not None
    # The step's share of the view depends on how long it and the step before it took.
    across = itertools.cycle(range(95, 5, -2))

    def told() -> str:
        page.mouse.move(box["x"] + box["width"] * next(across) / 100, box["y"] + LANE_Y)
        return "\n".join(by(page, "timeline-tip").all_inner_texts())

    eventually(page, told, lambda words: "needed" in words)
    page.mouse.down()
    page.mouse.up()
    eventually(page, MOMENT, lambda cursor: cursor["kind"] == "past")
    # The click may have hit the peak itself, so move away before going to it.
    clicked = page.evaluate(MOMENT)["seq"]
    page.get_by_role("button", name="To the start of the step").click()
    eventually(page, MOMENT, lambda cursor: cursor["seq"] != clicked)
    before = page.evaluate(MOMENT)["seq"]
    page.get_by_role("radio", name="This moment").click()
    course.locator(".course-peak").click()
    eventually(page, MOMENT, lambda cursor: cursor["kind"] == "past" and cursor["seq"] != before)
    # The moment is the peak, and the list shows the values that need memory then.
    expect(by(page, "course-total")).to_contain_text("1.83\u202fMiB in ")

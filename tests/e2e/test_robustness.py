"""What goes wrong around a debugging session, and how the page says it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests import forked
from tests.e2e.conftest import SAMPLE, Debuggee
from tests.e2e.test_first_flow import by, expand, node_id, number, row
from tests.e2e.waiting import eventually

Start = Callable[..., Debuggee]

NAN = """
import numpy as np
import nodescope as ns

w = ns.parameter(np.ones((3, 4), np.float32), name="w")
for k in ns.steps(range(3)):
    with ns.name_scope("outer"), ns.name_scope("inner"):
        y = np.log(ns.tensor(np.full((2, 3), 3.0 - 2.0 * k, np.float32)) @ w)
    print("step", k, "mean", np.mean(y).item())
"""


def server_of(program: Debuggee) -> int:
    """The process id of the server that a program started, and nothing else."""
    (server,) = forked.children(program.process.pid)
    return server


BANNERS = """
() => {
  window.banners = [];
  new MutationObserver(() => {
    window.banners.push(document.querySelector("[data-testid=banner]")?.textContent ?? "");
  }).observe(document.body, { childList: true, subtree: true, characterData: true });
}
"""


@pytest.mark.deep
def test_a_killed_server_is_reported_and_comes_back(start: Start, page: Page) -> None:
    program = start("run", "--no-browser", "--exit", SAMPLE, "--epochs", "1")
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    page.evaluate(BANNERS)  # The banner may be gone before the test looks.
    os.kill(server_of(program), signal.SIGKILL)
    eventually(page, "window.banners.join()", re.compile("Connection lost").search)
    # a new server takes its place: the page shows the run and the stop again
    program.expect("was restarted")
    expect(by(page, "banner")).to_have_count(0)
    expect(by(page, "state")).to_contain_text("Stopped")
    by(page, "continue").click()
    program.expect(r"accuracy 0\.\d+")
    assert program.wait() == 0


WITHIN_THE_WIDTH = """
([inner, outer]) => {
  const [said, room] = [inner, outer].map((selector) => document.querySelector(selector)
    .getBoundingClientRect());
  return said.width > 0 && room.left <= said.left && said.right <= room.right;
}
"""


@pytest.mark.deep
def test_a_killed_program_leaves_what_was_recorded(start: Start, page: Page) -> None:
    program = start("run", "--no-browser", "--level", "values", SAMPLE, "--epochs", "1")
    page.goto(program.address)
    by(page, "next-step").click()
    expect(by(page, "state")).to_contain_text(re.compile("step 2", re.S))
    program.process.kill()
    expect(by(page, "state")).to_contain_text("Killed")
    expect(by(page, "lost-run")).to_contain_text("can still be inspected")
    # The message covers the graph, not the outline's search field.
    eventually(page, WITHIN_THE_WIDTH, True, ["[data-testid=lost-run]", "main"])
    expect(by(page, "pause")).to_be_disabled()
    expect(by(page, "pause")).to_have_attribute("title", re.compile("killed or crashed"))
    # the recording can still be stepped through, with values read from the file
    expect(by(page, "continue")).to_have_attribute("title", re.compile("through the recording"))
    by(page, "step-back").click()
    expect(by(page, "state")).to_contain_text("In the past")
    expand(page, "loss")
    row(page, "loss/mean").click()
    expect(by(page, "inspector-value")).to_contain_text(re.compile(r"\d\.\d+"))


FULL = """
import numpy as np
import nodescope as ns
from nodescope import api

database = api._current.recorder.writer.file.connection
for k in ns.steps(range(STEPS)):
    if k == 1:  # a disk with no room
        database.execute("PRAGMA max_page_count=1").fetchall()
    elif k == 2:
        database.execute("PRAGMA max_page_count=1073741823").fetchall()
    for _ in range(100):
        np.tanh(ns.tensor(np.arange(5000.0)))
"""


@pytest.mark.deep
def test_a_full_disk_is_reported_as_long_as_it_is_full(
    start: Start, page: Page, tmp_path: Path
) -> None:
    (tmp_path / "full.py").write_text(FULL.replace("STEPS", "10**6"))
    program = start("run", "--no-browser", "--level", "values", str(tmp_path / "full.py"))
    page.goto(program.address)
    by(page, "next-step").click()
    expect(by(page, "state")).to_contain_text(re.compile(r"Stopped.*step 2", re.S))
    by(page, "next-step").click()
    expect(by(page, "recording-trouble")).to_contain_text("The recording is paused")
    program.expect("the recording is paused, your program continues: database or disk is full")
    expect(by(page, "state")).to_contain_text(re.compile(r"Stopped.*step 3", re.S))
    # How much is written before the recording counts as resumed depends on the disk's speed.
    by(page, "continue").click()
    program.expect("recording resumed; missing:")
    by(page, "pause").click()
    expect(by(page, "recording-trouble")).to_have_count(0)


STAYS_FULL = (FULL.split("    elif k == 2")[0] + FULL[FULL.index("    for _ in") :]).replace(
    "STEPS", "4"
)


@pytest.mark.deep
def test_a_recording_reports_that_the_disk_was_full(
    start: Start, page: Page, tmp_path: Path
) -> None:
    (tmp_path / "full.py").write_text(STAYS_FULL)
    made = start("run", "--no-browser", "--no-stop-on-entry", "--exit", "--level", "values",
                 "--record", "full.nscope", str(tmp_path / "full.py"))  # fmt: skip
    assert made.wait() == 0
    page.goto(start("open", "--no-browser", tmp_path / "full.nscope").address)
    expect(by(page, "state")).to_contain_text("Recording")
    trouble = by(page, "recording-trouble")
    lost = re.compile(r"^The disk was full: \d.* of steps \d to 4 could not be recorded\.$")
    expect(trouble).to_have_text(lost)
    expect(by(page, "summary")).to_contain_text("The disk was full: ")
    # it covers the graph until it is closed
    eventually(page, WITHIN_THE_WIDTH, True, ["[data-testid=recording-trouble]", "main"])
    trouble.get_by_role("button", name="Close").click()
    expect(trouble).to_have_count(0)


FOREVER = """
import numpy as np
import nodescope as ns

w = ns.parameter(np.ones((2, 2)), name="w")
for _ in ns.steps(range(10**9)):
    np.tanh(w)
"""


@pytest.mark.deep
def test_ctrl_c_leaves_a_page_that_says_how_to_continue(
    start: Start, page: Page, tmp_path: Path
) -> None:
    (tmp_path / "forever.py").write_text(FOREVER)
    program = start("run", "--no-browser", str(tmp_path / "forever.py"))
    page.goto(program.address)
    by(page, "next-step").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text("Running")
    program.interrupt()
    assert program.wait() == 130
    recorded = program.expect(r"recorded in (\S+);")[1]
    program.expect(r"forever\.py was interrupted, [\d,]+ steps")
    expect(by(page, "state")).to_contain_text("Interrupted")
    expect(by(page, "banner")).to_have_text(
        f"nodescope has ended. This opens the run again: nodescope open {recorded}"
    )
    expect(by(page, "link")).to_have_text("Ended")


def test_a_recording_opens_and_is_walked_through(start: Start, page: Page, tmp_path: Path) -> None:
    made = start("run", "--no-browser", "--no-stop-on-entry", "--exit", "--record",
                 "one.nscope", SAMPLE, "--epochs", "1")  # fmt: skip
    assert made.wait() == 0
    opened = start("open", "--no-browser", tmp_path / "one.nscope")
    page.goto(opened.address)
    expect(by(page, "state")).to_contain_text("Recording")
    expect(by(page, "pause")).to_be_disabled()
    expect(by(page, "pause")).to_have_attribute("title", re.compile("this is a recording"))
    expect(by(page, "continue")).to_have_attribute("title", re.compile("through the recording"))
    expand(page, "loss")
    row(page, "loss/mean").click()
    latest = number(page)
    by(page, "slider").focus()
    page.keyboard.press("Home")
    expect(by(page, "state")).to_contain_text("In the past")
    expect(by(page, "inspector-value")).not_to_contain_text(latest)
    by(page, "next-step").click()
    expect(by(page, "state")).to_contain_text(re.compile("In the past.*step 2", re.S))
    expect(by(page, "continue")).to_be_disabled()
    expect(by(page, "continue")).to_have_attribute("title", re.compile("no breakpoints are set"))


@pytest.mark.deep
def test_two_pages_follow_one_run(start: Start, page: Page) -> None:
    program = start("run", "--no-browser", SAMPLE, "--epochs", "1")
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    other = page.context.new_page()
    other.goto(page.url)
    expect(by(other, "state")).to_contain_text("Stopped")
    by(page, "next-step").click()
    for shown_page in (page, other):
        expect(by(shown_page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    by(other, "next-step").click()
    for shown_page in (page, other):
        expect(by(shown_page, "state")).to_contain_text(re.compile("Stopped.*step 3", re.S))


@pytest.mark.deep
def test_a_wrong_condition_is_reported_at_its_field(
    start: Start, page: Page, tmp_path: Path
) -> None:
    script = tmp_path / "nan.py"
    script.write_text(NAN)
    program = start("run", "--no-browser", script)
    page.goto(program.address)
    by(page, "next-step").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    by(page, "breakpoint-new").click()
    by(page, "breakpoint-target").fill("outer/inner/log")
    by(page, "breakpoint-condition").fill("value > > 3")
    by(page, "breakpoint-add").click()
    expect(by(page, "condition-error")).to_contain_text("column 9")
    expect(by(page, "breakpoint-row")).to_have_count(0)
    by(page, "breakpoint-condition").fill("isnan(value).any()")
    expect(by(page, "condition-error")).to_have_count(0)
    by(page, "breakpoint-add").click()
    field = by(page, "breakpoint-row-condition")
    field.fill("unknown > 3")
    field.press("Enter")
    expect(by(page, "condition-error")).to_contain_text("unknown")
    field.fill("isnan(value).any()")
    field.press("Enter")
    expect(by(page, "condition-error")).to_have_count(0)

    # and the program stops where the first NaN is made, which the problems name
    by(page, "continue").click()
    expect(by(page, "inspector-reason")).to_contain_text("isnan(value).any()")
    by(page, "tab-problems").click()
    expect(by(page, "problems")).to_contain_text(re.compile("outer/inner/log.*first.*NaN", re.S))
    row(page, "outer").click()
    page.keyboard.press("n")
    expect(by(page, "inspector-title")).to_contain_text("log")


@pytest.mark.deep
def test_a_breakpoint_on_a_scope_is_set_at_its_gutter(start: Start, page: Page) -> None:
    program = start("run", "--no-browser", SAMPLE, "--epochs", "1")
    page.goto(program.address)
    by(page, "next-step").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    gutter = row(page, "loss").get_by_test_id("gutter")
    entered = "Stop after the first node inside, each time this scope is entered"
    expect(gutter).to_have_attribute("title", entered)
    gutter.click()
    expect(by(page, "breakpoint-row")).to_contain_text("scope loss")
    by(page, "continue").click()
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint")
    expect(row(page, "loss/max")).to_have_attribute("aria-current", "step")
    row(page, "loss").get_by_test_id("gutter").click()
    expect(by(page, "breakpoint-row")).to_have_count(0)
    # the key works as on a node
    row(page, "loss").click()
    page.keyboard.press("F9")
    expect(by(page, "breakpoint-row")).to_contain_text("scope loss")


def test_keys_alone_are_enough(start: Start, page: Page) -> None:
    program = start("run", "--no-browser", SAMPLE, "--epochs", "1")
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    page.keyboard.press("F8")
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    node_id(page, "loss/mean")
    page.keyboard.press("/")
    expect(by(page, "search")).to_be_focused()
    page.keyboard.type("loss/mean")
    page.keyboard.press("Enter")
    expect(by(page, "inspector-title")).to_contain_text("mean")
    page.keyboard.press("F9")
    expect(by(page, "breakpoint-row")).to_contain_text("loss/mean")
    page.keyboard.press("F5")
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint")


OVERLAPS = """
() => {
  const shown = [...document.querySelectorAll('.top > *, .top button, .canvas-head > *')]
    .filter((element) => element.getClientRects().length > 0 && !element.classList.contains('sr')
      && !element.classList.contains('sp'));
  const faults = [];
  for (const element of shown) {
    const box = element.getBoundingClientRect();
    const frame = element.closest('.top, .canvas-head').getBoundingClientRect();
    if (box.left < frame.left - 1 || box.right > frame.right + 1) {
      faults.push('clipped: ' + element.className);
    }
    for (const other of shown) {
      if (other === element || other.contains(element) || element.contains(other)) continue;
      const next = other.getBoundingClientRect();
      const wide = Math.min(box.right, next.right) - Math.max(box.left, next.left);
      const high = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
      if (wide > 1 && high > 1) faults.push(element.className + ' over ' + other.className);
    }
  }
  for (const [name, least] of [['.graph-host', 150], ['.insp', 200], ['.timeline', 100]]) {
    const box = document.querySelector(name).getBoundingClientRect();
    if (box.width < least || box.height < 40) faults.push('too small: ' + name);
    if (box.right > innerWidth + 1 || box.bottom > innerHeight + 1) faults.push('outside: ' + name);
  }
  return faults;
}
"""


SIZES = [(1600, 1000), (1280, 800), (1000, 700), (900, 800), (400, 800)]


@pytest.mark.deep
def test_nothing_overlaps(start: Start, page: Page) -> None:
    program = start("run", "--no-browser", SAMPLE, "--epochs", "1")
    page.goto(program.address)
    by(page, "next-step").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        eventually(page, OVERLAPS, [])
        by(page, "theme").click()
        eventually(page, OVERLAPS, [])
    # The narrowest window, also right after loading.
    page.reload()
    expect(by(page, "state")).to_contain_text("Stopped")
    eventually(page, OVERLAPS, [])
    assert len(page.screenshot()) > 10_000


IN_SIGHT = """
id => {
  const box = window.__nodescope.view.boundsOf({ kind: 'node', id });
  const host = document.querySelector('[data-testid="graph"]');
  return box !== undefined && box.x >= 0 && box.y >= 0
    && box.x + box.width <= host.clientWidth && box.y + box.height <= host.clientHeight;
}
"""


@pytest.mark.deep
def test_the_current_node_stays_in_sight(start: Start, page: Page) -> None:
    program = start("run", "--no-browser", SAMPLE, "--epochs", "1")
    page.goto(program.address)
    by(page, "next-step").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    expand(page, "loss")
    row(page, "loss/mean").click()
    page.keyboard.press("F9")
    expect(by(page, "breakpoint-row")).to_contain_text("loss/mean")
    page.keyboard.press("F5")
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint")
    loss = node_id(page, "loss/mean")
    eventually(page, IN_SIGHT, True, loss)
    # the user moves the camera
    by(page, "graph").hover()
    page.mouse.wheel(0, -40)
    eventually(page, IN_SIGHT, True, loss)
    for width, height in ((1000, 700), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        eventually(page, IN_SIGHT, True, loss)

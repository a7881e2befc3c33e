"""What lies where: nothing is cut or covered, and what is open can be gone through by keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import SAMPLE, Debuggee
from tests.e2e.test_first_flow import by
from tests.e2e.test_moments import go_to

Start = Callable[..., Debuggee]

PROGRAM = """
import numpy as np
import nodescope as ns

w = ns.parameter(np.random.default_rng(0).normal(size=(40, 30)), name="w")
for k in ns.steps(range(4)):
    with ns.name_scope("net"):
        h = w * -1e-5
        if k > 1:
            h = np.tanh(h)
    with ns.name_scope("loss"):
        loss = np.sum(h * h)
    if k == 2:
        raise RuntimeError("the end")
"""


def script(folder: Path) -> Path:
    path = folder / "looks.py"
    path.write_text(PROGRAM)
    return path


def stopped(start: Start, page: Page, folder: Path, *options: str, width: int = 0) -> Debuggee:
    """A program that stands at its first node, in a page of this width."""
    if width:
        page.set_viewport_size({"width": width, "height": 900})
    program = start("run", "--no-browser", "--level", "values", *options, script(folder))
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    return program


CUT_NUMBERS = """
() => {
  const host = document.querySelector('.numbers');
  const box = host.getBoundingClientRect();
  const index = host.querySelector('.numbers-index').getBoundingClientRect();
  const shown = [...host.querySelectorAll('.numbers-cell, .numbers-head > span')]
    .filter((each) => getComputedStyle(each).visibility === 'visible');
  const cut = shown.filter((each) => {
    const range = document.createRange();
    range.selectNodeContents(each);
    const words = range.getBoundingClientRect();
    return words.width > 0
      && (words.right > box.left + 1 + host.clientWidth || words.left < index.right);
  });
  return { shown: shown.length, cut: cut.map((each) => each.textContent) };
}
"""


@pytest.mark.parametrize("width", [1440, 900, 400])
def test_no_number_of_a_grid_is_cut(start: Start, page: Page, tmp_path: Path, width: int) -> None:
    stopped(start, page, tmp_path, width=width)
    page.keyboard.press("F8")
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    go_to(page, "net/multiply")
    page.get_by_role("radio", name="Numbers").click()
    grid = page.get_by_role("grid")
    expect(grid.get_by_role("gridcell").first).to_contain_text(re.compile(r"\de\W\d"))

    def check() -> None:
        found = page.evaluate(CUT_NUMBERS)
        assert found["shown"] > 12
        assert found["cut"] == []

    check()
    # By keyboard to the end of a row, and back by one; then why that element is what it is.
    grid.focus()
    page.keyboard.press("End")
    last = page.locator(".numbers-head > span").last
    expect(last).to_have_text("29")
    check()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    check()
    page.keyboard.press("Enter")
    expect(by(page, "why-sentence")).to_contain_text("net/multiply at [1, 28]")


COVERED = """
() => {
  const note = document.querySelector('[data-testid=notice]').getBoundingClientRect();
  const meets = (each) => {
    const box = each.getBoundingClientRect();
    return box.left < note.right && note.left < box.right
      && box.top < note.bottom && note.top < box.bottom;
  };
  return [...document.querySelectorAll('#dock, .insp, .top, .left, .canvas-head, .status')]
    .filter(meets).map((each) => each.className);
}
"""


@pytest.mark.parametrize("width", [1440, 900, 400])
def test_a_note_lies_over_the_graph_alone(
    start: Start, page: Page, tmp_path: Path, width: int
) -> None:
    stopped(start, page, tmp_path, width=width)
    page.keyboard.press("F11")
    expect(by(page, "inspector-reason")).to_contain_text("Stepped to")
    page.keyboard.press("m")
    expect(by(page, "notice")).to_contain_text("Held as A")
    assert page.evaluate(COVERED) == []


INSIDE = """
([inner, outer]) => {
  const frame = document.querySelector(outer).getBoundingClientRect();
  const box = document.querySelector(inner).getBoundingClientRect();
  return box.width > 0 && box.left >= frame.left && box.right <= frame.right
    && box.top >= frame.top && box.bottom <= frame.bottom;
}
"""


def test_the_first_hint_is_read_whole_where_it_is_narrow(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path, width=400)
    expect(by(page, "next-hint")).to_be_visible()
    assert page.evaluate(INSIDE, [".next-hint", ".mid"])


PARTS = """
() => {
  const frame = document.querySelector('.lcd').getBoundingClientRect();
  return [...document.querySelectorAll('.lcd > :not(.vr)')].flatMap((each) => {
    const box = each.getBoundingClientRect();
    const within = box.right <= frame.right + 0.5 && box.bottom <= frame.bottom + 0.5;
    const outside = box.top >= frame.bottom - 1.5;
    return within ? [[each.className, 'whole']] : outside ? [] : [[each.className, 'cut']];
  });
}
"""


@pytest.mark.parametrize("width", [1440, 900, 400])
def test_what_changed_and_an_error_leave_room_for_the_rest(
    start: Start, page: Page, tmp_path: Path, width: int
) -> None:
    stopped(start, page, tmp_path, width=width)
    page.keyboard.press("F5")
    expect(by(page, "state")).to_contain_text("Stopped by an error")
    expect(by(page, "graph-changes")).to_be_visible()
    assert page.evaluate(INSIDE, ["[data-testid=fit]", ".canvas-head"])
    parts = page.evaluate(PARTS)
    assert {how for _, how in parts} == {"whole"}
    assert len(parts) >= 3
    by(page, "theme").click()
    assert page.evaluate(INSIDE, ["[data-testid=theme]", ".top"])


def test_what_is_open_is_closed_by_escape_from_anywhere(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path)
    page.keyboard.press("F11")
    expect(by(page, "inspector-reason")).to_contain_text("Stepped to")
    page.keyboard.press("e")
    expect(by(page, "edit-form")).to_be_visible()
    page.keyboard.press("Control+F9")
    expect(by(page, "breakpoint-form")).to_be_visible()
    by(page, "theme").focus()
    page.keyboard.press("Escape")
    expect(by(page, "edit-form")).to_have_count(0)
    expect(by(page, "breakpoint-form")).to_be_visible()
    page.keyboard.press("Escape")
    expect(by(page, "breakpoint-form")).to_have_count(0)
    page.keyboard.press("a")
    by(page, "watch-add").click()
    rule = page.get_by_label("Find a rule")
    expect(rule).to_be_visible()
    by(page, "theme").focus()
    page.keyboard.press("Escape")
    expect(rule).to_have_count(0)


def test_function_keys_are_the_debuggers_in_a_form_too(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path)
    by(page, "outline").focus()
    page.keyboard.press("Control+F9")
    expect(by(page, "breakpoint-target")).to_be_focused()
    page.keyboard.type("op:exp")  # letters that are shortcuts elsewhere
    expect(by(page, "breakpoint-target")).to_have_value("op:exp")
    page.keyboard.press("Escape")
    expect(by(page, "breakpoint-form")).to_have_count(0)
    expect(by(page, "outline")).to_be_focused()
    page.keyboard.press("/")
    expect(by(page, "search")).to_be_focused()
    page.keyboard.press("Escape")
    expect(by(page, "outline")).to_be_focused()
    page.keyboard.press("Control+F9")
    by(page, "breakpoint-target").fill("loss/sum")
    by(page, "breakpoint-target").press("F8")
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    expect(by(page, "breakpoint-target")).to_have_value("loss/sum")


def test_branches_of_one_node_are_told_apart(start: Start, page: Page, tmp_path: Path) -> None:
    stopped(start, page, tmp_path, "--break", "net/multiply", width=1440)
    page.keyboard.press("F5")
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint 1")
    page.keyboard.press("e")
    by(page, "edit-number").fill("0.125")
    by(page, "edit-what-if").click()
    expect(by(page, "branch")).to_contain_text("net/multiply set to 0.125")
    end = page.locator(".branch-end")
    expect(end).to_have_text("to 0.125")
    assert page.evaluate(INSIDE, [".branch-end", ".branch-name"])


def test_the_search_says_what_it_is(start: Start, page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(start("run", "--no-browser", SAMPLE, "--epochs", "1").address)
    expect(by(page, "state")).to_contain_text("Stopped")
    assert "Find" in page.locator(".palette-open").inner_text()
    page.keyboard.press("Control+k")
    expect(by(page, "palette-input")).to_have_accessible_name("Find a node, a scope or a command")


@pytest.mark.parametrize("width", [900, 400])
def test_all_of_a_breakpoint_can_be_said_where_it_is_narrow(
    start: Start, page: Page, tmp_path: Path, width: int
) -> None:
    stopped(start, page, tmp_path, width=width)
    page.keyboard.press("k")
    tab = "[data-testid=tab-breakpoints]"
    page.wait_for_function(INSIDE, arg=[tab, ".dock .tabs"])
    page.keyboard.press("Control+F9")
    by(page, "breakpoint-target").fill("loss/sum")
    by(page, "breakpoint-more").click()
    by(page, "breakpoint-log").fill("sum {value:.2f}")
    by(page, "breakpoint-add").click()
    expect(by(page, "breakpoint-row")).to_contain_text("sum {value:.2f}")

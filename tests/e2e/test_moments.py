"""Moments beside each other, breakpoints on a recording, marks of watches, branches further on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import nodescope as ns
from tests.e2e.conftest import Debuggee
from tests.e2e.test_first_flow import bounds, by, expand, node_id, row
from tests.e2e.test_why import on_canvas
from tests.e2e.waiting import eventually

Start = Callable[..., Debuggee]

PROGRAM = """
import numpy as np
import nodescope as ns

np.seterr(all="ignore")
w = ns.parameter(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), name="w")
optimizer = ns.optim.SGD([w], lr=0.5)
for k in ns.steps(range(4)):
    optimizer.zero_grad()
    with ns.name_scope("net"):
        h = w * 2.0
        np.sum(h, axis=k % 2)
    with ns.name_scope("loss"):
        loss = np.sum(np.log(h - 1.5 * k))
    loss.backward()
    optimizer.step()
"""


def script(folder: Path) -> Path:
    path = folder / "moments.py"
    path.write_text(PROGRAM)
    return path


def recording(folder: Path, level: str = "values") -> Path:
    path = folder / "kept.nscope"
    with ns.record(path, level=level), np.errstate(all="ignore"):
        exec(compile(PROGRAM, "moments.py", "exec"), {})
    return path


def go_to(page: Page, name: str) -> None:
    """Select a node, by the palette."""
    leaf = name.split("/")[-1]
    page.keyboard.press("Control+k")
    expect(by(page, "palette-input")).to_be_focused()
    page.keyboard.type(name)
    # The graph may still be loading.
    expect(page.get_by_role("listbox").get_by_role("option").first).to_contain_text(leaf)
    page.keyboard.press("Enter")
    expect(by(page, "inspector-title")).to_contain_text(leaf)


@pytest.mark.deep
def test_a_value_is_compared_at_two_moments(start: Start, page: Page, tmp_path: Path) -> None:
    program = start("run", "--no-browser", "--level", "values", script(tmp_path))
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    page.keyboard.press("F11")
    expect(by(page, "inspector-reason")).to_contain_text("Stopped after multiply. Stepped to here")
    page.keyboard.press("F11")
    expect(by(page, "inspector-title")).to_contain_text("sum")
    go_to(page, "net/multiply")
    page.keyboard.press("d")
    expect(by(page, "diff")).to_contain_text("No earlier execution")
    page.keyboard.press("m")
    expect(by(page, "diff-verdict")).to_contain_text("Both moments show the same execution")

    # Go to another moment: A stays, and B is the moment shown; the selected node is compared.
    page.keyboard.press("F8")
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    diff = by(page, "diff")
    expect(diff).to_contain_text(re.compile("step 1.*step 2.*shown", re.S))
    expect(by(page, "diff-verdict")).to_contain_text("All 6 elements differ")
    expect(by(page, "diff-facts")).to_contain_text(re.compile(r"max abs\s*1\s*max rel\s*0\.50000"))
    expect(by(page, "diff-first")).to_contain_text(re.compile(r"\[0, 0\]\s*2 → 1"))
    expect(diff).to_contain_text("B − A by element")
    expect(diff.locator(".heat")).to_be_visible()
    by(page, "tab-value").click()
    expect(by(page, "moment-chip")).to_contain_text("step 1")
    by(page, "moment-chip").click()
    page.keyboard.press("x")
    expect(by(page, "state")).to_contain_text(re.compile("past.*step 1", re.S))
    expect(by(page, "diff-first")).to_contain_text(re.compile(r"\[0, 0\]\s*1 → 2"))
    by(page, "diff-clear").click()
    page.keyboard.press("l")
    expect(diff).to_contain_text(re.compile("step 1.*the previous execution.*step 2", re.S))
    by(page, "tab-steps").click()
    by(page, "step-hold").last.click()
    expect(by(page, "step-hold").last).not_to_have_class(re.compile("off"))


@pytest.mark.deep
def test_a_value_of_an_earlier_step_says_so(start: Start, page: Page, tmp_path: Path) -> None:
    program = start("run", "--no-browser", script(tmp_path))
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    for step in (2, 3):
        page.keyboard.press("F8")
        expect(by(page, "state")).to_contain_text(re.compile(f"Stopped.*step {step}", re.S))
    go_to(page, "log")
    note = by(page, "value-earlier")
    expect(note).to_have_text("From step 2; hasn't run yet in step 3.")
    go_to(page, "w")
    expect(by(page, "inspector-value")).to_contain_text("(2, 3)")
    expect(note).to_have_count(0)
    page.keyboard.press("F8")
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 4", re.S))
    go_to(page, "log")
    expect(note).to_have_text("From step 3; hasn't run yet in step 4.")
    page.keyboard.press("F5")
    expect(by(page, "state")).to_contain_text("Finished")
    expect(note).to_have_count(0)


@pytest.mark.deep
def test_inputs_are_what_the_node_took(start: Start, page: Page, tmp_path: Path) -> None:
    path = tmp_path / "taken.py"
    path.write_text("""
import numpy as np
import nodescope as ns

w = ns.parameter(np.full(2, 3.0), name="w")
x = ns.tensor(np.array([1.0, 4.0]))
for _ in ns.steps(range(3)):
    x = x * 0.5
    y = np.sin(w)
    with ns.no_grad():
        ns.assign(w, w - 1.0)
""")
    program = start("run", "--no-browser", path)
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    page.keyboard.press("F8")
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    go_to(page, "multiply")
    by(page, "tab-inputs").click()
    taken = by(page, "inspector-inputs")
    # Stopped after the node: its input is not its output.
    expect(taken).to_contain_text("0.5000 … 2, norm 2.062")
    page.keyboard.press("F8")
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 3", re.S))
    expect(taken).to_contain_text("0.2500 … 1, norm 1.031")
    go_to(page, "sin")
    # The value of step 2, before the assignment.
    expect(taken).to_contain_text("2 … 2, norm 2.828")


@pytest.mark.deep
def test_before_and_after_an_edit(start: Start, page: Page, tmp_path: Path) -> None:
    program = start("run", "--no-browser", "--level", "values", script(tmp_path))
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    page.keyboard.press("F11")
    expect(by(page, "inspector-reason")).to_contain_text("Stopped after multiply. Stepped to here")
    page.keyboard.press("e")
    by(page, "edit-number").fill("50")
    by(page, "edit-index").fill("0, 1")
    by(page, "edit-apply").click()
    expect(by(page, "edited")).to_contain_text("50")
    page.keyboard.press("F11")
    expect(by(page, "inspector-title")).to_contain_text("sum")
    go_to(page, "net/multiply")
    page.keyboard.press("d")
    by(page, "diff-edit").click()
    expect(by(page, "diff")).to_contain_text(re.compile("before the edit.*after the edit", re.S))
    expect(by(page, "diff-verdict")).to_contain_text("1 of 6 elements differ")
    expect(by(page, "diff-first")).to_contain_text(re.compile(r"\[0, 1\]\s*4 → 50"))
    by(page, "diff-swap").click()
    expect(by(page, "diff-first")).to_contain_text("50 → 4")


@pytest.mark.deep
def test_statistics_alone_are_compared_and_it_is_reported(
    start: Start, page: Page, tmp_path: Path
) -> None:
    page.goto(start("open", "--no-browser", recording(tmp_path, "summary")).address)
    expect(by(page, "state")).to_contain_text("Recording")
    go_to(page, "net/multiply")
    page.keyboard.press("d")
    expect(by(page, "diff-verdict")).to_contain_text("The statistics differ")
    expect(by(page, "diff")).to_contain_text("run with --level values")
    expect(by(page, "diff")).to_contain_text(re.compile("min.*max.*mean", re.S))


@pytest.mark.deep
def test_breakpoints_are_found_in_a_recording(start: Start, page: Page, tmp_path: Path) -> None:
    page.goto(start("open", "--no-browser", recording(tmp_path)).address)
    expect(by(page, "state")).to_contain_text("Recording")
    go_to(page, "loss/log")
    page.keyboard.press("F9")
    expect(by(page, "breakpoint-row")).to_contain_text("loss/log")
    expect(by(page, "breakpoints-recorded")).to_contain_text("F5 searches forward, R back")
    field = by(page, "breakpoint-row-condition")
    field.fill("isnan(value).any")
    field.press("Enter")
    expect(by(page, "condition-error")).to_be_visible()
    field.fill("isnan(value).any()")
    field.press("Enter")
    expect(by(page, "condition-error")).to_have_count(0)
    page.keyboard.press("r")
    result = by(page, "inspector-found")
    expect(result).to_contain_text("Found in the recording. Back at loss/log, step 4: breakpoint")
    page.keyboard.press("r")
    expect(result).to_contain_text("step 3")
    page.keyboard.press("F5")
    expect(result).to_contain_text("At loss/log, step 4: breakpoint")
    page.keyboard.press("F5")
    expect(page.get_by_role("status").last).to_contain_text("No breakpoint after this")
    page.reload()  # The server keeps breakpoints.
    expect(by(page, "breakpoint-row")).to_contain_text("loss/log")
    by(page, "breakpoint-remove").click()
    expect(by(page, "breakpoint-row")).to_have_count(0)


@pytest.mark.deep
def test_a_condition_that_cannot_be_evaluated_is_reported(
    start: Start, page: Page, tmp_path: Path
) -> None:
    page.goto(start("open", "--no-browser", recording(tmp_path, "timing")).address)
    expect(by(page, "state")).to_contain_text("Recording")
    page.keyboard.press("Control+F9")
    by(page, "breakpoint-target").fill("loss/log")
    by(page, "breakpoint-condition").fill("max(value) > 0")
    by(page, "breakpoint-add").click()
    expect(by(page, "breakpoint-row")).to_have_count(1)
    row(page, "loss").click()
    page.keyboard.press("r")
    expect(page.get_by_text("could not be evaluated 4 times")).to_be_visible()


@pytest.mark.deep
def test_a_branch_continues_to_the_end(start: Start, page: Page, tmp_path: Path) -> None:
    page.goto(start("open", "--no-browser", recording(tmp_path)).address)
    expect(by(page, "state")).to_contain_text("Recording")
    go_to(page, "net/multiply")
    by(page, "tab-steps").click()
    page.locator(".steps-table tbody tr").last.click()
    expect(by(page, "state")).to_contain_text(re.compile("past.*step 1", re.S))
    page.keyboard.press("e")
    by(page, "edit-number").fill("2")
    by(page, "edit-how").select_option("scale")
    by(page, "edit-far").select_option("to the end, 3 more steps")
    by(page, "edit-what-if").click()
    words = by(page, "branch-words")
    expect(words).to_contain_text("Re-ran everything that depends on it from step 1 to 4")
    changed = by(page, "branch-change").filter(has_text=re.compile(r"^net/multiply"))
    expect(changed).to_have_count(4)
    expect(changed.last.locator(".branch-step")).to_have_text("4")
    changed.last.click()
    expect(by(page, "state")).to_contain_text(re.compile("past.*step 4", re.S))


@pytest.mark.deep
def test_what_a_watch_marks_is_shown(start: Start, page: Page, tmp_path: Path) -> None:
    program = start(
        "run", "--no-browser", "--watch", "nan on op:log -> mark", "--break", "loss/sum [step 4]",
        script(tmp_path),
    )  # fmt: skip
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    page.keyboard.press("F5")
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint loss/sum [step 4]")
    expand(page, "loss")
    mark = row(page, "loss/log").get_by_test_id("outline-marked")
    expect(mark).to_contain_text("3")
    expect(mark).to_have_attribute("title", re.compile("nan: loss/log in step 4"))
    row(page, "loss/log").click()
    note = by(page, "inspector-marked")
    expect(note).to_contain_text(re.compile("step 4.*nan.*NaN in 6.*step 3", re.S))
    expect(by(page, "legend")).to_contain_text("found by a watch")
    page.keyboard.press("h")
    expect(by(page, "legend")).to_have_count(0)
    eventually(page, lambda: on_canvas(page, "3"), 1)
    node = node_id(page, "loss/log")
    place = bounds(page, node)
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    expect(by(page, "mark-tip")).to_contain_text(re.compile("nan.*step 4", re.S))
    by(page, "marked-all").click()
    expect(by(page, "watch-hit")).to_have_count(3)
    by(page, "watch-hit").first.click()
    expect(by(page, "state")).to_contain_text(re.compile("past.*step 2", re.S))


@pytest.mark.deep
def test_attributes_are_those_of_the_moment(start: Start, page: Page, tmp_path: Path) -> None:
    page.goto(start("open", "--no-browser", recording(tmp_path)).address)
    expect(by(page, "state")).to_contain_text("Recording")
    go_to(page, "net/sum")
    changed = by(page, "attribute-changed")
    expect(changed).to_contain_text(re.compile(r"axis\s*1"))
    expect(changed.locator("dd")).to_have_attribute("title", "1; initially 0")
    page.keyboard.press("Shift+F8")
    expect(by(page, "state")).to_contain_text("step 3")
    go_to(page, "net/sum")
    expect(changed).to_have_count(0)
    expect(by(page, "inspector")).to_contain_text(re.compile(r"axis\s*0"))


def test_every_command_is_in_the_help_and_in_the_palette(
    start: Start, page: Page, tmp_path: Path
) -> None:
    page.goto(start("open", "--no-browser", recording(tmp_path)).address)
    expect(by(page, "state")).to_contain_text("Recording")
    go_to(page, "loss/log")
    page.keyboard.press("?")
    told = page.locator("[data-testid=keys] dd")
    some = {"Detach", "Show the breakpoints", "Inspector: its steps"}
    eventually(page, told.all_inner_texts, lambda texts: some <= set(texts))
    page.keyboard.press("Escape")
    for key, test_id in [
        ("4", "inspector-steps"),
        ("5", "inspector-diff"),
        ("1", "inspector-value"),
    ]:
        page.keyboard.press(key)
        expect(by(page, test_id)).to_be_visible()
    for key, tab in [("p", "problems"), ("o", "console"), ("t", "branches"), ("y", "timeline")]:
        page.keyboard.press(key)
        expect(by(page, f"tab-{tab}")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Control+k")
    page.keyboard.type("hold this moment")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_contain_text(
        "Mark this moment"
    )


@pytest.mark.deep
def test_where_it_is_narrow_the_breakpoints_are_a_tab(
    start: Start, page: Page, tmp_path: Path
) -> None:
    page.set_viewport_size({"width": 900, "height": 800})
    page.goto(start("open", "--no-browser", recording(tmp_path)).address)
    expect(by(page, "state")).to_contain_text("Recording")
    go_to(page, "loss/log")
    page.keyboard.press("F9")
    page.keyboard.press("k")
    expect(by(page, "breakpoint-row")).to_contain_text("loss/log")
    for width in (900, 400):
        page.set_viewport_size({"width": width, "height": 800})
        expect(by(page, "breakpoint-row")).to_contain_text("loss/log")
        expect(by(page, "tab-breakpoints")).to_be_in_viewport()
        for name in ("value", "gradient", "inputs", "steps", "diff", "why"):
            by(page, f"tab-{name}").click()
            expect(by(page, f"inspector-{name}")).to_be_in_viewport()
        # Nothing is wider than the page.
        eventually(
            page,
            "[...document.querySelectorAll('.app > *')].filter((element) =>"
            " element.getBoundingClientRect().right > innerWidth + 1)"
            ".map((element) => element.className)",
            [],
        )

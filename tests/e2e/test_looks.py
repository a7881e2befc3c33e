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
from tests.e2e.waiting import eventually

Start = Callable[..., Debuggee]
WIDTHS = (1440, 900, 400)

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
    .filter((element) => getComputedStyle(element).visibility === 'visible');
  const cut = shown.filter((element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    const words = range.getBoundingClientRect();
    return words.width > 0
      && (words.right > box.left + 1 + host.clientWidth || words.left < index.right);
  });
  return { shown: shown.length, cut: cut.map((element) => element.textContent) };
}
"""


@pytest.mark.deep
def test_no_number_of_a_grid_is_cut(start: Start, page: Page, tmp_path: Path) -> None:
    stopped(start, page, tmp_path)
    page.keyboard.press("F8")
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    go_to(page, "net/multiply")
    page.get_by_role("radio", name="Numbers").click()
    grid = page.get_by_role("grid")
    expect(grid.get_by_role("gridcell").first).to_contain_text(re.compile(r"\de\W\d"))

    def check() -> None:
        eventually(page, CUT_NUMBERS, lambda seen: seen["shown"] > 12 and seen["cut"] == [])

    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        # Go to the end of a row and back by one, by keyboard.
        grid.focus()
        page.keyboard.press("Control+Home")
        check()
        page.keyboard.press("End")
        last = page.locator(".numbers-head > span").last
        expect(last).to_have_text("29")
        check()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowLeft")
        check()
    # Then ask why that element has its value.
    page.keyboard.press("Enter")
    expect(by(page, "why-sentence")).to_contain_text("net/multiply at [1, 28]")


COVERED = """
() => {
  const note = document.querySelector('[data-testid=notice]').getBoundingClientRect();
  const meets = (element) => {
    const box = element.getBoundingClientRect();
    return box.left < note.right && note.left < box.right
      && box.top < note.bottom && note.top < box.bottom;
  };
  return [...document.querySelectorAll('#dock, .insp, .top, .left, .canvas-head, .status, .legend')]
    .filter(meets).map((element) => element.className);
}
"""


@pytest.mark.deep
@pytest.mark.parametrize("width", WIDTHS)
def test_a_notice_covers_only_the_graph(
    start: Start, page: Page, tmp_path: Path, width: int
) -> None:
    stopped(start, page, tmp_path, width=width)
    page.keyboard.press("F11")
    expect(by(page, "inspector-reason")).to_contain_text("Stepped to here")
    page.keyboard.press("m")
    expect(by(page, "notice")).to_contain_text("Held as A")
    eventually(page, COVERED, [])


INSIDE = """
([inner, outer]) => {
  const frame = document.querySelector(outer).getBoundingClientRect();
  const box = document.querySelector(inner).getBoundingClientRect();
  return box.width > 0 && box.left >= frame.left && box.right <= frame.right
    && box.top >= frame.top && box.bottom <= frame.bottom;
}
"""


@pytest.mark.deep
def test_the_first_hint_is_read_whole_where_it_is_narrow(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path, width=400)
    expect(by(page, "next-hint")).to_be_visible()
    eventually(page, INSIDE, True, [".next-hint", ".mid"])


PARTS = """
() => {
  const frame = document.querySelector('.lcd').getBoundingClientRect();
  return [...document.querySelectorAll('.lcd > :not(.vr)')].flatMap((element) => {
    const box = element.getBoundingClientRect();
    const within = box.right <= frame.right + 0.5 && box.bottom <= frame.bottom + 0.5;
    const outside = box.top >= frame.bottom - 1.5;
    return within ? [[element.className, 'whole']] : outside ? [] : [[element.className, 'cut']];
  });
}
"""


@pytest.mark.deep
def test_what_changed_and_an_error_leave_room_for_the_rest(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path)
    page.keyboard.press("F5")
    expect(by(page, "state")).to_contain_text("Stopped by an error")
    expect(by(page, "graph-changes")).to_be_visible()
    for width in (1280, *WIDTHS):
        page.set_viewport_size({"width": width, "height": 900})
        eventually(page, INSIDE, True, ["[data-testid=fit]", ".canvas-head"])
        # Every colouring can be chosen.
        if width >= 1440:
            eventually(page, CUT_TEXTS, [], ".canvas-head > .seg")
        else:
            choice = page.get_by_role("combobox", name="Colour by")
            choice.select_option("Memory")
            expect(by(page, "legend-scale")).to_be_visible()
            choice.select_option("Op family")
        eventually(
            page, PARTS, lambda parts: len(parts) >= 3 and {how for _, how in parts} == {"whole"}
        )
        by(page, "theme").click()
        eventually(page, INSIDE, True, ["[data-testid=theme]", ".top"])


def test_what_is_open_is_closed_by_escape_from_anywhere(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path)
    page.keyboard.press("F11")
    expect(by(page, "inspector-reason")).to_contain_text("Stepped to here")
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


@pytest.mark.deep
def test_an_outline_over_the_graph_goes_when_the_graph_is_wanted(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path, width=780)
    show = page.get_by_role("button", name="Show or hide the outline")
    rows = by(page, "outline-row")
    expect(rows.first).to_be_hidden()
    show.click()
    expect(rows.first).to_be_visible()
    page.keyboard.press("Escape")
    expect(rows.first).to_be_hidden()
    show.click()
    rows.first.click()
    expect(rows.first).to_be_visible()
    by(page, "theme").click()
    expect(rows.first).to_be_hidden()


@pytest.mark.deep
def test_function_keys_control_the_debugger_in_a_form_too(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path)
    by(page, "outline").focus()
    page.keyboard.press("Control+F9")
    expect(by(page, "breakpoint-target")).to_be_focused()
    page.keyboard.type("op:exp")  # Letters that are shortcuts elsewhere.
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


@pytest.mark.deep
def test_branches_of_one_node_are_distinguished(start: Start, page: Page, tmp_path: Path) -> None:
    stopped(start, page, tmp_path, "--break", "net/multiply", width=1440)
    page.keyboard.press("F5")
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint net/multiply")
    page.keyboard.press("e")
    by(page, "edit-number").fill("0.125")
    by(page, "edit-what-if").click()
    expect(by(page, "branch")).to_contain_text("net/multiply set to 0.125")
    end = page.locator(".branch-end")
    expect(end).to_have_text("set to 0.125")
    eventually(page, INSIDE, True, [".branch-end", ".branch-name"])


@pytest.mark.deep
def test_the_search_field_has_a_label(start: Start, page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(start("run", "--no-browser", SAMPLE, "--epochs", "1").address)
    expect(by(page, "state")).to_contain_text("Stopped")
    expect(page.locator(".palette-open")).to_contain_text("Find", use_inner_text=True)
    page.set_viewport_size({"width": 1280, "height": 800})
    eventually(page, INSIDE, True, [".palette-open .icon", ".palette-open"])
    page.keyboard.press("Control+k")
    expect(by(page, "palette-input")).to_have_accessible_name("Find a node, a scope or a command")


@pytest.mark.deep
@pytest.mark.parametrize("width", WIDTHS[1:])
def test_all_of_a_breakpoint_can_be_said_where_it_is_narrow(
    start: Start, page: Page, tmp_path: Path, width: int
) -> None:
    stopped(start, page, tmp_path, width=width)
    page.keyboard.press("k")
    tab = "[data-testid=tab-breakpoints]"
    eventually(page, INSIDE, True, [tab, ".dock .tabs"])
    page.keyboard.press("Control+F9")
    by(page, "breakpoint-target").fill("loss/sum")
    by(page, "breakpoint-more").click()
    by(page, "breakpoint-log").fill("sum {value:.2f}")
    by(page, "breakpoint-add").click()
    expect(by(page, "breakpoint-row")).to_contain_text("sum {value:.2f}")


ABOVE = """
([upper, lower, width]) => {
  const boxOf = (id) => document.querySelector(`[data-testid=${id}]`).getBoundingClientRect();
  return innerWidth === width && boxOf(upper).height > 0 && boxOf(lower).height > 0
    && boxOf(upper).bottom <= boxOf(lower).top;
}
"""


@pytest.mark.deep
def test_the_first_hint_does_not_cover_the_legend(start: Start, page: Page, tmp_path: Path) -> None:
    stopped(start, page, tmp_path)
    expect(page.locator(".overview-count")).to_have_text("1 op")
    for width in (1600, 1280, 780):
        page.set_viewport_size({"width": width, "height": 900})
        eventually(page, ABOVE, True, ["next-hint", "legend", width])


@pytest.mark.deep
def test_lines_of_the_stack_end_where_the_source_does(
    start: Start, page: Page, tmp_path: Path
) -> None:
    path = tmp_path / "called.py"
    path.write_text(
        "import numpy as np, nodescope as ns\n"
        "def inner(x):\n    return np.tanh(x)\n"
        "inner(ns.tensor(np.ones(3)))\n"
    )
    page.goto(start("run", "--no-browser", path).address)
    expect(by(page, "state")).to_contain_text("Stopped")
    rows = page.locator(".stack button")
    expect(rows).to_have_count(2)
    eventually(
        page,
        """() => [...document.querySelectorAll(
            '[data-testid=inspector-source] .h .mi, .stack button .mi')]
            .map((each) => Math.round(each.getBoundingClientRect().right))""",
        lambda ends: len(ends) == 3 and len(set(ends)) == 1,
    )


CUT_CONDITIONS = """
() => [...document.querySelectorAll('.bp-condition')].map((field) => ({
  text: field.value,
  cut: field.scrollWidth > field.clientWidth || field.scrollHeight > field.clientHeight,
  share: field.clientWidth / field.closest('tr').clientWidth,
}))
"""


@pytest.mark.deep
def test_a_condition_is_read_whole(start: Start, page: Page, tmp_path: Path) -> None:
    long = "value.max() > 3 and step > 2 and value.mean() < 100"
    stopped(start, page, tmp_path, "--break", f"loss/sum if {long}", "--break", "w", width=1600)
    expect(by(page, "breakpoint-row")).to_have_count(2)
    for width, height in ((1600, 1000), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        fields = eventually(
            page,
            CUT_CONDITIONS,
            lambda fields: fields and not any(field["cut"] for field in fields),
        )
        assert sorted(field["text"] for field in fields) == ["", long]
        # Names do not take room from conditions.
        assert all(field["share"] > 0.35 for field in fields), fields


NAME_IN_BAR = """
() => {
  // Measured to a fraction: less than a pixel too little costs a name its end.
  const name = document.querySelector('.runsel-name');
  const words = document.createRange();
  words.selectNodeContents(name);
  const fits = words.getBoundingClientRect().width <= name.getBoundingClientRect().width + 0.01;
  return fits && document.querySelector('.runsel').innerText.trim();
}
"""


@pytest.mark.deep
def test_a_long_name_is_whole_in_the_bar_where_there_is_room(
    start: Start, page: Page, tmp_path: Path
) -> None:
    path = tmp_path / "a_longer_name_of_a_training_script_3.py"
    path.write_text(PROGRAM)
    page.goto(start("run", "--no-browser", path).address)
    expect(by(page, "state")).to_contain_text("Stopped")
    # The program is stopped, so nothing beside its name says that it is running.
    eventually(page, NAME_IN_BAR, lambda words: words and words.split("\n")[0] == path.name)
    expect(page.locator(".runsel-state")).to_have_text("")
    eventually(
        page, PARTS, lambda parts: len(parts) >= 3 and {how for _, how in parts} == {"whole"}
    )


CUT_TEXTS = """
(selector) => [...document.querySelectorAll(selector)]
  .filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => each.textContent)
"""

BROKEN = """
import numpy as np
import nodescope as ns

w = ns.parameter(np.linspace(1.0, 2.0, 30), name="w")
for k in ns.steps(range(8)):
    with ns.name_scope("loss"), np.errstate(all="ignore"):
        loss = np.log(w - 0.2 * k)
"""


@pytest.mark.deep
def test_numbers_and_names_are_whole_at_1280(start: Start, page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    path = tmp_path / "train_a_network.py"
    path.write_text(BROKEN)
    program = start(
        *("run", "--no-browser", "--level", "values", "--no-stop-on-entry"),
        *(path, "--epochs", "2", "--rate", "0.01"),
    )
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Finished")
    go_to(page, "loss/log")
    page.get_by_role("tab", name="Steps").click()
    expect(page.locator(".steps-table tbody tr")).to_have_count(8)
    eventually(page, CUT_TEXTS, [], ".steps-table :is(th, td)")
    page.get_by_role("tab", name=re.compile("Runs")).click()
    name = page.locator(".run-name")
    expect(name).to_contain_text("train_a_network.py --epochs 2 --rate 0.01")
    eventually(page, CUT_TEXTS, [], ".run-name, .run-more")
    page.get_by_role("tab", name="Diff").click()
    expect(by(page, "diff")).to_contain_text("B − A by element")
    eventually(page, CUT_TEXTS, [], ".diff-gap .lab")
    # Why names every operand in full.
    page.get_by_role("tab", name="Why").click()
    expect(by(page, "why-sentence")).to_be_visible()
    eventually(page, CUT_TEXTS, [], ".why-operand .ell")


@pytest.mark.deep
def test_branches_have_the_dock_to_themselves_at_1280(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path, "--break", "net/multiply", width=1280)
    page.keyboard.press("F5")
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint net/multiply")
    page.keyboard.press("e")
    by(page, "edit-number").fill("0.125")
    by(page, "edit-what-if").click()
    expect(by(page, "branch-change").first).to_contain_text("net/multiply")
    eventually(page, CUT_TEXTS, [], ".branch-words-of .ell, .branch-table td")
    expect(page.locator("#bp")).to_be_hidden()


@pytest.mark.deep
def test_why_a_breakpoint_is_refused_is_read_at_1280(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path, width=1280)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.keyboard.press("Control+F9")
    target = by(page, "breakpoint-target")
    target.fill("opp:exp")
    by(page, "breakpoint-more").click()
    target.press("Enter")
    expect(by(page, "condition-error")).to_contain_text("did you mean 'op'")
    eventually(page, INSIDE, True, ["[data-testid=condition-error]", "#bp"])
    expect(target).to_have_attribute("aria-invalid", "true")
    expect(by(page, "breakpoint-condition")).to_have_attribute("aria-invalid", "false")


LINES = """
() => {
  const box = document.querySelector('.timeline-words');
  const line = Number.parseFloat(getComputedStyle(box).lineHeight);
  return Math.round(box.clientHeight / line);
}
"""


@pytest.mark.deep
def test_where_the_time_went_takes_one_line_at_1280(
    start: Start, page: Page, tmp_path: Path
) -> None:
    stopped(start, page, tmp_path, width=1280)
    page.keyboard.press("F8")
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    page.keyboard.press("F8")
    words = by(page, "timeline-words")
    expect(words).to_contain_text("step 3")
    expect(words).to_have_attribute("title", re.compile("between operations"))
    eventually(page, LINES, 1)
    eventually(page, CUT_TEXTS, [], ".timeline-words")
    # In the past, Continue moves through the recording, not the program.
    go_on = by(page, "continue")
    expect(go_on).not_to_have_class(re.compile("past"))
    page.keyboard.press("Shift+F8")
    expect(by(page, "state")).to_contain_text("In the past")
    expect(go_on).to_have_class(re.compile("past"))


@pytest.mark.deep
def test_a_value_without_elements_says_so(start: Start, page: Page, tmp_path: Path) -> None:
    path = tmp_path / "none.py"
    path.write_text("import numpy as np, nodescope as ns\nnp.tanh(ns.tensor(np.ones((0, 3))))\n")
    page.goto(start("run", "--no-browser", "--no-stop-on-entry", path).address)
    expect(by(page, "state")).to_contain_text("Finished")
    go_to(page, "tanh")
    expect(by(page, "inspector-value")).to_contain_text("No elements")
    expect(page.get_by_role("radio", name="Numbers")).to_have_count(0)


@pytest.mark.deep
def test_the_state_of_a_run_without_operations_is_whole(
    start: Start, page: Page, tmp_path: Path
) -> None:
    path = tmp_path / "unseen.py"
    path.write_text("import numpy as np\nprint(np.ones(3).sum())\n")
    page.goto(start("run", "--no-browser", path).address)
    expect(by(page, "state")).to_have_text("Finished")
    for width in (1280, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        eventually(page, CUT_TEXTS, [], ".lcd-state")
    expect(by(page, "summary")).to_contain_text("Nothing: no operation was observed.")

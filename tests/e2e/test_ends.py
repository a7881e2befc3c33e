"""How a program ends: where it stands is told alike everywhere, and what raised is explained."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Debuggee
from tests.e2e.test_first_flow import by
from tests.e2e.waiting import eventually

Start = Callable[..., Debuggee]

FAILS = """
import numpy as np
import nodescope as ns

w = ns.parameter(np.full((8, 8), 0.1), name="w")
optimizer = ns.optim.SGD([w], lr=0.01)
for step in ns.steps(range(1, 301)):
    with ns.name_scope("net"):
        h = np.tanh(w @ w)
    loss = np.mean(h * h)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("line", step)
    if step == 300:
        raise ValueError("no more data")
"""

RAISES = """
import numpy as np
import nodescope as ns

with ns.name_scope("bad"):
    matrix = ns.tensor(np.ones((3, 3))) * 2.0
    np.linalg.inv(matrix)
"""

SHORTER = """
import numpy as np
import nodescope as ns

w = ns.parameter(np.full((8, 8), 0.1), name="w")
for step in ns.steps(range(1, 301)):
    h = np.tanh(w @ w)
    target = ns.tensor(np.ones((8, 8 if step < 300 else 7)), name="target")
    np.mean(h * target).backward()
    w.grad = None
"""

_AT_END = "(pane) => pane.scrollHeight - pane.clientHeight - pane.scrollTop"


def script(folder: Path, text: str) -> Path:
    path = folder / "ends.py"
    path.write_text(text)
    return path


@pytest.mark.deep
def test_an_error_of_the_program_is_in_one_step_wherever_it_is_reported(
    start: Start, page: Page, tmp_path: Path
) -> None:
    limit = ("--max-slowdown", "1.05")
    program = start("run", "--no-browser", *limit, script(tmp_path, FAILS))
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    by(page, "continue").click()
    reason = by(page, "inspector-reason")
    expect(reason).to_contain_text("The program raises ValueError: no more data")
    expect(reason).to_have_class(re.compile("failed"))  # Red, like the lamp of the strip.
    expect(by(page, "state").locator(".lamp")).to_have_class(re.compile("bad"))
    for _ in ("stopped", "ended"):
        expect(by(page, "state")).to_contain_text(re.compile(r"step\s*300"))
        expect(by(page, "state")).not_to_contain_text("after")
        expect(page.locator(".scrub-words")).to_contain_text(re.compile(r"^\s*step 300"))
        if by(page, "continue").is_enabled():
            by(page, "continue").click()
            expect(by(page, "state")).to_contain_text("Failed")

    # The console stays scrolled to its end when the window shrinks.
    page.get_by_role("tab", name="Console").click()
    console = by(page, "console")
    eventually(page, lambda: console.evaluate(_AT_END), 0)
    page.set_viewport_size({"width": 1280, "height": 700})
    eventually(page, lambda: console.evaluate("(pane) => pane.clientHeight"), lambda high: high > 0)
    eventually(page, lambda: console.evaluate(_AT_END), 0)


@pytest.mark.deep
def test_why_at_an_operation_that_raised(start: Start, page: Page, tmp_path: Path) -> None:
    program = start("run", "--no-browser", script(tmp_path, RAISES))
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text("Stopped by an error")
    page.keyboard.press("w")
    expect(by(page, "why-sentence")).to_contain_text("bad/inv (ends.py:7) raised in step 0")
    links = by(page, "why-link")
    expect(links.first).to_contain_text("bad/multiply, float64 (3, 3), is 2")
    expect(links.nth(1)).to_contain_text("bad/multiply")
    expect(page.locator("#insp")).not_to_contain_text("[0, 0]")
    assert page.locator("#insp").inner_text().count("singular matrix") == 1
    expect(by(page, "why-sentence")).to_contain_text(re.compile("no NaN and no Inf[.]$"))
    # The next command removes the result of the previous one.
    page.keyboard.press("n")
    expect(by(page, "notice")).to_have_text("No NaN or Inf at this moment.")
    page.keyboard.press("b")
    expect(by(page, "notice")).to_have_count(0)


@pytest.mark.deep
def test_what_was_given_to_an_operation_that_raised(
    start: Start, page: Page, tmp_path: Path
) -> None:
    limit = ("--max-slowdown", "1.05")  # The last step is not observed.
    program = start("run", "--no-browser", *limit, script(tmp_path, SHORTER))
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text("Stopped by an error")
    page.keyboard.press("3")
    given = by(page, "inspector-inputs").locator("button")
    expect(given).to_contain_text(["(8, 8)", "(8, 7)"])
    page.keyboard.press("w")
    expect(by(page, "why-sentence")).to_contain_text("target is (8, 7), and was (8, 8) in step ")

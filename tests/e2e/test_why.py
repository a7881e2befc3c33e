"""Why and what if, by hand on the page: from a NaN to its culprit, and another number tried."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Debuggee
from tests.e2e.test_first_flow import by, row
from tests.e2e.waiting import eventually

Start = Callable[..., Debuggee]

PROGRAM = """
import numpy as np
import nodescope as ns

w = ns.parameter(np.array([[1.0, 2.0], [3.0, 0.5]]), name="w")
for k in ns.steps(range(3)):
    with ns.name_scope("net"):
        h = np.tanh(w)
        z = h @ w - 2.1
    with ns.name_scope("loss"):
        loss = np.mean(np.square(np.log(z)))
    print("step", k)
"""


def stopped_at_the_loss(start: Start, page: Page, folder: Path) -> Debuggee:
    script = folder / "nan.py"
    script.write_text(PROGRAM)
    program = start(
        "run", "--no-browser", "--level", "values", "--break", "loss/mean [step 2]", script
    )
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    by(page, "continue").click()
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint loss/mean [step 2]")
    return program


def on_canvas(page: Page, text: str) -> int:
    """How many boxes of the graph have this sign."""
    svg = page.evaluate('window.__nodescope.view.toSvg("screen", { title: "", fonts: "" })')
    return len(re.findall(f">{text}</text>", svg))


def test_from_a_nan_to_its_culprit(start: Start, page: Page, tmp_path: Path) -> None:
    program = stopped_at_the_loss(start, page, tmp_path)
    page.keyboard.press("w")
    sentence, links = by(page, "why-sentence"), by(page, "why-link")
    expect(sentence).to_contain_text("loss/mean is NaN in step 2: log of -0.09")
    expect(sentence).to_contain_text("nan.py:11")
    expect(links.nth(0)).to_contain_text("loss/mean")
    culprit = page.locator(".why-link.culprit")
    expect(culprit).to_contain_text(re.compile(r"loss/log.*NaN.*log of a negative", re.S))
    expect(culprit).to_contain_text("np.log(z)")
    eventually(page, lambda: on_canvas(page, "3"), 1)

    culprit.locator(".why-head").click()
    expect(by(page, "inspector-title")).to_contain_text("log")
    expect(by(page, "state")).to_contain_text("past")
    expect(sentence).to_contain_text("loss/mean is NaN")  # The question stays.

    product = links.filter(has_text="net/matmul").last
    product.locator("button.why-operand").first.click()
    expect(sentence).not_to_contain_text("loss/mean")
    page.get_by_text("Back to the previous question").click()
    expect(sentence).to_contain_text("loss/mean is NaN")

    by(page, "tab-value").click()
    eventually(page, lambda: on_canvas(page, "3"), 0)
    page.locator(".numbers-cell").nth(3).click()
    expect(sentence).to_contain_text(re.compile(r"loss/log at \[1, 1\] is -?\d"))

    by(page, "back-to-live").click()
    by(page, "tab-problems").click()
    expect(by(page, "spread")).to_contain_text("First culprit: loss/log")
    by(page, "problem-why").last.click()
    expect(sentence).to_contain_text("loss/mean is NaN in step 1")  # The first NaN.
    by(page, "detach").click()
    program.expect("step 2")


def test_after_an_edit_the_edit_is_explained(start: Start, page: Page, tmp_path: Path) -> None:
    program = stopped_at_the_loss(start, page, tmp_path)
    page.keyboard.press("e")
    by(page, "edit-number").fill("7")
    by(page, "edit-apply").click()
    expect(by(page, "edited")).to_contain_text("loss/mean set to 7")
    page.keyboard.press("w")
    sentence = by(page, "why-sentence")
    expect(sentence).to_contain_text("loss/mean is 7 in step 2: changed by hand in step 2")
    expect(sentence).to_contain_text("it was NaN before")
    page.keyboard.press("e")  # The edit begins while the answer is shown.
    by(page, "edit-number").fill("8")
    by(page, "edit-apply").click()
    by(page, "tab-why").click()
    expect(sentence).to_contain_text("loss/mean is 8 in step 2")
    expect(sentence).to_contain_text("it was 7 before")
    by(page, "detach").click()
    program.expect("step 2")


@pytest.mark.deep
def test_another_number_is_tried_beside_the_recording(
    start: Start, page: Page, tmp_path: Path
) -> None:
    program = stopped_at_the_loss(start, page, tmp_path)
    row(page, "net/tanh").click()
    page.keyboard.press("e")
    expect(by(page, "edit-apply")).to_have_count(0)  # The program is not stopped there.
    by(page, "edit-number").fill("1")
    by(page, "edit-index").fill("7")
    by(page, "edit-what-if").click()
    expect(by(page, "condition-error")).to_contain_text("is out of range")
    by(page, "edit-index").fill("")
    by(page, "edit-what-if").click()

    branch, changes = by(page, "branch"), by(page, "branch-change")
    expect(branch).to_have_count(1)
    expect(branch).to_contain_text("net/tanh set to 1")
    expect(by(page, "branch-words")).to_contain_text("decisions based on them stay as recorded")
    expect(changes.first).to_contain_text(re.compile("net/tanh.*edited", re.S))
    expect(changes.last).to_contain_text(re.compile(r"loss/mean.*value.*NaN.*0\.62", re.S))
    eventually(page, lambda: on_canvas(page, "≠"), 6)
    changes.last.click()
    expect(by(page, "inspector-title")).to_contain_text("mean")
    value = by(page, "inspector-value")
    expect(value).to_contain_text(re.compile(r"What if: net/tanh set to 1.*0\.62", re.S))
    page.keyboard.press("w")
    sentence, note = by(page, "why-sentence"), by(page, "why-branch")
    expect(note).to_contain_text("What if: net/tanh set to 1")
    expect(sentence).to_contain_text(re.compile(r"0\.62.* of the branch and NaN as recorded"))
    expect(by(page, "why-link").last).to_contain_text(
        re.compile("net/tanh.*recorded: .*edit", re.S)
    )
    note.get_by_role("button").click()
    expect(sentence).not_to_contain_text("of the branch")
    note.get_by_role("button").click()
    by(page, "tab-value").click()
    page.get_by_text("Show as recorded").click()
    expect(value).to_contain_text(re.compile("As recorded.*NaN", re.S))
    page.get_by_text("Show the branch").click()
    by(page, "tab-inputs").click()
    expect(by(page, "inspector-inputs")).to_contain_text("≠")
    by(page, "tab-value").click()

    branch.get_by_test_id("branch-edit").click()
    by(page, "branch-rename").fill("all ones")
    page.keyboard.press("Enter")
    expect(branch).to_contain_text("all ones")
    row(page, "loss/square").click()
    page.keyboard.press("e")
    by(page, "edit-number").fill("2")
    by(page, "edit-what-if").click()  # Begins at the branch that is shown.
    expect(branch).to_have_count(2)
    expect(changes).to_have_count(2)
    expect(changes.last).to_contain_text(re.compile(r"loss/mean.*0\.62.*2", re.S))
    branch.first.get_by_test_id("branch-drop").click()
    expect(branch).to_have_count(0)
    by(page, "detach").click()
    program.expect("step 2")

"""What a stop can do, by hand on the page: breakpoints of every kind, values that are changed."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Debuggee
from tests.e2e.test_first_flow import by

Start = Callable[..., Debuggee]

PROGRAM = """
import numpy as np
import nodescope as ns

w = ns.parameter(np.array([1.0, 2.0, 3.0]), name="w")
for k in ns.steps(range(6)):
    with ns.name_scope("net"):
        h = np.tanh(w)
    with ns.name_scope("loss"):
        loss = np.sum(h * h)
    loss.backward()
    w.grad = None
    print("step", k, "loss", f"{loss.item():.3f}")
"""


def started(start: Start, page: Page, folder: Path, *options: str) -> Debuggee:
    script = folder / "small.py"
    script.write_text(PROGRAM)
    program = start("run", "--no-browser", *options, script)
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    return program


def test_breakpoints_of_every_kind(start: Start, page: Page, tmp_path: Path) -> None:
    program = started(start, page, tmp_path)
    by(page, "breakpoint-new").click()
    by(page, "breakpoint-form").get_by_label("Kind").select_option("source")
    by(page, "breakpoint-target").fill("small.py:8")
    by(page, "breakpoint-more").click()
    by(page, "breakpoint-steps").fill("7..3")
    by(page, "breakpoint-add").click()
    expect(by(page, "condition-error")).to_contain_text("not a range of steps")
    by(page, "breakpoint-steps").fill("2..")
    by(page, "breakpoint-hits").fill("< 3")
    by(page, "breakpoint-add").click()
    expect(by(page, "condition-error")).to_contain_text("is not a hit count")
    by(page, "breakpoint-hits").fill("% 2")
    by(page, "breakpoint-add").click()
    first = by(page, "breakpoint-row").first
    expect(first).to_contain_text(re.compile(r"source.*small\.py:8.*step 2\.\..*hits % 2", re.S))

    by(page, "breakpoint-new").click()
    by(page, "breakpoint-form").get_by_label("Kind").select_option("op")
    by(page, "breakpoint-target").fill("sum")
    by(page, "breakpoint-more").click()
    by(page, "breakpoint-log").fill("loss {value:.2f} at step {step}")
    by(page, "breakpoint-add").click()
    expect(by(page, "breakpoint-row")).to_have_count(2)

    by(page, "breakpoint-new").click()
    by(page, "breakpoint-target").fill("op:sum [stp 9..] if value < 0")
    by(page, "breakpoint-target").press("Enter")
    expect(by(page, "condition-error")).to_be_visible()
    by(page, "breakpoint-target").fill("op:sum [step 9.., once] if value < 0")
    by(page, "breakpoint-target").press("Enter")
    expect(by(page, "breakpoint-row")).to_have_count(3)
    third = by(page, "breakpoint-row").last
    expect(third).to_contain_text(re.compile(r"op.*sum.*step 9\.\..*once", re.S))
    third.get_by_test_id("breakpoint-edit").click()
    expect(by(page, "breakpoint-target")).to_have_value("sum")
    expect(by(page, "breakpoint-condition")).to_have_value("value < 0")
    by(page, "breakpoint-target").press("Escape")

    by(page, "continue").click()
    expect(by(page, "inspector-reason")).to_contain_text("small.py:8")
    expect(by(page, "state")).to_contain_text(re.compile("step 3", re.S))
    by(page, "tab-console").click()
    expect(by(page, "console")).to_contain_text(re.compile(r"loss \d\.\d\d at step 2"))

    first.get_by_test_id("breakpoint-edit").click()
    by(page, "breakpoint-hits").fill("")
    by(page, "breakpoint-once").check()
    by(page, "breakpoint-add").click()
    expect(first).not_to_contain_text("hits %")
    expect(first).to_contain_text("once")
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 4", re.S))
    expect(first).to_contain_text("done")
    by(page, "continue").click()
    program.expect("step 5 loss")


def test_a_value_is_changed_and_the_program_continues(
    start: Start, page: Page, tmp_path: Path
) -> None:
    program = started(start, page, tmp_path, "--break", "net/tanh")
    by(page, "continue").click()
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint net/tanh")
    expect(by(page, "value-edit")).to_be_visible()
    page.keyboard.press("e")
    expect(by(page, "edit-form")).to_be_visible()
    by(page, "edit-index").fill("9")
    by(page, "edit-number").fill("0")
    by(page, "edit-apply").click()
    expect(by(page, "condition-error")).to_contain_text("is out of range for shape (3,)")
    by(page, "edit-index").fill(":2")
    by(page, "edit-apply").click()
    expect(by(page, "edit-form")).to_have_count(0)
    expect(by(page, "edited")).to_contain_text("net/tanh[:2] set to 0")
    by(page, "tab-console").click()
    expect(by(page, "console")).to_contain_text("edited: net/tanh[:2] set to 0")
    by(page, "continue").click()
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))
    program.expect(r"step 0 loss 0\.990")

    by(page, "value-edit").click()
    by(page, "edit-how").select_option("npy")
    file = io.BytesIO()
    np.save(file, np.array([1.0, 1.0, 2.0]))
    by(page, "edit-file").set_input_files(
        {"name": "h.npy", "mimeType": "application/octet-stream", "buffer": file.getvalue()}
    )
    by(page, "edit-apply").click()
    expect(by(page, "edited")).to_contain_text("from a file")
    by(page, "step-twin").click()
    expect(by(page, "state")).to_contain_text("backward")
    by(page, "detach").click()
    program.expect(r"step 1 loss 6\.000")


@pytest.mark.deep
def test_back_and_forth_through_what_was_recorded(start: Start, page: Page, tmp_path: Path) -> None:
    program = started(start, page, tmp_path, "--level", "values", "--break", "loss/sum [step 4]")
    by(page, "continue").click()
    expect(by(page, "inspector-reason")).to_contain_text("Breakpoint loss/sum [step 4]")
    page.keyboard.press("b")
    expect(by(page, "inspector-title")).to_contain_text("multiply")
    page.keyboard.press("b")
    expect(by(page, "inspector-title")).to_contain_text("tanh")
    expect(by(page, "back-to-live")).to_be_enabled()
    page.keyboard.press("F11")
    expect(by(page, "inspector-title")).to_contain_text("multiply")
    page.keyboard.press("F5")  # Returns to where the program is stopped.
    expect(by(page, "back-to-live")).to_be_disabled()
    expect(by(page, "inspector-title")).to_contain_text("sum")
    by(page, "breakpoint-new").click()
    by(page, "breakpoint-target").fill("net/tanh")
    by(page, "breakpoint-condition").fill("step < 3")
    by(page, "breakpoint-add").click()
    expect(by(page, "breakpoint-row")).to_have_count(2)
    by(page, "reverse-continue").click()
    expect(by(page, "inspector-title")).to_contain_text("tanh")
    expect(by(page, "state")).to_contain_text("step 2")
    by(page, "back-to-live").click()
    by(page, "detach").click()
    program.expect("step 5 loss")
    # Stepping back works the same way after the program has ended.
    expect(by(page, "state")).to_contain_text("Finished")
    by(page, "step-back").click()
    expect(by(page, "back-to-live")).to_be_enabled()
    by(page, "step-node").click()


@pytest.mark.deep
def test_each_press_of_a_stepping_key_is_a_step(start: Start, page: Page, tmp_path: Path) -> None:
    script = tmp_path / "chain.py"
    script.write_text("import nodescope as ns\nx = ns.tensor([1.0])\n" + 30 * "x = x + 1.0\n")
    page.goto(start("run", "--no-browser", "--break", "add_1", script).address)
    expect(by(page, "state")).to_contain_text("Stopped")
    page.keyboard.press("F5")
    expect(by(page, "inspector-title")).to_have_text("add_1")
    for _ in range(8):
        page.keyboard.press("F11")
    expect(by(page, "inspector-title")).to_have_text("add_9")
    page.keyboard.press("F11")
    expect(by(page, "inspector-title")).to_have_text("add_10")

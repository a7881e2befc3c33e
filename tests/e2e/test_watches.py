"""Watches on the page: taken from the gallery, written, mended, hit, and asked of the recording."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.e2e.conftest import Debuggee
from tests.e2e.test_first_flow import by

Start = Callable[..., Debuggee]

PROGRAM = """
import numpy as np
import nodescope as ns

np.seterr(all="ignore")
w = ns.parameter(np.array([1.0, 2.0, 3.0]), name="w")
optimizer = ns.optim.SGD([w], lr=0.5)
for k in ns.steps(range(6)):
    optimizer.zero_grad()
    with ns.name_scope("net"):
        h = w - 0.6 * k
    with ns.name_scope("loss"):
        loss = np.sum(np.log(h))
    loss.backward()
    optimizer.step()
"""


def test_from_the_gallery_to_the_hit(start: Start, page: Page, tmp_path: Path) -> None:
    script = tmp_path / "small.py"
    script.write_text(PROGRAM)
    program = start("run", "--no-browser", script)
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    page.keyboard.press("F8")
    expect(by(page, "state")).to_contain_text(re.compile("Stopped.*step 2", re.S))

    # The gallery recommends watches, and points out the place of a mistake.
    page.keyboard.press("a")
    expect(by(page, "watches")).to_contain_text("No watches yet")
    by(page, "watch-add").click()
    gallery = by(page, "watch-gallery")
    expect(by(page, "watch-recommended").first).to_contain_text("operator_overflow")
    expect(gallery).to_contain_text("not those that receive it")
    gallery.get_by_label("Find a rule").fill("vanish gv")
    by(page, "watch-rule").click()
    expect(by(page, "watch-text")).to_have_value("gradient_vanishing(abs_mean_lt=9e-10)")
    by(page, "watch-text").fill("nan on opp:log")
    by(page, "watch-add").click()
    expect(by(page, "condition-error")).to_contain_text("did you mean 'op'")
    expect(by(page, "condition-error")).to_contain_text(re.compile(r"nan on opp:log\n {7}\^"))
    by(page, "watch-text").fill("nan on op:log -> log")
    by(page, "watch-add").click()
    rows = by(page, "watch-row")
    expect(rows).to_have_count(1)
    page.keyboard.press("w")  # Shortcuts work while the button that added the watch has the focus.
    expect(by(page, "why")).to_be_visible()
    by(page, "watch-edit").click()
    by(page, "watch-edit-text").fill("tensor_range -> stop")
    by(page, "watch-save").click()
    expect(by(page, "condition-error")).to_contain_text("tensor_range requires one of")
    by(page, "watch-edit-text").press("Escape")
    by(page, "watch-remove").click()
    expect(rows).to_have_count(0)
    gallery.get_by_label("Find a rule").fill("")
    by(page, "watch-take-all").click()
    expect(by(page, "watch-take-all")).to_contain_text("All added")
    expect(rows.first).to_contain_text("operator_overflow")

    # The program stops where the NaN is made, and the page says so.
    page.keyboard.press("F5")
    expect(by(page, "state")).to_contain_text("Stopped by a watch")
    expect(by(page, "inspector-reason")).to_contain_text("Stopped by a watch at log")
    expect(by(page, "inspector-reason")).to_contain_text("operator_overflow")
    row = rows.filter(has_text="operator_overflow")
    expect(row).to_have_class(re.compile("here"))
    expect(by(page, "watch-last").first).to_contain_text("loss/log in step")
    rows.first.get_by_role("checkbox").click(force=True)
    expect(rows.first).to_have_class(re.compile("off"))

    # The recording is checked, and a click on a hit goes there.
    by(page, "watch-text").fill("nan on scope:loss")
    by(page, "watch-ask").click()
    expect(by(page, "watch-answer")).to_contain_text(re.compile(r"\d hits?"))
    by(page, "watch-hit").first.click()
    expect(by(page, "inspector")).to_contain_text("loss/log")
    by(page, "watch-text").fill("dead_relu")
    by(page, "watch-ask").click()
    expect(by(page, "watch-answer")).to_contain_text("no value in the recording matches it")

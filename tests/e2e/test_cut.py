"""At 1280 px, nothing that tells something is cut: names, counts, options, lines of output."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Debuggee
from tests.e2e.test_first_flow import by
from tests.e2e.test_moments import go_to
from tests.e2e.waiting import eventually

Start = Callable[..., Debuggee]

PROGRAM = """
import numpy as np
import nodescope as ns

w = ns.parameter(np.ones((8, 4)), name="w")
for k in ns.steps(range(3)):
    with ns.name_scope("encoder"):
        padded = np.pad(ns.tensor(np.ones((3, 6)), name="batch"), ((1, 1), (1, 1)))
        hidden = padded @ w
        print("words of the program " * 5)
        if k == 1:
            hidden = hidden @ w
    np.sum(hidden)
"""

CUT = """
(selectors) => selectors.flatMap((selector) =>
  [...document.querySelectorAll(selector)]
    .filter((element) => element.scrollWidth > element.clientWidth + 1)
    .map((element) => `${selector}: ${element.textContent}`))
"""

WITHIN = """
([inner, outer]) => [...document.querySelectorAll(inner)].every((element) => {
  const frame = element.closest(outer).getBoundingClientRect();
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.right <= frame.right + 0.5 && box.left >= frame.left - 0.5;
})
"""

# Whether each group of the legend fits one line or begins a line.
GROUPS = """
() => {
  const legend = document.querySelector('[data-testid=legend]').getBoundingClientRect();
  return [...document.querySelectorAll('[data-testid=legend-group]')].map((group) => {
    const box = group.getBoundingClientRect();
    return box.height < 20 || box.left - legend.left < 14;
  });
}
"""


@pytest.mark.deep
def test_no_meaningful_text_is_cut(start: Start, page: Page, tmp_path: Path) -> None:
    path = tmp_path / "cut.py"
    path.write_text(PROGRAM)
    page.set_viewport_size({"width": 1280, "height": 800})
    program = start(
        "run", "--no-browser", "--level", "values",
        "--break", "encoder/matmul log step {step}: the value is {value}",
        "--break", "scope:nowhere", path,
    )  # fmt: skip
    page.goto(program.address)
    expect(by(page, "state")).to_contain_text("Stopped")
    page.keyboard.press("F5")
    expect(by(page, "state")).to_contain_text("Stopped by an error")

    # The name of the node that raised is whole, beside its mark.
    raised = page.locator('[data-testid=outline-row][data-name="encoder/matmul_1"]')
    expect(raised).to_contain_text("raised")
    eventually(page, CUT, [], [".tr-name"])
    # A log message ends with an ellipsis within its column; the note of a missing target is
    # whole.
    expect(by(page, "breakpoint-row")).to_have_count(2)
    eventually(page, WITHIN, True, [".bp-option, .bp-message", "td"])
    eventually(page, CUT, [], [".bp-message"])
    # The count fits however many operations there are.
    page.locator(".overview-count").evaluate("(element) => { element.textContent = '12,345 ops' }")
    eventually(page, CUT, [], [".overview-count"])
    eventually(page, GROUPS, lambda groups: len(groups) == 2 and all(groups))

    page.keyboard.press("o")
    lines = page.locator(".log.stdout .log-text")
    expect(lines.first).to_contain_text("words of the program")
    eventually(page, CUT, [], [".log-text"])
    assert "".join(lines.all_text_contents()).count("words of the program ") == 10

    go_to(page, "encoder/pad")
    expect(by(page, "inspector")).to_contain_text(re.compile(r"\(\(1, 1\), \(1, 1\)\)"))
    eventually(page, CUT, [], [".kv.wide2 dd"])

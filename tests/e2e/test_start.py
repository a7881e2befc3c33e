"""The first and the last minute: the list of runs, the summary of one, advice where nothing is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Debuggee
from tests.e2e.waiting import eventually

TRAIN = """
import sys
import numpy as np
import nodescope as ns
w = ns.parameter(np.ones((3, 2)) * 4, name="w")
for step in ns.steps(range(5)):
    with ns.name_scope("loss"), np.errstate(all="ignore"):
        loss = np.mean(np.log(w - float(sys.argv[1]) * step))
    loss.backward()
"""


def recorded(start: Callable[..., Debuggee], *args: str | Path) -> None:
    run = (
        "run",
        "--level",
        "values",
        "--port",
        "0",
        "--no-browser",
        "--no-stop-on-entry",
        "--exit",
    )
    assert start(*run, *args).wait() == 0


@pytest.mark.deep
def test_from_the_list_to_a_run_and_back(
    page: Page, start: Callable[..., Debuggee], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "plain.py").write_text("import numpy as np\nw = np.zeros(3)\nprint(w.sum())\n")
    recorded(start, "train.py", "0.5")
    recorded(start, "train.py", "2.0")
    recorded(start, "plain.py")
    page.goto(start("open", "--port", "0", "--no-browser").address)
    entries = page.get_by_test_id("start-entry")
    here = page.locator("[role=rowgroup]", has_text=str(tmp_path))
    expect(here.get_by_test_id("start-entry")).to_have_count(3)

    # The page asks for the list again and again; the focus stays on its row.
    page.keyboard.press("ArrowDown")
    for _ in range(2):
        expect(entries.first).to_be_focused()
        with page.expect_response("**/api/library"):
            pass
    expect(entries.first).to_be_focused()

    # A run is found by its arguments and opened by keyboard.
    search = page.get_by_test_id("start-search")
    search.fill("train 2.0")
    expect(entries).to_have_count(1)
    search.press("Enter")
    summary = page.get_by_test_id("summary")
    expect(page.get_by_test_id("summary-outcome")).to_have_text("Finished, Inf since step 3")
    expect(summary).to_contain_text("train.py 2.0")
    expect(page.get_by_test_id("summary-curve")).to_contain_text("3 of 5 not finite")
    page.get_by_test_id("summary-trouble").first.click()
    expect(page.get_by_test_id("inspector-title")).to_have_text("log")
    page.get_by_test_id("summary-open").click()
    expect(summary).to_be_visible()

    # Back to the list; a run that shows nothing has advice.
    page.get_by_test_id("all-runs").click()
    search.fill("plain")
    expect(entries).to_have_count(1)
    search.press("Enter")
    advice = page.get_by_test_id("advice")
    expect(advice).to_contain_text("plain NumPy")
    expect(advice.locator("ins").nth(1)).to_contain_text("ns.tensor(np.zeros(3)")

    # A recording is deleted only after confirmation.
    page.get_by_test_id("all-runs").click()
    search.fill("0.5")
    expect(entries).to_have_count(1)
    search.press("ArrowDown")
    expect(entries.first).to_be_focused()
    page.keyboard.press("Space")
    page.get_by_test_id("start-delete").click()
    page.keyboard.press("Escape")
    expect(entries).to_have_count(1)
    page.keyboard.press("Delete")
    page.get_by_test_id("start-delete-confirm").click()
    expect(entries).to_have_count(0)
    kept = tmp_path / ".nodescope" / "runs"
    eventually(page, lambda: len(list(kept.glob("train-*.nscope"))), 1)


def test_a_run_that_ends_is_summed_up(
    page: Page, start: Callable[..., Debuggee], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(TRAIN + "raise ValueError('the data is empty')\n")
    page.goto(start("run", "--port", "0", "--no-browser", "train.py", "0.1").address)
    expect(page.get_by_test_id("state")).to_contain_text(re.compile("Stopped"))
    page.get_by_test_id("detach").click()
    expect(page.get_by_test_id("summary-outcome")).to_have_text("Failed")
    expect(page.get_by_test_id("summary")).to_contain_text("ValueError: the data is empty")
    expect(page.get_by_test_id("summary")).to_contain_text("train.py:10")

"""The page offers what the adapter of a node's library can do, and says calmly what it cannot."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import ROOT, Debuggee
from tests.e2e.test_first_flow import by

Start = Callable[..., Debuggee]

# Record in a process of its own, as a library does.
RECORD = """
import sys
from pathlib import Path
from nodescope.adapters import attached
from nodescope.ir.capabilities import Capabilities
from tests.adapters import cases
from tests.adapters.driving import recorded
from tests.adapters.foreign.adapter import DistantAdapter

shown = {case.dialect: case for case in cases.CASES if case.dialect in sys.argv[2:]}
attached._OWN = tuple(case.adapter for case in shown.values())
DistantAdapter.capabilities = lambda self: Capabilities(scopes="names", steps="optimizer",
                                                        values="full")
recorded(Path(sys.argv[1]), lambda: [case.train() for case in shown.values()], level="values")
"""
WITHHELD = (
    "Not available for distant: gradients; editing values; stops before a node; times; "
    "What if, since its operations cannot be run again."
)


@pytest.fixture
def opened(start: Start, page: Page, tmp_path: Path) -> Callable[..., None]:
    """Opens a recording of programs of these dialects."""

    def open_page(*dialects: str) -> None:
        path = tmp_path / "run.nscope"
        command = [sys.executable, "-c", RECORD, str(path), *dialects]
        subprocess.run(command, cwd=ROOT, check=True, timeout=120)
        page.goto(start("open", "--port", "0", "--no-browser", path).address)
        expect(by(page, "state")).to_contain_text("Recording")

    return open_page


def look_at(page: Page, name: str) -> None:
    search = page.get_by_placeholder("name or op:matmul")
    search.fill(name)  # The search shows the row even if its scope is collapsed.
    page.locator(f'[data-testid="outline-row"][data-name$="{name}"]').first.click()
    search.fill("")
    expect(by(page, "inspector-title")).to_have_text(name)


@pytest.mark.deep
def test_a_library_that_can_do_little_has_no_dead_buttons(
    page: Page, opened: Callable[..., None]
) -> None:
    opened("distant")
    look_at(page, "frobnicate")
    expect(by(page, "withheld")).to_have_text(WITHHELD)
    tabs = page.get_by_role("tablist", name="Inspector").get_by_role("tab")
    expect(tabs).to_have_text(["Value", "Inputs", "Steps", "Diff", "Why"])
    expect(by(page, "value-edit")).to_have_count(0)
    expect(page.get_by_role("tab", name="What if")).to_have_count(0)
    expect(page.get_by_role("radio", name="Time")).to_have_count(0)
    # The page shows no times if the library reports none.
    rows = page.locator('[data-testid="outline-row"]')
    expect(rows.filter(has_text=re.compile(r"\d\s?(ns|µs|ms)"))).to_have_count(0)
    durations = "[...window.__nodescope.store.live.durationNs].filter((ns) => ns > 0).length"
    assert page.evaluate(durations) == 0
    page.keyboard.press("e")  # The key does nothing either.
    expect(by(page, "edit-form")).to_have_count(0)
    by(page, "breakpoint-new").click()
    expect(by(page, "breakpoint-target")).to_be_visible()
    expect(page.get_by_role("combobox", name="When")).to_have_count(0)


@pytest.mark.deep
def test_each_node_offers_what_its_own_library_can_do(
    page: Page, opened: Callable[..., None]
) -> None:
    opened("nodescope", "distant")
    expect(page.get_by_role("tab", name=re.compile("What if"))).to_be_visible()
    look_at(page, "frobnicate")
    expect(by(page, "withheld")).to_have_text(WITHHELD)
    expect(by(page, "value-edit")).to_have_count(0)
    look_at(page, "matmul")
    gradient = page.get_by_role("tab", name="Gradient")
    expect(gradient).to_be_visible()
    expect(by(page, "value-edit")).to_be_visible()
    expect(by(page, "withheld")).to_have_count(0)

    # The inspector falls back to the Value tab if the other node lacks the current tab.
    gradient.click()
    look_at(page, "frobnicate")
    expect(page.get_by_role("tab", name="Value")).to_have_attribute("aria-selected", "true")

"""The graph coloured by numbers: the legend says what they are, and so does an exported picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Debuggee
from tests.e2e.first_pictures import read
from tests.e2e.graphs import mlp, unet
from tests.e2e.test_first_flow import by
from tests.e2e.test_moments import go_to
from tests.e2e.waiting import eventually

Start = Callable[..., Debuggee]

SCALE = """
() => {
  const svg = window.__nodescope.view.toSvg('whole', { title: '', fonts: '' });
  const texts = new DOMParser().parseFromString(svg, 'image/svg+xml').querySelectorAll('text');
  return [...texts].map((text) => text.textContent);
}
"""
TITLES = {
    "Self time": "Time without what runs inside",
    "FLOP": "Floating-point operations",
    "Roofline": "Share of the roofline",
}


@pytest.mark.deep
def test_each_overlay_has_a_title(start: Start, page: Page, tmp_path: Path) -> None:
    page.goto(start("open", "--port", "0", "--no-browser", mlp(tmp_path)).address)
    read(page)
    go_to(page, "hidden_1/matmul")
    legend = by(page, "legend")
    for name, title in TITLES.items():
        page.get_by_role("radio", name=name).click()
        expect(legend).to_contain_text(title)
        expect(by(page, "legend-numbers")).to_be_visible()
        eventually(page, SCALE, lambda texts, title=title: title in texts)
    page.get_by_role("radio", name="FLOP").click()
    # A product of (4, 32) and (32, 64): 2 * 4 * 64 * 32 FLOP.
    expect(by(page, "legend-selected")).to_contain_text("16.4\u202fkFLOP")
    page.get_by_role("radio", name="Roofline").click()
    expect(legend).to_contain_text("FLOP per byte, bound by")


@pytest.mark.deep
def test_a_graph_that_was_not_run_has_no_times(start: Start, page: Page, tmp_path: Path) -> None:
    page.goto(start("open", "--port", "0", "--no-browser", unet(tmp_path)).address)
    read(page)
    expect(page.get_by_role("radio", name="FLOP")).to_have_count(1)
    for name in ("Time", "Self time", "Roofline"):
        expect(page.get_by_role("radio", name=name, exact=True)).to_have_count(0)

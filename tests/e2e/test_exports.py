"""What the page saves is a file of the format that its menu promised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import nodescope as ns
from nodescope.export import export
from nodescope_server.http.exports import FORMATS
from tests import depth
from tests.conformance.exported import PAINTED, READERS
from tests.e2e.conftest import Debuggee
from tests.e2e.test_first_flow import by
from tests.e2e.waiting import settled


def test_each_export_is_the_file_that_the_menu_names(
    page: Page, start: Callable[..., Debuggee], tmp_path: Path
) -> None:
    with ns.record(tmp_path / "run.nscope"), ns.name_scope("net"):
        ns.matmul(ns.parameter(np.ones((2, 3)), name="w"), np.ones((3, 1)))
    page.goto(start("open", "--no-browser", "--port", "0", "run.nscope").address)
    settled(page)
    # By keyboard alone: the menu takes the focus, and returns it.
    by(page, "export").focus()
    page.keyboard.press("Enter")
    expect(by(page, "export-svg")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(by(page, "export-csv")).to_be_focused()
    page.keyboard.press("Escape")
    expect(by(page, "export-menu")).to_have_count(0)
    expect(by(page, "export")).to_be_focused()
    formats = list(FORMATS) if depth.is_deep() else ["svg", "dot", "csv"]
    for name in formats:
        by(page, "export").click()
        with page.expect_download(timeout=90_000) as download:
            by(page, f"export-{name}").click()
        assert download.value.suggested_filename.endswith(FORMATS[name][0])
        content = Path(download.value.path()).read_bytes()
        if name in PAINTED:
            assert content.startswith(PAINTED[name])
        else:
            assert any("matmul" in text for text in READERS[name](content)), name


SHOWN = """
() => [...document.querySelectorAll('svg text')]
  .filter((text) => text.getBoundingClientRect().width > 0)
  .map((text) => text.textContent)
"""


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_a_browser_shows_the_file_alone(page: Page, tmp_path: Path, suffix: str) -> None:
    faults: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    with ns.record(tmp_path / "run.nscope"), ns.name_scope("net"):
        ns.matmul(ns.parameter(np.ones((2, 3)), name="w"), np.ones((3, 1)))
    out = export(tmp_path / "run.nscope", tmp_path / f"graph.{suffix}", expand="all")
    page.goto(out.as_uri())
    assert {"net", "matmul"} <= {text.strip() for text in page.evaluate(SHOWN)}
    assert faults == []
    # The file contains its fonts.
    assert [url for url in asked if not url.startswith("data:")] == [out.as_uri()]

"""Accessibility faults of a page, as axe-core reports them: names, roles, contrast (AA)."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Any, Final

from playwright.sync_api import Page

from tests.e2e.conftest import ROOT

_SCRIPT: Final = ROOT / "web" / "tools" / "node_modules" / "axe-core" / "axe.min.js"
_TAGS: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SERIOUS: Final = ("serious", "critical")

_RUN = """
(tags) => axe.run(document, { runOnly: tags, resultTypes: ['violations'] }).then(({ violations }) =>
  violations.map(({ id, impact, help, nodes }) => ({
    id, impact, help,
    nodes: nodes.slice(0, 6).map(({ html, any }) => [html.slice(0, 160), any[0]?.message ?? '']),
  })))
"""


@cache
def _source() -> str:
    """The source of axe-core, installed by the lock file of web/tools."""
    if not _SCRIPT.exists():
        subprocess.run([sys.executable, str(ROOT / "web" / "build.py"), "tools"], check=True)
    return _SCRIPT.read_text()


def faults(page: Page, impacts: tuple[str, ...] = SERIOUS) -> list[dict[str, Any]]:
    """axe-core's findings on the page in its present state."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(_source() + "; undefined")
    violations: list[dict[str, Any]] = page.evaluate(_RUN, _TAGS)
    return [fault for fault in violations if fault["impact"] in impacts]

"""Fixtures of tests of recordings."""

from __future__ import annotations

import pytest

from nodescope.record import queue_writer
from nodescope.record.new_file import PAGE_BYTES


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have recordings at every level use small pages, so that each table takes several pages."""
    for name in ("MEDIUM_PAGE_BYTES", "LARGE_PAGE_BYTES"):
        monkeypatch.setattr(queue_writer, name, PAGE_BYTES)

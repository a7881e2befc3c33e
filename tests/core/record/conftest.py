"""What tests of recordings share."""

from __future__ import annotations

import pytest

from nodescope.record import queue_writer
from nodescope.record.new_file import PAGE_BYTES


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings at every level have small pages, so that each table takes several."""
    monkeypatch.setattr(queue_writer, "LARGE_PAGE_BYTES", PAGE_BYTES)

"""Fixtures of tests of files."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _of_small_pages(small_pages: None) -> None:
    """Files that are cut or damaged have small pages."""

"""Fixtures: a page and programs, as in the tests of the page."""

from tests.e2e.conftest import browser, page, start, window

__all__ = ["browser", "page", "start", "window"]

"""Fixtures: a page and programs, as in the tests of the page."""

import torch

from tests.e2e.conftest import browser, page, start, window

__all__ = ["browser", "page", "start", "window"]

# Tests that need a GPU; `test_device_*` run the same code with a simulated GPU.
collect_ignore = [] if torch.cuda.is_available() else ["test_cuda.py"]

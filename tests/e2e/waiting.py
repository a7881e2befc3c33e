"""Waits for states of the page, since the server's answers and frames may come late.

Reading the page just after a key or click may give the state before it. `expect` waits for what an
element shows, `eventually` for everything else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Error, Page

TIMEOUT_S = 30.0
_PAUSE_MS = 40

_CALM = """(path) => path.reduce((at, name) => at?.[name], window.__nodescope)?.settled()"""

Read = str | Callable[[], Any]


def eventually(
    page: Page, read: Read, expected: Any, arg: Any = None, *, timeout_s: float = TIMEOUT_S
) -> Any:
    """Read until the result is as expected, and return it.

    ``read`` is a JavaScript expression or a function; ``expected`` is the value, or a function that
    tells whether a value is the expected one. A script error, such as of a missing element, counts
    as another value.

    Raises `AssertionError` with the value read last.
    """
    deadline = time.monotonic() + timeout_s
    holds = expected if callable(expected) else lambda value: value == expected
    while True:
        try:
            value = page.evaluate(read, arg) if isinstance(read, str) else read()
        except Error as error:
            value = error
        else:
            if holds(value):
                return value
        if time.monotonic() > deadline:
            wanted = "as expected" if callable(expected) else repr(expected)
            raise AssertionError(f"{read} is {value!r}, not {wanted}, for {timeout_s} s")
        page.wait_for_timeout(_PAUSE_MS)


def settled(page: Page, view: str = "view") -> None:
    """Wait until no layout is running on a canvas, in this frame and the next.

    The canvas is ``view``, or one of the two of a comparison: ``sides.eager``, ``sides.compiled``.
    """
    page.wait_for_function(_CALM, arg=view.split("."), polling="raf", timeout=TIMEOUT_S * 1000)
    page.wait_for_function(_CALM, arg=view.split("."), polling="raf", timeout=TIMEOUT_S * 1000)

"""Ending: how long the end of a program waits for its recording.

Invariant: a disk that does nothing is waited for no longer than ``still_s``, a slow one no longer
than ``most_s``; who waits can interrupt it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

STILL_S: Final = 2.0
MOST_S: Final = 20.0
LEAVING_S: Final = 0.5
"""For the writer to end when the rest has been dropped."""


def wait_for(
    thread: threading.Thread,
    written: Callable[[], int],
    slow: Callable[[], None],
    *,
    still_s: float = STILL_S,
    most_s: float = MOST_S,
) -> bool:
    """Wait for a writer to end, as long as it gets on.

    Args:
        thread: The writer.
        written: How much it has written; what matters is that it grows.
        slow: Called once if it takes longer than ``still_s``, and goes on.
        still_s: For how long nothing may be written.
        most_s: For how long to wait in all.

    Returns:
        Whether it has ended.
    """
    end = time.monotonic() + most_s
    told = False
    while True:
        before = written()
        left = min(still_s, end - time.monotonic())
        if left > 0:
            thread.join(left)
        if not thread.is_alive():
            return True
        if left <= 0 or written() == before:
            return False
        if not told:
            told = True
            slow()

"""Polling lock: a reentrant lock that no thread gets while another one runs Python.

A thread that waits for an ordinary lock owns it, once it is released, before it may run: it still
needs the interpreter's lock. If the other threads soon want the lock again, they wait in turn, and
from then on each use of the lock takes a switch between threads (a lock convoy: Blasgen et al.,
"The Convoy Phenomenon", 1979). Threads that compute without pause, such as those that run nodes,
never leave that state.

Invariant: a thread has the lock only from a moment at which it runs.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final

_PAUSE_S: Final = 5e-5

_RLock: Any = type(threading.RLock())


class PollingLock(_RLock):  # type: ignore[misc]
    """A lock that is taken with ``with``."""

    __slots__ = ()

    def __enter__(self) -> bool:
        while not self.acquire(False):
            time.sleep(_PAUSE_S)
        return True

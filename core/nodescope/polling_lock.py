"""Polling lock: a reentrant lock that no thread gets while another one runs Python.

A thread that waits for an ordinary lock owns it, once it is released, before it may run: it still
needs the interpreter's lock. If the other threads soon want the lock again, they wait in turn, and
from then on each use of the lock takes a switch between threads (a lock convoy: Blasgen et al.,
"The Convoy Phenomenon", 1979). Threads that compute without pause, such as those that run nodes,
never leave that state.

Invariant: without the native core, the lock is an ordinary one. In Python, an exception of a signal
handler could leave it held, between taking it and the body of the ``with`` statement.
"""

from __future__ import annotations

import threading
from typing import Any

from nodescope import native


def polling_lock() -> Any:
    """A new lock, to be taken with ``with``."""
    return threading.RLock() if native.PollingLock is None else native.PollingLock()

"""OpenHold: a thread that the debugger holds now, whose held time is told in parts.

What is recorded during a stop, such as an edit, moves the end of the recording; the time held until
then has to be known with it, or it would count as the program's own.

Invariant: the parts adjoin, from the beginning of the hold to `tell` at its end.
"""

from __future__ import annotations

import threading

from nodescope.events import Bus, HostSpan


class OpenHold:
    """One hold, which begins now.

    Args:
        bus: Where held time is emitted and summed.
        thread, step: Of the held thread.
    """

    def __init__(self, bus: Bus, thread: int, step: int) -> None:
        self._bus = bus
        self._thread, self._step = thread, step
        self._told_ns = bus.now_ns()
        self._lock = threading.Lock()

    def tell(self, at_least_ns: int = 0) -> None:
        """Emit the time held since the last call, if it is ``at_least_ns``."""
        with self._lock:
            began, ended = self._told_ns, self._bus.now_ns()
            if ended - began < at_least_ns:
                return
            self._told_ns = ended
            self._bus.held_ns += ended - began
        if self._thread >= 0:  # else of another process, which is on no thread here
            self._bus.emit(HostSpan("held", self._thread, self._step, began, ended))

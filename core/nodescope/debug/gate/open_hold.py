"""OpenHold: a thread that the debugger is holding now; its held time is emitted in parts.

An event recorded during a stop, such as an edit, moves the end of the recording. The time held up
to that event must be emitted with it, or it would count as the program's own time.

Invariant: the parts are contiguous, from the beginning of the hold to the last `tell`.
"""

from __future__ import annotations

import threading

from nodescope.events import Bus, HostSpan


class OpenHold:
    """One hold, which begins at construction.

    Args:
        bus: The bus that receives the held time and sums it in ``held_ns``.
        thread, step: The held thread, and its training step.
    """

    def __init__(self, bus: Bus, thread: int, step: int) -> None:
        self._bus = bus
        self._thread, self._step = thread, step
        self._told_ns = bus.now_ns()
        self._lock = threading.Lock()

    def tell(self, at_least_ns: int = 0) -> None:
        """Emit the time held since the last call, if it is at least ``at_least_ns``."""
        with self._lock:
            began, ended = self._told_ns, self._bus.now_ns()
            if ended - began < at_least_ns:
                return
            self._told_ns = ended
            self._bus.held_ns += ended - began
        if self._thread >= 0:  # negative: a node of another process, which has no thread here
            self._bus.emit(HostSpan("held", self._thread, self._step, began, ended))

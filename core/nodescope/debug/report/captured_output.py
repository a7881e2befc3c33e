"""Captured output: the beginning and the end of the program's console output.

Invariant: omitted lines are counted and reported where they are missing; a line costs no more than
a few hundred nanoseconds once the beginning is full.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from nodescope.events import Event, Level, Logged

HEAD_BYTES: Final = 16 << 20
TAIL_LINES: Final = 1000
# Size of a line in the recording besides its text.
_LINE_BYTES: Final = 64


class CapturedOutput:
    """Passes on a program's lines, up to a limit.

    Args:
        emit: Receives each kept line, and a message in place of the others.
        head_bytes: The number of bytes passed on at once.
        tail_lines: The number of last lines after that, kept until `finish`.
    """

    def __init__(
        self,
        emit: Callable[[Logged], None],
        *,
        head_bytes: int = HEAD_BYTES,
        tail_lines: int = TAIL_LINES,
    ) -> None:
        self._emit = emit
        self._head_bytes = self._left = head_bytes
        self._tail: deque[Logged] = deque(maxlen=tail_lines)
        self._later = 0
        self._lock = threading.RLock()  # a signal handler may write in the middle of a write

    def take(self, line: Logged) -> None:
        """Take a line: pass it on, or keep it among the last ones."""
        with self._lock:
            if self._left > 0:
                self._left -= len(line.text) + _LINE_BYTES
                is_last = self._left <= 0
            else:
                self._later += 1
                self._tail.append(line)
                return
        self._emit(line)
        if is_last:
            message = (
                f"the program has written {self._head_bytes >> 20} MiB: of what it writes from "
                f"here on, the last {self._tail.maxlen:,} lines are recorded when it ends"
            )
            self._emit(Logged("nodescope", message, line.step, line.time_ns))

    def finish(self) -> None:
        """End of the program: pass on the last lines, and the number of those missing."""
        with self._lock:
            tail, missing = tuple(self._tail), self._later - len(self._tail)
            self._tail.clear()
            self._later = 0
        if missing:
            message = f"{missing:,} lines of the program's output were not recorded"
            self._emit(Logged("nodescope", message, tail[0].step, tail[0].time_ns))
        for line in tail:
            self._emit(line)


class SpokenMessages:
    """A probe that prints messages that nodescope logs on the program's behalf.

    Args:
        say: Prints each message.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def block_level(self) -> Level:
        """See `Bus.block_level`: executions do not matter here."""
        return "graph"

    def emit(self, event: Event) -> None:
        """Print a message of nodescope; other events are ignored."""
        if type(event) is Logged and event.stream == "nodescope":
            self._say(event.text)

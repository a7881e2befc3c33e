"""What a program writes, of which the beginning and the end are kept.

Invariant: what is left out is counted, and said where it is missing; taking a line costs no more
than a few hundred nanoseconds once the beginning is full.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from nodescope.events import Logged

HEAD_BYTES: Final = 16 << 20
TAIL_LINES: Final = 1000
# What a line takes in the recording besides its text.
_LINE_BYTES: Final = 64


class Written:
    """Hands on the lines of a program, as far as they are kept.

    Args:
        emit: Takes each line that is kept, and what is said in the place of others.
        head_bytes: So much is handed on at once.
        tail_lines: After that so many lines are kept until `finish`, the last ones.
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
        """Keep a line, for now or for good."""
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
            said = (
                f"the program has written {self._head_bytes >> 20} MiB: of what it writes from "
                f"here on, the last {self._tail.maxlen:,} lines are recorded when it ends"
            )
            self._emit(Logged("nodescope", said, line.step, line.time_ns))

    def finish(self) -> None:
        """The program has ended: hand on the last lines, and say how many are missing."""
        with self._lock:
            tail, missing = tuple(self._tail), self._later - len(self._tail)
            self._tail.clear()
            self._later = 0
        if missing:
            said = f"{missing:,} lines that the program wrote are not recorded"
            self._emit(Logged("nodescope", said, tail[0].step, tail[0].time_ns))
        for line in tail:
            self._emit(line)

"""What a thread is doing: its scope, its phase, and whether it records a tape.

Invariant: each thread has its own; nothing here is shared.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from nodescope.ir.graph import Phase, SourceLocation
from nodescope.ir.identity import Cursor


class State:
    """The state of one thread.

    Attributes:
        scope: Path of the name scopes around the running code.
        phase: What part of training it is.
        cursor: The tracer's count for this scope and phase, or None if it has to be looked up.
        cursors: All counts of this thread.
        recording: Whether operations are put on the tape.
        forward: While a backward rule runs, the id of the node that it differentiates.
        thread: The thread's identifier.
        builder: What records operations instead of running them, or None.
        transforms: How many functions around are being differentiated from outside.
        noted: Told of each tensor that is about to be assigned or written to, or None.
        ran: Begin and end of the kernel that has just run, where it has read the clock itself
            (nanoseconds of `time.perf_counter_ns`); else None.
        source: The line that made the node which a graph runs now, or None to look for it.
    """

    __slots__ = (
        "builder", "cursor", "cursors", "forward", "noted", "phase", "ran", "recording", "scope",
        "source", "thread", "transforms",
    )  # fmt: skip

    def __init__(self) -> None:
        self.scope = ""
        self.phase: Phase = "forward"
        self.cursor: Cursor | None = None
        self.cursors: dict[tuple[str, Phase], Cursor] = {}
        self.recording = True
        self.forward: int | None = None
        self.thread = threading.get_ident()
        self.builder: Any = None
        self.transforms = 0
        self.noted: Callable[[Any], None] | None = None
        self.source: SourceLocation | None = None
        self.ran: tuple[int, int] | None = None


class _Local(threading.local):
    state: State


local = _Local()
"""Where states are kept; `local.state` is missing until `current` made it."""


def current() -> State:
    """The calling thread's state."""
    try:
        return local.state
    except AttributeError:
        local.state = State()
        return local.state

"""What a thread of the engine is doing: where it is, and whether it records a tape.

Invariant: each thread has its own; nothing here is shared.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from nodescope.emit import state as places
from nodescope.emit.state import ThreadState


class State(ThreadState):
    """The state of one thread: its place, and what the engine does there.

    Attributes:
        recording: Whether operations are put on the tape.
        transforms: How many functions around are being differentiated from outside.
        noted: Told of each tensor that is about to be assigned or written to, or None.
        ran: Begin and end of the kernel that has just run, where it has read the clock itself
            (nanoseconds of `time.perf_counter_ns`); else None.
    """

    __slots__ = ("noted", "ran", "recording", "transforms")

    def __init__(self) -> None:
        super().__init__()
        self.recording = True
        self.transforms = 0
        self.noted: Callable[[Any], None] | None = None
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
        new_state = State()
        before: ThreadState | None = getattr(places.local, "place", None)
        if before is not None:  # it was somewhere before it first used the engine
            for name in ThreadState.__slots__:
                setattr(new_state, name, getattr(before, name))
        local.state = places.local.place = new_state
        return new_state

"""State of the engine's threads: where a thread is, and whether it records a tape.

Invariant: each thread has its own; nothing here is shared.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from nodescope.emit import state as places
from nodescope.emit.state import ThreadState


class State(ThreadState):
    """The state of one thread: its place, and the engine's settings there.

    Attributes:
        recording: Whether operations are put on the tape.
        transforms: The number of enclosing functions that `grad`, `vjp` and the like differentiate.
        noted: Called with each tensor that is about to be assigned or written to, or None.
        ran: Start and end of the kernel that has just run, if the kernel read the clock itself
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
"""Thread-local storage of states; `local.state` is missing until `current` creates it."""


def current() -> State:
    """The calling thread's state."""
    try:
        return local.state
    except AttributeError:
        new_state = State()
        before: ThreadState | None = getattr(places.local, "place", None)
        if before is not None:  # it had a place before it first used the engine
            for name in ThreadState.__slots__:
                setattr(new_state, name, getattr(before, name))
        local.state = places.local.place = new_state
        return new_state

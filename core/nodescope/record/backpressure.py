"""Backpressure: the program waits for the writer, so that a full queue drops nothing.

Invariant: a probe before the recorder, used only by `check`. It never waits for a full disk.
"""

from __future__ import annotations

from typing import Final

from numpy import ndarray

from nodescope.events import Event, NodeFinished
from nodescope.record.captures import known_bytes
from nodescope.record.queue_writer import MIB
from nodescope.record.recorder import Recorder

QUEUE_BYTES: Final = 1024 * MIB
"""The queue size for a program that waits: even an array above the waiting limit fits."""
_MOST_BYTES: Final = 48 * MIB


class Backpressure:
    """Blocks the program while more than 48 MiB wait to be written.

    Args:
        recorder: The recorder, which follows this probe on the bus.
    """

    def __init__(self, recorder: Recorder, most_bytes: int = _MOST_BYTES) -> None:
        self._recorder = recorder
        self._most = most_bytes

    def emit(self, event: Event) -> None:
        """Take one event: wait until the queue has room for it."""
        queued = self._recorder.queued
        if event.__class__ is NodeFinished:
            arrays = event.outputs
            if len(arrays) == 1 and arrays[0].__class__ is ndarray:
                nbytes = arrays[0].nbytes
            else:
                nbytes = known_bytes(arrays) or 0
            if queued + nbytes > self._most:
                self._recorder.writer.wait_for_room(nbytes, self._most)
        elif queued > self._most:
            self._recorder.writer.wait_for_room(0, self._most)

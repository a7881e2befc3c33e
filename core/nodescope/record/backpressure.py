"""Backpressure: the program waits for the writer, so that nothing is dropped for want of memory.

Invariant: a probe before the recorder, for checks only. It never waits for a disk that is full.
"""

from __future__ import annotations

from typing import Final

from numpy import ndarray

from nodescope.events import Event, NodeFinished
from nodescope.record.captures import known_bytes
from nodescope.record.queue_writer import MIB, QueueWriter

QUEUE_BYTES: Final = 1024 * MIB
"""The queue of a recorder whose program waits: one array larger than what may wait finds room."""
_MOST_BYTES: Final = 48 * MIB


class Backpressure:
    """Holds the program back while more than 48 MiB wait to be written.

    Args:
        writer: The recorder that comes after it on the bus.
    """

    def __init__(self, writer: QueueWriter, most_bytes: int = _MOST_BYTES) -> None:
        self._writer = writer
        self._most = most_bytes

    def emit(self, event: Event) -> None:
        """Take one event: wait until there is room for it."""
        queued = self._writer.queued
        if event.__class__ is NodeFinished:
            arrays = event.outputs
            if len(arrays) == 1 and arrays[0].__class__ is ndarray:
                nbytes = arrays[0].nbytes
            else:
                nbytes = known_bytes(arrays) or 0
            if queued + nbytes > self._most:
                self._writer.wait_for_room(nbytes, self._most)
        elif queued > self._most:
            self._writer.wait_for_room(0, self._most)

"""Captures: contents of other libraries' arrays, set aside on their way from the program to the
file.

Invariant: captures are resolved on the recorder's thread only, into memory that nothing else uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from nodescope.arrays import Captured, ops_of
from nodescope.arrays.lazy import HeldArray, LazyArray
from nodescope.events import Level, NodeFinished
from nodescope.record.summary import TensorSummary, summarise


class SharedCapture:
    """A capture with two users: resolved for the first, kept for the second.

    Attributes:
        nbytes: As in `Captured`.
    """

    def __init__(self, content: Any) -> None:
        self._content = content
        self._resolved = False
        self.nbytes: int = content.nbytes

    def resolve(self) -> Any:
        """As in `Captured`."""
        if not self._resolved:
            self._content = resolved(self._content)
            self._resolved = True
        return self._content


def capture(
    event: NodeFinished, level: Level, room: int, *, shared: bool = False
) -> tuple[list[tuple[int, Any]], int, int]:
    """Capture the outputs of an execution, on the program's thread.

    Args:
        event: The finished execution.
        level: The capture level.
        room: Bytes of available memory.
        shared: Whether the captures have two users, see `SharedCapture`.

    Returns:
        The captures by value, the number of outputs that could not be captured, and the number of
        outputs with room only for their statistics.
    """
    captured: list[tuple[int, Any]] = []
    lost = reduced = 0
    for value, array in zip(event.node.outputs, event.outputs, strict=False):
        try:
            ops = ops_of(array)
            if ops.nbytes(array) > room:
                content = _statistics(ops.capture(array, "summary"), room)
                if content is None:
                    lost += 1
                else:
                    captured.append((value, content))
                    reduced += level == "values"
                continue
            content = ops.capture(array, level)
        except Exception:  # raised by the library; the program continues
            lost += 1
            continue
        if content is not None:
            captured.append((value, SharedCapture(content) if shared else content))
            room -= content.nbytes
    return captured, lost, reduced


class Statistics:
    """Statistics in place of a copy.

    Attributes:
        nbytes: As in `Captured`.
    """

    nbytes = 512

    def __init__(self, summary: TensorSummary) -> None:
        self._summary = summary

    def resolve(self) -> TensorSummary:
        """The statistics."""
        return self._summary


def _statistics(content: Any, room: int) -> Any:
    """A capture at level ``summary``, without a copy of the elements; None if it needs more room.

    Elements that were already copied are summarised immediately, because the queue is full.
    """
    if isinstance(content, np.ndarray):
        return Statistics(summarise(content))
    return (
        content if content is not None and content.nbytes <= max(room, Statistics.nbytes) else None
    )


def resolved(content: Any) -> Any:
    """The elements of a capture, or their statistics, in memory of their own.

    Raises:
        Exception: The library could not provide them.
    """
    if isinstance(content, Captured):
        content = content.resolve()
    # The recorder reuses memory, so its input must not be a view.
    if isinstance(content, np.ndarray) and content.base is not None:
        return content.copy()
    return content


def summary_of(array: HeldArray) -> TensorSummary:
    """Statistics of an array that the program holds, computed where its elements are if possible.

    Raises:
        ArrayError: The statistics could not be computed.
    """
    if not isinstance(array, LazyArray):
        return summarise(array)
    summary: TensorSummary | None = array.statistics()
    return summarise(array.whole()) if summary is None else summary


def known_bytes(arrays: Iterable[Any]) -> int | None:
    """Bytes of the elements of arrays of any library; None if any of them is unknown."""
    total = 0
    try:
        for array in arrays:
            ops = ops_of(array)
            if None in ops.spec(array).shape:
                return None
            total += ops.nbytes(array)
    except Exception:  # raised by the library
        return None
    return total

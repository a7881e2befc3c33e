"""Distant values: the run's view of values that stay in a worker.

Invariant: elements are fetched only while the task that has them waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodescope.adapters.ray.describing import array_of
from nodescope.adapters.ray.wire import Content
from nodescope.arrays import Captured, Window
from nodescope.errors import ArrayError
from nodescope.events import Array, Level
from nodescope.ir.graph import OpaqueSpec, Spec, TensorSpec
from nodescope.record.captures import Statistics

Fetch = Callable[[Window | None], Array]


class Distant:
    """A value of which the run has only a part.

    Attributes:
        content: What was sent of it.
        fetch: Fetches elements while the task waits; else None.
    """

    __slots__ = ("content", "fetch")

    def __init__(self, content: Content, fetch: Fetch | None = None) -> None:
        self.content, self.fetch = content, fetch


class DistantContents:
    """See `ArrayOps`."""

    def spec(self, array: Distant) -> Spec:
        """Shape and dtype, or the class."""
        return spec_of(array.content)

    def nbytes(self, array: Distant) -> int:
        """Always 0: its elements are not in this process."""
        return 0

    def capture(self, array: Distant, level: Level) -> Array | Captured | None:
        """Its statistics."""
        summary = array.content.summary
        return None if summary is None else Statistics(summary)

    def numpy(self, array: Distant, window: Window | None = None) -> Array:
        """The elements, from the waiting task.

        Raises:
            ArrayError: It has none, or no task waits with them.
        """
        content = array.content
        if not content.dtype:
            raise ArrayError(f"a {content.type} has no elements that can be shown")
        if array.fetch is None:
            raise ArrayError(
                f"its {content.nbytes:,} bytes stayed in the worker, of which only statistics were "
                "sent; they are there while the task is stopped, or with --level values"
            )
        return array.fetch(window)

    def refusal(self, array: Distant) -> str:
        """A reason if it has no elements, or is no longer held."""
        if not array.content.dtype:
            return f"a {array.content.type} has no elements"
        return "" if array.fetch is not None else "the task that had it has gone on"

    def write(self, array: Distant, new: Array) -> None:
        """Always raises `ArrayError`: tasks are given new values instead."""
        raise ArrayError("it is in another process")


def spec_of(content: Content) -> Spec:
    """The spec of a value."""
    if content.dtype:
        return TensorSpec(content.shape, content.dtype)
    return OpaqueSpec(content.type)


def live(content: Content, fetch: Fetch | None = None) -> Any:
    """A value as events carry it: its elements if they were sent, else a `Distant`."""
    array = array_of(content)
    return Distant(content, fetch) if array is None else array


def window_of(window: Window | None, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...] | None:
    """A window in the form that is sent: start and stop by axis; None for everything."""
    if window is None:
        return None
    return tuple(part.indices(size)[:2] for part, size in zip(window, shape, strict=False))

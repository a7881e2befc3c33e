"""Executions noted by their times alone: appended by any thread without a lock, numbered later.

Invariant: noted executions are taken once, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from nodescope import native

AT_ONCE: Final = 256
"""The most records that are taken, or numbered, together."""

Unnumbered = tuple[int, int, int, int, int]
"""An execution without its seq: node, step, thread, start and end."""

Rows = Sequence[Unnumbered] | bytes
"""Executions; as bytes, five int64 each."""

_THREAD: Final = 2
_WIDTH: Final = 5


class NotedTimes(Protocol):
    """Executions that are not numbered yet.

    Attributes:
        asleep: Whether the next execution wakes the writer.
    """

    asleep: bool

    def __call__(self, node: int, step: int, thread: int, start_ns: int, end_ns: int, /) -> None:
        """Note an execution."""

    def __len__(self) -> int: ...

    def up_to(self, thread: int, /) -> int:
        """The number of noted executions, if the last one ran on this thread; else 0."""

    def take(self) -> tuple[Rows, int | None]:
        """Take all noted executions; none in a signal handler that interrupts this method.

        Returns:
            The executions, and their thread if they are known to have the same one.
        """


class ListedTimes(list[Unnumbered]):
    """Noted times in Python.

    Args:
        when_full: Called when `AT_ONCE` executions are noted; takes them.
        wake: Called by the first execution after `asleep` was set.
    """

    def __init__(self, when_full: Callable[[], None], wake: Callable[[], None]) -> None:
        super().__init__()
        self.asleep = True
        self._when_full, self._wake = when_full, wake
        self._being_taken = False

    def __call__(self, node: int, step: int, thread: int, start_ns: int, end_ns: int, /) -> None:
        """Note an execution."""
        self.append((node, step, thread, start_ns, end_ns))
        if len(self) >= AT_ONCE:
            self._when_full()
        elif self.asleep:
            self.asleep = False
            self._wake()

    def up_to(self, thread: int, /) -> int:
        """See `NotedTimes`."""
        many = len(self)
        return many if many and self[many - 1][_THREAD] == thread else 0

    def take(self) -> tuple[Rows, int | None]:
        """See `NotedTimes`."""
        if self._being_taken:
            return [], None
        self._being_taken = True
        try:
            times = self[:]
            del self[: len(times)]  # keeps what another thread has noted in the meantime
        finally:
            self._being_taken = False
        return times, None


def noted_times(when_full: Callable[[], None], wake: Callable[[], None]) -> NotedTimes:
    """Noted times, in the native core if there is one."""
    if native.NotedTimes is None:
        return ListedTimes(when_full, wake)
    noted: NotedTimes = native.NotedTimes(AT_ONCE, when_full, wake)
    return noted


def count(rows: Rows) -> int:
    """The number of executions."""
    return len(rows) // (8 * _WIDTH) if isinstance(rows, bytes) else len(rows)


def execution_rows(rows: Rows, first: int, runs: dict[int, int]) -> list[tuple[int, ...]]:
    """Rows of the table `execution`.

    Args:
        rows: Executions.
        first: The seq of the first execution.
        runs: How often each node has run so far; updated here.
    """
    known = runs.get
    results: list[tuple[int, ...]] = []
    add = results.append
    for seq, (node, step, thread, start_ns, end_ns) in enumerate(unpacked(rows), first):
        count = runs[node] = known(node, 0) + 1
        add((seq, node, step, thread, start_ns, end_ns - start_ns, 0, count))
    return results


def unpacked(rows: Rows) -> Sequence[Sequence[int]]:
    """Node, step, thread, start and end of each execution."""
    return columns(rows).tolist() if isinstance(rows, bytes) else rows


def nodes(rows: Rows) -> list[int]:
    """The nodes of executions."""
    return [row[0] for row in unpacked(rows)]


def last_of_threads(rows: Rows, first: int) -> dict[int, int]:
    """The seq of each thread's last execution, if the first row has seq ``first``."""
    return {row[_THREAD]: place for place, row in enumerate(unpacked(rows), first)}


def columns(rows: Rows) -> NDArray[np.int64]:
    """Node, step, thread, start and end, by column."""
    numbers = np.frombuffer(rows, np.int64) if isinstance(rows, bytes) else np.array(rows, np.int64)
    return numbers.reshape(-1, _WIDTH)

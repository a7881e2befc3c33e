"""Span rows: rows for the run, and for spans of the host and of devices.

Invariant: text in rows is printable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add, itemgetter
from typing import Any

import msgspec

from nodescope.console_output import printable
from nodescope.events import DeviceRan, HostSpan, RunStarted
from nodescope.ir.attrs import encode
from nodescope.record.row_texts import writer_version
from nodescope.record.timed import packing

Row = tuple[Any, ...]

_START, _TOOK = map(itemgetter, (4, 5))  # of a row of the table `execution`


def started_row(event: RunStarted, level: str) -> Row:
    """The row of ``run`` for a run that begins."""
    argv = msgspec.json.encode([printable(argument) for argument in event.argv]).decode()
    first = event.framework
    return (
        event.run_id, printable(event.name), argv, event.pid, event.started_unix_ns, level,
        writer_version(), None, "", None, first.dialect, first.version,
        encode(first.capabilities),
    )  # fmt: skip


def host_row(event: HostSpan) -> Row:
    """The row of ``host`` for a span."""
    times = (event.step, event.start_ns, event.end_ns)
    file, function = printable(event.file), printable(event.function)
    return (None, event.kind, event.thread, *times, file, event.line, function)


def spans_of(executions: Sequence[Row], timed: Sequence[packing.Row]) -> list[Row]:
    """The row of ``span`` for the executions of a batch, in order; none if there are none.

    Args:
        executions: Rows of the table ``execution``.
        timed: Rows of the table ``timed``.
    """
    spans = [row[:4] for row in timed]
    if executions:
        start_ns = min(map(_START, executions))
        spans.append((executions[0][0], executions[-1][0], start_ns, latest_end(executions)))
    if not spans:
        return []
    firsts, lasts, starts, ends = zip(*spans, strict=True)
    return [(min(firsts), max(lasts), min(starts), max(ends))]


def latest_end(executions: Sequence[Row]) -> int:
    """When the last of some executions ended."""
    latest: int = max(map(add, map(_START, executions), map(_TOOK, executions)))
    return latest


class SpanRows:
    """The rows of the spans of devices; each lane is named once."""

    def __init__(self) -> None:
        self._named: set[int] = set()

    def add(self, event: DeviceRan, add: Callable[[str, Row], None]) -> None:
        """Add the executions that a device has run; ``add`` takes a table and a row."""
        if event.lane not in self._named:
            self._named.add(event.lane)
            add("lane", (event.lane, printable(event.name)))
        for times in event.times.tolist():
            add("device", (None, event.lane, *times))

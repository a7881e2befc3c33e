"""Block demands: what the probes of a run want of executions that are reported together.

A probe that takes blocks has these methods: ``block_level`` returns the highest level that it wants
of each execution now, or None; ``block_bytes``, the bytes of the newest outputs that it wants;
``block_nodes``, the nodes of which it wants every output. ``times_sink`` returns a function that
takes an execution without arrays and attributes, or None; ``outputs_sink``, one that takes an
execution with its arrays, whose attributes are the node's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

TimesSink = Callable[[int, int, int, int, int], None]
"""Takes only the times of an execution: node id, step, thread, start and end."""


class OutputsSink(Protocol):
    """Takes executions with their arrays. What it does not take, the caller emits as an event."""

    def __call__(self, *execution: Any) -> bool:
        """Take node, its id, step, thread, start, end, input arrays, output arrays, and perhaps
        its attributes, if they are not the node's. Return whether the execution was taken.
        """

    def moved(self, value: int, before: int, now: int, /) -> bool:
        """Take the identities of the array of a value, which has moved since the last execution.
        Return whether they were taken.
        """


def block_levels(probes: Iterable[object]) -> list[Any]:
    """The level that each probe wants; None for a probe that takes no blocks."""
    levels: list[Any] = []
    for probe in probes:
        ask: Callable[[], Any] | None = getattr(probe, "block_level", None)
        levels.append(ask() if ask is not None else None)
    return levels


def times_sinks(probes: Iterable[object]) -> list[TimesSink]:
    """The functions that take only times, of the probes that have one."""
    return _sinks(probes, "times_sink")


def outputs_sinks(probes: Iterable[object]) -> list[OutputsSink]:
    """The functions that take executions with their arrays, of the probes that have one."""
    return _sinks(probes, "outputs_sink")


def _sinks(probes: Iterable[object], name: str) -> list[Any]:
    sinks: list[Any] = []
    for probe in probes:
        ask: Callable[[], Any] | None = getattr(probe, name, None)
        if ask is not None and (sink := ask()) is not None:
            sinks.append(sink)
    return sinks


def block_bytes(probes: Iterable[object]) -> int:
    """The most bytes that any probe wants; 0 for none."""
    most = 0
    for probe in probes:
        ask: Callable[[], int] | None = getattr(probe, "block_bytes", None)
        most = max(most, ask() if ask is not None else 0)
    return most


def block_nodes(probes: Iterable[object]) -> frozenset[int]:
    """The nodes of which any probe wants every output."""
    nodes: frozenset[int] = frozenset()
    for probe in probes:
        ask: Callable[[], frozenset[int]] | None = getattr(probe, "block_nodes", None)
        if ask is not None:
            nodes |= ask()
    return nodes

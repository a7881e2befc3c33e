"""Block demands: what the probes of a run want of executions that are reported together.

A probe that takes them says so with methods of its own: ``block_level``, the most that it wants of
each execution now, or None; ``block_bytes``, how many bytes of the newest outputs;
``block_nodes``, the nodes of which it wants every output. ``times_sink`` returns what
takes an execution without arrays and attributes, or None; ``outputs_sink``, what takes one with its
arrays and without attributes of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nodescope.ir.graph import Node

TimesSink = Callable[[int, int, int, int, int], None]
"""Takes an execution by its times alone: node id, step, thread, start and end."""

OutputsSink = Callable[[Node, int, int, int, int, int, tuple[Any, ...], tuple[Any, ...]], bool]
"""Takes an execution with its arrays: node, its id, step, thread, start, end, and the arrays that
it read and gave. Whether it took it: if not, it is to be emitted."""


def block_levels(probes: Iterable[object]) -> list[Any]:
    """What each probe wants; None for one that takes no blocks."""
    levels: list[Any] = []
    for probe in probes:
        ask: Callable[[], Any] | None = getattr(probe, "block_level", None)
        levels.append(ask() if ask is not None else None)
    return levels


def times_sinks(probes: Iterable[object]) -> list[TimesSink]:
    """The functions that take times alone, of the probes that have one."""
    return _sinks(probes, "times_sink")


def outputs_sinks(probes: Iterable[object]) -> list[OutputsSink]:
    """The functions that take executions with their arrays, of the probes that have one."""
    return _sinks(probes, "outputs_sink")


def _sinks(probes: Iterable[object], name: str) -> list[Any]:
    methods = [getattr(probe, name, None) for probe in probes]
    sinks = [ask() for ask in methods if ask is not None]
    return [sink for sink in sinks if sink is not None]


def block_bytes(probes: Iterable[object]) -> int:
    """The most bytes that any of them wants; 0 for none."""
    most = 0
    for probe in probes:
        ask: Callable[[], int] | None = getattr(probe, "block_bytes", None)
        most = max(most, ask() if ask is not None else 0)
    return most


def block_nodes(probes: Iterable[object]) -> frozenset[int]:
    """The nodes of which any of them wants every output."""
    nodes: frozenset[int] = frozenset()
    for probe in probes:
        ask: Callable[[], frozenset[int]] | None = getattr(probe, "block_nodes", None)
        if ask is not None:
            nodes |= ask()
    return nodes

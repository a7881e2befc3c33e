"""Block demands: what the probes of a run want of executions that are reported together.

A probe that takes them says so with methods of its own: ``block_level``, the most that it wants of
each execution now, or None; ``block_bytes``, how many bytes of the newest outputs;
``block_nodes``, the nodes of which it wants every output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def block_levels(probes: Iterable[object]) -> list[Any]:
    """What each probe wants; None for one that takes no blocks."""
    levels: list[Any] = []
    for probe in probes:
        asked: Callable[[], Any] | None = getattr(probe, "block_level", None)
        levels.append(asked() if asked is not None else None)
    return levels


def block_bytes(probes: Iterable[object]) -> int:
    """The most bytes that any of them wants; 0 for none."""
    most = 0
    for probe in probes:
        asked: Callable[[], int] | None = getattr(probe, "block_bytes", None)
        most = max(most, asked() if asked is not None else 0)
    return most


def block_nodes(probes: Iterable[object]) -> frozenset[int]:
    """The nodes of which any of them wants every output."""
    nodes: frozenset[int] = frozenset()
    for probe in probes:
        asked: Callable[[], frozenset[int]] | None = getattr(probe, "block_nodes", None)
        if asked is not None:
            nodes |= asked()
    return nodes

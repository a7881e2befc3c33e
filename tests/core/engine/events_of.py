"""Collects the events of a block of code.

Invariant: observation ends with the block, even if it raises.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TypeVar

from nodescope.engine import tracer
from nodescope.events import Bus, Demand, Event, GraphExtended, NodeFinished
from nodescope.ir.graph import Node

E = TypeVar("E")


class Events:
    """A probe that keeps everything."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self.bus = Bus()
        self.bus.add(self)
        self._lock = threading.Lock()

    def emit(self, event: Event) -> None:
        with self._lock:
            self.all.append(event)

    def of(self, kind: type[E]) -> list[E]:
        return [item for item in self.all if isinstance(item, kind)]

    @property
    def nodes(self) -> dict[str, Node]:
        """Nodes as last defined, by name."""
        return {n.name: n for item in self.of(GraphExtended) for n in item.nodes}

    @property
    def ran(self) -> list[str]:
        return [event.node.name for event in self.of(NodeFinished)]


@contextlib.contextmanager
def observed(*, starts: bool = False) -> Iterator[Events]:
    events = Events()
    events.bus.want(events, Demand(starts=starts))
    tracer.observe(events.bus)
    try:
        yield events
    finally:
        tracer.unobserve()

"""A program of the engine under a real gate, with a controller that continues at each stop."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.debug.gate.gate import Gate
from nodescope.engine import tracer
from nodescope.events import Array, Bus, Event, Logged, ValueEdited
from nodescope.protocol import (
    BreakpointStatus,
    Command,
    Continue,
    Detach,
    SessionInfo,
    SetBreakpoints,
    Stop,
)
from nodescope.record.recorder import Recorder


@dataclass
class Debugged:
    """The stops in order, with their live values, and the logged lines."""

    bus: Bus = field(default_factory=Bus)
    stops: list[Stop] = field(default_factory=list)
    live: list[dict[int, Array]] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    edits: list[ValueEdited] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)
    statuses: tuple[BreakpointStatus, ...] = ()

    def emit(self, event: Event) -> None:
        if isinstance(event, Logged):
            self.logged.append(event.text)
        elif isinstance(event, ValueEdited):
            self.edits.append(event)

    @property
    def names(self) -> list[str]:
        return [stop.node_name for stop in self.stops]


def gate_of(seen: Debugged) -> Gate:
    """The gate that stops the program."""
    return next(probe for probe in seen.bus.probes if isinstance(probe, Gate))


Then = Callable[[Stop, Gate], Command]


def go_on(stop: Stop, gate: Gate) -> Command:
    """Continue, the controller's default action at a stop."""
    return Continue()


@contextmanager
def debugged(
    *specs: str, then: Then = go_on, entry: bool = False, first: Recorder | None = None
) -> Iterator[Debugged]:
    """Observe the engine.

    Args:
        specs: Breakpoints in their text form.
        then: Called at each stop; returns the command that ends it.
        entry: Whether to stop before the first node.
        first: A recorder that is added before the gate.
    """
    seen = Debugged()
    news: queue.Queue[SessionInfo | None] = queue.Queue()
    gate = Gate(
        seen.bus,
        stop_on_entry=entry,
        seq_source=first.thread_seq if first is not None else lambda: 0,
        flush=first.flush if first is not None else lambda: True,
        on_change=news.put,
    )
    if first is not None:
        seen.bus.add(first)
    seen.bus.add(seen)
    seen.bus.add(gate)
    gate.controllers(1)
    gate.command(SetBreakpoints(tuple(parse_breakpoint(spec) for spec in specs)))

    def follow() -> None:
        last: Stop | None = None
        while (info := news.get()) is not None:
            # While one thread is stopped, other threads may reach new nodes, which announces the
            # same stop again.
            known, last = info.stop is last, info.stop
            if info.stop is not None and not known and not info.stop.edits:
                seen.stops.append(info.stop)
                seen.live.append({v: np.copy(a) for v, a in gate._live.items()})
                try:
                    gate.command(then(info.stop, gate))
                except BaseException as error:
                    seen.faults.append(error)
                    gate.command(Detach())

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    tracer.observe(seen.bus)
    try:
        yield seen
    finally:
        tracer.unobserve()
        news.put(None)
        thread.join(60)
        seen.statuses = gate.info.breakpoints
    assert seen.faults == []

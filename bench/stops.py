"""The cost of breakpoints that do not stop, per node that passes the gate.

Invariant: a controller is connected, so every breakpoint is armed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np

from bench.measure import Row, paired
from nodescope.debug.breakpoints.syntax import parse_breakpoint
from nodescope.debug.gate.gate import Gate
from nodescope.events import Bus, GraphExtended, NodeFinished
from nodescope.ir.graph import Node
from nodescope.protocol import SetBreakpoints

CALLS = 1000
VALUE = np.zeros(3)
NODE = Node(1, "net/exp", "exp", "elementwise", outputs=(1,), scope="net")


def rows() -> Iterator[Row]:
    times = paired(
        {
            "nothing": _many(lambda: None),
            "none": _passing(),
            "armed": _passing("op:log"),
            "scope": _passing("scope:loss"),
            "condition": _passing("op:exp if max(value) > 3"),
            "array work": _many(VALUE.max),
        },
        rounds=31,
    )
    # The fastest round: these are tens of nanoseconds, to which other processes only add.
    per_call = {name: min(times_) / CALLS * 1e9 for name, times_ in times.items()}
    gate = per_call["none"] - per_call["nothing"]
    yield Row("the gate, per node, no breakpoint", "", gate, "ns",
              detail="with its event, beyond an empty call")  # fmt: skip
    for name, description in (("armed", "armed elsewhere"), ("scope", "on a scope elsewhere")):
        yield Row(
            f"a breakpoint {description}, per node",
            "no breakpoint",
            per_call[name] - per_call["none"],
            "ns",
            must=50,
        )
    extra = (
        per_call["condition"] - per_call["none"] - (per_call["array work"] - per_call["nothing"])
    )
    yield Row(
        "a condition on a value, per node", "no breakpoint", extra / 1000, "us", must=3,
        detail=f"beyond its array work, the largest of 3 elements: {per_call['array work']:.0f} ns",
    )  # fmt: skip


def _passing(*specs: str) -> Callable[[], None]:
    bus = Bus()
    gate = Gate(bus, seq_source=lambda: 0, flush=lambda: True, on_change=lambda info: None)
    gate.controllers(1)
    gate.command(SetBreakpoints(tuple(map(parse_breakpoint, specs))))
    gate.emit(GraphExtended((NODE,), (), 0))
    event = NodeFinished(NODE, (), (VALUE,), 1, threading.get_ident(), 0, 1)
    return _many(lambda: gate.emit(event))


def _many(call: Callable[[], object]) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(CALLS):
            call()

    return loop

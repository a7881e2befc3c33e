"""What breakpoints cost where they do not stop: per node that passes the gate.

Invariant: a controller is there, so that every breakpoint is armed.
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
    # The least of the rounds: these are tens of nanoseconds, and whatever else runs adds to them.
    each = {name: min(found) / CALLS * 1e9 for name, found in times.items()}
    gate = each["none"] - each["nothing"]
    yield Row("the gate, per node, no breakpoint", "", gate, "ns",
              detail="with its event, beyond an empty call")  # fmt: skip
    for name, said in (("armed", "armed elsewhere"), ("scope", "on a scope elsewhere")):
        yield Row(f"a breakpoint {said}, per node", "no breakpoint", each[name] - each["none"],
                  "ns", must=50)  # fmt: skip
    extra = each["condition"] - each["none"] - (each["array work"] - each["nothing"])
    yield Row(
        "a condition on a value, per node", "no breakpoint", extra / 1000, "us", must=3,
        detail=f"beyond its array work, the largest of 3 elements: {each['array work']:.0f} ns",
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

"""Observed operators emit the same events as the general path of all ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import native
from nodescope.errors import ShapeError
from nodescope.events import Demand, Event, NodeFailed, NodeFinished, NodeStarted
from tests.core.engine.events_of import Events, observed


def trained(multiply: Callable[[Any, Any], Any], add: Callable[[Any, Any], Any]) -> Events:
    """Steps in which a node gets other inputs, a scalar, an array, no tape, and another scope."""
    with observed() as events:
        x, w = ns.tensor([1.0, 2.0], name="x"), ns.parameter([3.0, 4.0], name="w")
        for number in ns.steps(range(4)):
            h = add(multiply(x, w), w if number < 2 else x)
            with ns.name_scope("inner"):
                h = add(multiply(h, 2.0), h)
                h = add(h, np.ones(2)) if number % 2 else add(h, w)
            with ns.no_grad():
                multiply(h, w)
            add(h, w).sum().backward()
    return events


def told(event: Event) -> Any:
    """An event without its times."""
    if isinstance(event, NodeFinished):
        arrays = [array.tolist() for array in (*event.inputs, *event.outputs)]
        return "finished", event.node.name, event.node.inputs, arrays, event.step
    return type(event).__name__, [n.name for n in getattr(event, "nodes", ())]


def test_operators_emit_the_events_of_functions() -> None:
    operators = trained(lambda a, b: a * b, lambda a, b: a + b)
    functions = trained(np.multiply, np.add)
    operator_events, function_events = operators.all, functions.all
    # Ids grow from one observation to the next, so count them from the first one.
    first = [
        min(v for n in item.nodes.values() for v in n.outputs) for item in (operators, functions)
    ]

    def shifted(events: list[Event], by: int) -> list[Any]:
        results = []
        for event in events:
            record = told(event)
            if record[0] == "finished":
                record = (*record[:2], tuple(v - by for v in record[2]), *record[3:])
            results.append(record)
        return results

    assert shifted(operator_events, first[0]) == shifted(function_events, first[1])


def test_a_known_node_that_fails_is_reported() -> None:
    x = ns.tensor(np.ones(3))

    def program() -> None:
        for size in ns.steps([3, 3, 2]):
            x * ns.tensor(np.ones(size), name="y")

    with observed() as events, pytest.raises(ShapeError, match="broadcast"):
        program()
    failed = events.of(NodeFailed)
    assert [(event.node.name, event.step) for event in failed] == [("multiply", 3)]
    assert events.ran.count("multiply") == 2


def test_a_probe_that_fails_late_is_removed_and_the_result_stands() -> None:
    class Fails:
        def __init__(self) -> None:
            self.left = 5

        def emit(self, event: Event) -> None:
            self.left -= isinstance(event, NodeFinished)
            if self.left < 0:
                raise RuntimeError("enough")

    faults: list[str] = []
    x, y = ns.tensor([1.0]), ns.tensor([2.0])
    with observed() as events:
        probe = Fails()
        events.bus.on_fault = lambda probe, error: faults.append(str(error))
        events.bus.add(probe)
        for _ in ns.steps(range(5)):
            assert (x * y).item() == 2.0
        assert probe not in events.bus.probes
    assert faults == ["enough"]
    assert events.ran.count("multiply") == 5


def test_starts_are_reported_as_soon_as_they_are_wanted() -> None:
    x, y = ns.tensor([1.0]), ns.tensor([2.0])
    with observed() as events:
        for number in ns.steps(range(3)):
            events.bus.want(events, Demand(starts=number == 2))
            x * y
    assert [event.step for event in events.of(NodeStarted) if event.node.op == "multiply"] == [3]


def test_an_interrupt_passes() -> None:
    class Interrupts:
        def emit(self, event: Event) -> None:
            if isinstance(event, NodeFinished) and event.step == 3 and event.node.op == "add":
                raise KeyboardInterrupt

    x, y = ns.tensor([1.0]), ns.tensor([2.0])

    def program() -> None:
        for _ in ns.steps(range(4)):
            x + y

    with observed() as events:
        events.bus.add(Interrupts())
        with pytest.raises(KeyboardInterrupt):
            program()


def test_the_plain_operators_are_back_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the native core stay in place, see `test_native_calls`."""
    monkeypatch.setattr(native, "Calls", None)
    plain = ns.Tensor.__mul__
    with observed():
        assert ns.Tensor.__mul__ is not plain
    assert type(ns.Tensor.__mul__) is type(plain)
    assert getattr(ns.Tensor.__mul__, "__code__", None) is getattr(plain, "__code__", None)
    assert (ns.tensor([2.0]) * ns.tensor([3.0])).item() == 6.0

"""The adapters' interface: nodes keep their identity; values, failures and gradients are
emitted.
"""

from __future__ import annotations

import numpy as np
import pytest

from nodescope.emit.emitter import Emitter, Pending
from nodescope.events import (
    Bus,
    Demand,
    Event,
    GradientComputed,
    GradientReached,
    GraphExtended,
    NodeFailed,
    NodeFinished,
    NodeStarted,
)
from nodescope.ir.graph import TensorSpec

SPEC = TensorSpec((3,), "float64")


class EventLog:
    """A probe that keeps everything."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    @property
    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


@pytest.fixture
def told() -> EventLog:
    return EventLog()


@pytest.fixture
def emitter(told: EventLog) -> Emitter:
    bus = Bus()
    bus.add(told)
    return Emitter(bus)


def called(emitter: Emitter, op: str, *inputs: int, spec: TensorSpec = SPEC) -> Pending:
    pending = emitter.enter(op, "op", inputs, (spec,), {}, dialect="made-up", native=f"lib.{op}")
    emitter.finish(pending, (np.zeros(spec.shape),))
    return pending


def test_a_node_is_defined_once_and_executed_in_every_step(
    emitter: Emitter, told: EventLog
) -> None:
    nodes = []
    for _ in range(3):
        emitter.begin_step()
        first = called(emitter, "exp")
        nodes.append([first.node.id, called(emitter, "log", *first.outputs).node.id])
        emitter.end_step()
    assert nodes[0] == nodes[1] == nodes[2]
    assert told.kinds.count("GraphExtended") == 2
    assert [event.step for event in told.events if isinstance(event, NodeFinished)] == [
        1, 1, 2, 2, 3, 3
    ]  # fmt: skip
    node = emitter.node_of(first.outputs[0])
    assert node is not None
    assert (node.op, node.dialect, node.native, node.role) == ("exp", "made-up", "lib.exp", "op")


def test_a_result_of_another_shape_is_reported(emitter: Emitter, told: EventLog) -> None:
    for length in (3, 5):
        emitter.begin_step()
        pending = called(emitter, "exp", spec=TensorSpec((length,), "float64"))
    (first, second) = [event for event in told.events if isinstance(event, GraphExtended)]
    assert [value.spec.shape for value in (*first.values, *second.values)] == [(3,), (5,)]
    assert second.nodes == ()
    assert second.values[0].id == pending.outputs[0]


def test_a_start_is_reported_where_it_is_wanted_with_what_was_given(
    emitter: Emitter, told: EventLog
) -> None:
    array = np.arange(3.0)
    emitter.bus.want(told, Demand(starts=True))
    emitter.enter("exp", "op", (), (SPEC,), {}, arrays=(array,))
    assert told.kinds == ["GraphExtended", "NodeStarted"]
    (started,) = [event for event in told.events if isinstance(event, NodeStarted)]
    assert started.inputs[0] is array


def test_an_edit_is_handed_out_once(emitter: Emitter) -> None:
    pending = emitter.enter("exp", "op", (), (SPEC,), {})
    edited = {pending.outputs[0]: np.ones(3)}
    emitter.bus.edits[pending.state.thread] = edited  # type: ignore[assignment]
    assert emitter.finish(pending, (np.zeros(3),)) is edited
    assert emitter.finish(pending, (np.zeros(3),)) == {}


def test_a_failed_call_is_reported_with_its_error(emitter: Emitter, told: EventLog) -> None:
    pending = emitter.enter("exp", "op", (), (SPEC,), {}, arrays=(np.zeros(3),))
    emitter.fail(pending, OSError("disk"))
    (failed,) = [event for event in told.events if isinstance(event, NodeFailed)]
    assert (failed.node.op, failed.error) == ("exp", "OSError: disk")


def test_a_gradient_pair_is_reported_once_and_its_array_where_it_is_wanted(
    emitter: Emitter, told: EventLog
) -> None:
    emitter.gradient(1, 2, np.ones(3))
    emitter.gradient(1, 2, np.ones(3))
    assert told.kinds == ["GradientComputed"]
    emitter.bus.want(told, Demand(gradients=True))
    emitter.gradient(1, 3, np.full(3, 2.0))
    pair, reached = told.events[1:]
    assert pair == GradientComputed(1, 3)
    assert isinstance(reached, GradientReached)
    assert reached.array.tolist() == [2.0, 2.0, 2.0]

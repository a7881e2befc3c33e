"""Shapes and dtypes of the moment: what is told when values change theirs, at every level."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import nodescope as ns
from nodescope.engine import dispatch_mode
from nodescope.events import GraphExtended, Level, NodeFinished
from nodescope.ir import identity
from nodescope.record.graphs import end_of, graph_of
from nodescope.record.recording import Recording
from tests.core.engine.events_of import Events, observed

ROWS = (64, 64, 29, 64)


def batches(rows: Iterable[int] = ROWS) -> list[np.ndarray[Any, Any]]:
    return [np.ones((row, 3), np.float32) for row in rows]


def model(x: Any, w: Any) -> Any:
    with ns.name_scope("layer"):
        h = np.tanh(x @ w)
    return (h * h).sum()


def train(rows: Iterable[int] = ROWS) -> None:
    w = ns.parameter(np.full((3, 2), 0.5, np.float32), name="w")
    for batch in ns.steps(batches(rows)):
        model(ns.tensor(batch, name="x"), w).backward()


def told(events: Events) -> list[tuple[str, tuple[int, ...]]]:
    """What was defined again with another spec, in order."""
    return [
        (value.name, value.spec.shape)
        for event in events.of(GraphExtended)
        if not event.nodes
        for value in event.values
    ]


def true_shapes(events: Events, *, step: int) -> dict[str, tuple[int, ...]]:
    return {
        node.node.name: node.outputs[0].shape
        for node in events.of(NodeFinished)
        if node.step == step
    }


def shapes_at(recording: Recording, step: int) -> dict[str, tuple[int, ...]]:
    graph = graph_of(recording, end_of(recording, step))
    return {value.name: value.spec.shape for value in graph.values}


@pytest.mark.parametrize("level", get_args(Level))
def test_each_level_keeps_the_shapes_of_each_step(tmp_path: Path, level: Level) -> None:
    with observed() as events:
        train()
    with ns.record(tmp_path / "r.nscope", level=level):
        train()
    with Recording.open(tmp_path / "r.nscope") as recording:
        for step in range(1, 5):
            result = shapes_at(recording, step)
            assert result == result | true_shapes(events, step=step)


def test_equal_steps_emit_no_shapes_and_take_the_fast_path() -> None:
    w = ns.parameter(np.ones((3, 2), np.float32), name="w")
    with observed() as events:
        tracer = dispatch_mode.attending()
        assert tracer is not None
        steady = []
        for batch in ns.steps(batches((64, 64, 29, 64, 64, 64))):
            model(ns.tensor(batch, name="x"), w)
            steady.append(tracer.emitter.steady is tracer.epoch)
    # The step after a change is checked too: it may use values of the changed step.
    assert steady == [True, True, False, False, False, True]
    names = ["x", "layer/matmul", "layer/tanh", "multiply"]
    assert told(events) == [
        *((name, (29, 3 if name == "x" else 2)) for name in names),
        *((name, (64, 3 if name == "x" else 2)) for name in names),
    ]


def test_a_new_spec_is_reported_before_the_execution_that_has_it() -> None:
    with observed() as events:
        train((4, 3))
    known: dict[int, tuple[int, ...]] = {}
    for node in events.all:
        if isinstance(node, GraphExtended):
            known.update((value.id, value.spec.shape) for value in node.values)
        elif isinstance(node, NodeFinished):
            shapes = [array.shape for array in node.outputs]
            assert [known[value] for value in node.node.outputs] == shapes, node.node.name


def mask(step: int) -> Any:
    x = ns.tensor(np.arange(6.0), name="x")
    return x[ns.tensor(np.arange(6) < step + 1, name="m")] * 2.0


def sliced(step: int) -> Any:
    return ns.tensor(np.arange(6.0), name="x")[: step + 1] * 2.0


def widened(step: int) -> Any:
    dtype = np.float64 if step == 3 else np.float32
    return ns.tensor(np.ones(3, dtype), name="x") * np.float32(2.0)


def unique(step: int) -> Any:
    return np.unique(ns.tensor(np.arange(6) % (step + 1), name="x")) * 2


def rewired(step: int) -> Any:
    x, y = ns.tensor(np.ones(3), name="x"), ns.tensor(np.ones(4), name="y")
    return np.exp(x if step < 3 else y) + 1.0


@pytest.mark.parametrize("program", [mask, sliced, widened, unique, rewired])
def test_whatever_changes_a_shape_is_followed(program: Callable[[int], Any]) -> None:
    known: dict[int, Any] = {}
    with observed() as events:
        for step in ns.steps(range(1, 6)):
            program(step)
    for node in events.all:
        if isinstance(node, GraphExtended):
            known.update((value.id, value.spec) for value in node.values)
        elif isinstance(node, NodeFinished):
            for value, array in zip(node.node.outputs, node.outputs, strict=True):
                assert known[value].shape == array.shape, node.node.name
                assert known[value].dtype == array.dtype.name, node.node.name


def test_a_value_that_grows_by_itself_is_followed() -> None:
    with observed() as events:
        values = ns.tensor(np.zeros(1), name="held")
        for _ in ns.steps(range(5)):
            values = np.concatenate([values, np.ones(1)])
    assert [shape for name, shape in told(events) if name == "concatenate"] == [
        (3,), (4,), (5,), (6,),
    ]  # fmt: skip


def test_a_loop_without_steps_reports_its_shapes() -> None:
    with observed() as events:
        for size in (*[4] * 40, 3):
            np.exp(ns.tensor(np.ones(size)))
    last = dict(told(events))
    assert (3,) in last.values()


def test_shapes_that_always_change_are_reported_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(identity, "MOST_RESHAPED", 3)
    with observed() as events:
        for size in ns.steps(range(1, 9)):
            np.exp(ns.tensor(np.ones(size), name="x"))
        tracer = dispatch_mode.attending()
        assert tracer is not None
        # No shape is reported any more, so none is checked.
        assert tracer.emitter.steady is tracer.epoch
    assert told(events) == [(name, (size,)) for size in (2, 3, 4) for name in ("x", "exp")]


def test_a_stop_before_a_node_whose_shape_values_decide() -> None:
    with observed(starts=True) as events:
        mask(2)
    # `infer` cannot tell the shape; the execution does.
    assert [shape for name, shape in told(events) if name == "getitem"] == [(3,)]


def test_compiled_with_dynamic_sizes_shows_the_sizes_of_the_call(tmp_path: Path) -> None:
    @ns.compile(dynamic=True)
    def forward(x: Any, w: Any) -> Any:
        return np.tanh(x @ w)

    w = ns.tensor(np.ones((3, 2)), name="w")
    with ns.record(tmp_path / "r.nscope", level="timing"):
        for rows in ns.steps((8, 8, 8, 5, 5)):
            forward(ns.tensor(np.ones((rows, 3)), name="x"), w)
    with Recording.open(tmp_path / "r.nscope") as recording:
        for step, rows in ((3, 8), (5, 5)):  # Each size has a graph with its own nodes.
            ran = {node for node, _ in recording.ran_in(step)}
            graph = graph_of(recording, end_of(recording, step))
            produced = {value for node in graph.nodes if node.id in ran for value in node.outputs}
            shapes = {value.spec.shape for value in graph.values if value.id in produced}
            assert (rows, 2) in shapes
            assert {shape[0] for shape in shapes} <= {rows, 3}

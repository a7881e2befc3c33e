"""Body frames: the values computed inside kernels, branches and loops, rerun on the real inputs.

The executed body is rerun node by node, keeping every value; a loop is rerun for each iteration.

Invariant: only reads the recording; a while loop beyond `MOST_INSIDE` nodes is not expanded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope.debug.replay.dialects import recorded_call
from nodescope.debug.replay.execution_index import ValueSource
from nodescope.ir.graph import Graph, Node
from nodescope.ops.calls import Scalar
from nodescope.ops.control import run_body
from nodescope.record.rows import Execution

MOST_INSIDE = 20_000
"""The limit on nodes over all iterations of an expanded loop."""


@dataclass(frozen=True)
class BodyFrame:
    """An expanded body, with all values that its nodes computed."""

    graph: Graph
    values: dict[int, Any]
    makers: dict[int, Node]
    given: dict[int, Point | None]
    kernel: str


@dataclass(frozen=True)
class Point:
    """A value of the run, or a value inside a kernel, branch or loop.

    Attributes:
        value: The value's id, in the run or in the body's graph.
        execution: The execution that wrote the value, or that ran the kernel around it.
        frame: The expanded body around the value; None for a value of the run.
        edited: The seq of the edit that has since replaced the value's content, or 0.
    """

    value: int
    execution: Execution
    frame: BodyFrame | None = None
    edited: int = 0

    @property
    def source(self) -> ValueSource:
        """The value and execution in the recording, for values outside of kernels."""
        return ValueSource(self.value, self.execution, self.edited)


def point_of(source: ValueSource) -> Point:
    """The point of a value of the run."""
    return Point(source.value, source.execution, edited=source.edited)


def scan_frames(
    name: str,
    attrs: dict[str, Any],
    inputs: tuple[Any, ...],
    sources: tuple[Point | None, ...],
    execution: Execution,
) -> dict[int, BodyFrame]:
    """The frames of a scan by iteration; empty if its body cannot be rerun."""
    body: Graph = attrs["body"]
    carries, columns, length = attrs["carries"], attrs["columns"], attrs["length"]
    carry, carried = list(inputs[:carries]), list(sources[:carries])
    frames: dict[int, BodyFrame] = {}
    for i in range(length - 1, -1, -1) if attrs["reverse"] else range(length):
        rows, row_points = [], []
        for j in range(columns):
            array, source = inputs[carries + j], sources[carries + j]
            getitem = Node(0, "row", "getitem", "index", (1,), outputs=(2,), attrs={"index": (i,)})
            values = {1: array, 2: np.asarray(array[i])}
            graph = Graph(0, "static", (1,), (2,), (getitem,))
            row = BodyFrame(graph, values, {2: getitem}, {1: source}, name)
            rows.append(values[2])
            row_points.append(Point(2, execution, row))
        around = carries + columns
        args = (*carry, *rows, *inputs[around:])
        points = (*carried, *row_points, *sources[around:])
        frame = frame_of(body, args, points, f"{name}[{i}]")
        if frame is None:
            return {}
        frames[i] = frame
        ends = body.outputs[:carries]
        carry = [frame.values[output] for output in ends]
        carried = [_made(frame, output, execution) for output in ends]
    return frames


def while_frames(
    name: str,
    attrs: dict[str, Any],
    inputs: tuple[Any, ...],
    sources: tuple[Point | None, ...],
    execution: Execution,
) -> list[BodyFrame] | None:
    """The frames of a while loop's iterations; None if it is too long or cannot be rerun."""
    condition: Graph = attrs["condition"]
    body: Graph = attrs["body"]
    carries = attrs["carries"]
    carry, carried = list(inputs[:carries]), list(sources[:carries])
    frames: list[BodyFrame] = []
    around = inputs[carries:]
    while bool(run_body(condition, [np.asarray(array) for array in (*carry, *around)])[0]):
        if (len(frames) + 1) * len(body.nodes) > MOST_INSIDE:
            return None
        args, points = (*carry, *around), (*carried, *sources[carries:])
        frame = frame_of(body, args, points, f"{name}[{len(frames)}]")
        if frame is None:
            return None
        frames.append(frame)
        carry = [frame.values[output] for output in body.outputs]
        carried = [_made(frame, output, execution) for output in body.outputs]
    return frames


def _made(frame: BodyFrame, value: int, execution: Execution) -> Point | None:
    """The point of a body's output, which a node in it computes or which is one of its inputs."""
    if value in frame.makers:
        return Point(value, execution, frame)
    return frame.given.get(value)


def frame_of(
    body: Graph, args: tuple[Any, ...], points: tuple[Point | None, ...], kernel: str
) -> BodyFrame | None:
    """A body rerun on its real inputs; None if it has constants, which only the engine can run."""
    values: dict[int, Any] = dict(zip(body.inputs, args, strict=True))
    makers: dict[int, Node] = {}
    for node in body.nodes:
        call = recorded_call(node)
        if node.is_leaf and not call.args:
            if node.role == "constant":
                return None
            continue
        operands = [values[operand] for operand in call.args if not isinstance(operand, Scalar)]
        for value, array in zip(node.outputs, call.run(operands), strict=True):
            values[value] = array
            makers[value] = node
    return BodyFrame(body, values, makers, dict(zip(body.inputs, points, strict=True)), kernel)

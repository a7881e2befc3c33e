"""An operation that raised: its message, its inputs, and the most suspicious input.

Invariant: only reads; an unavailable input is listed with the reason.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nodescope.console_output import shape_words
from nodescope.debug.why import effects, operand_ranking
from nodescope.debug.why.answer import Operand
from nodescope.debug.why.body_frames import Point, point_of
from nodescope.debug.why.nonfinite_origins import state_of
from nodescope.debug.why.sizes import misfit
from nodescope.debug.why.target import positions
from nodescope.debug.why.value_tracing import ValueTracer
from nodescope.errors import ReplayError
from nodescope.ir.graph import SourceLocation
from nodescope.record.rows import Execution

_STATES = ("nan", "inf")


class Given(NamedTuple):
    """The inputs of an operation that raised.

    Attributes:
        operands: The most notable element of each input, the most suspicious input first. If all
            of these are finite, the inputs as a whole: no element is to blame.
        ranges: A description of each input, after one of sizes or labels that do not fit.
        reshaped: Which inputs had another shape in the execution before, in words, or ``""``.
        follow: The element to follow; None if the most suspicious input has no recorded source.
    """

    operands: tuple[Operand, ...]
    ranges: tuple[str, ...]
    reshaped: str
    follow: tuple[Point, int] | None


def message_of(error: str, source: SourceLocation | None) -> str:
    """The error message without its source line, which is shown separately."""
    place = "" if source is None else f" ({source.file}:{source.line})"
    return error.replace(place, "") if place else error


def inputs_of(points: ValueTracer, execution: Execution) -> Given:
    """The inputs of an execution that raised: NaN and Inf first, then those whose shape changed,
    then those computed by a node, latest first.
    """
    book = points.book
    node = book.node(execution.node, execution.seq)
    seen: list[tuple[tuple[int, bool, bool, int], Operand, tuple[Point, int] | None]] = []
    ranges: list[str] = []
    reshaped: list[str] = []
    arrays: list[np.ndarray[Any, Any]] = []
    for port, value in enumerate(node.inputs):
        name = book.values.get(value, f"value {value}")
        # In an unobserved step, the inputs are stored under the seq of the execution itself.
        kept = book.recording.array(value, execution.seq)
        source = book.operand(execution, port, value) if kept is None else None
        point = Point(value, execution) if source is None else point_of(source)
        if kept is None and source is None:
            ranges.append(f"{name} was not recorded")
            continue
        try:
            array = np.asarray(points.array(point) if kept is None else kept)
        except ReplayError as error:
            ranges.append(f"{name} is not available: {error.message}")
            continue
        arrays.append(array)
        before = book.recording.latest_at(value, point.source.seq - 1)
        changed = before is not None and before.summary.spec.shape != array.shape
        if before is not None and changed:
            shapes = f"{shape_words(array.shape)}, and was {shape_words(before.summary.spec.shape)}"
            reshaped.append(f"{name} is {shapes} in step {before.step}")
        range_text = operand_ranking.range_of(array)
        ranges.append(f"{name}, {array.dtype.name} {shape_words(array.shape)}, {range_text}")
        if not array.size:
            continue
        position = positions(array, None, name)[0]
        number = operand_ranking.element(array, position)
        state = state_of(number)
        rank = _STATES.index(state) if state in _STATES else len(_STATES)
        entered = kept is not None or not points.node(point).inputs
        operand = Operand(name, port, operand_ranking.index(array, position), number)
        origin = None if source is None else (point, position)
        seen.append(((rank, not changed, entered, -point.execution.seq), operand, origin))
    wrong = ""
    if len(arrays) == len(node.inputs):
        names = [book.values.get(value, f"value {value}") for value in node.inputs]
        input_shapes = [array.shape for array in arrays]
        wrong = effects.out_of_range(node.op, arrays) or misfit(
            node.op, node.family, input_shapes, names, node.attrs
        )
    ranges = [wrong, *ranges] if wrong else ranges
    seen.sort(key=lambda entry: entry[0])
    follow = seen[0][2] if seen else None
    operands = tuple(entry[1] for entry in seen)
    if not any(state_of(operand.number) in _STATES for operand in operands):
        operands = tuple(replace(operand, at=None, number=None) for operand in operands)
    return Given(operands, tuple(dict.fromkeys(ranges)), "; ".join(reshaped), follow)

"""An operation that raised: what it said, what it was given, and which input is the one to suspect.

Invariant: reads only; an input that cannot be had is named with the reason.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nodescope.debug.why import effects, operand_ranking
from nodescope.debug.why.answer import Operand
from nodescope.debug.why.body_frames import Point, point_of
from nodescope.debug.why.nonfinite_origins import state_of
from nodescope.debug.why.target import positions
from nodescope.debug.why.value_tracing import ValueTracer
from nodescope.errors import ReplayError
from nodescope.ir.graph import SourceLocation
from nodescope.record.rows import Execution
from nodescope.telling import shape_words

_STATES = ("nan", "inf")


class Given(NamedTuple):
    """What an operation that raised was given.

    Attributes:
        operands: Of each input the element that would be asked about, the suspicious ones first.
        ranges: Each input in words.
        follow: The element to follow; None if no input was computed.
    """

    operands: tuple[Operand, ...]
    ranges: tuple[str, ...]
    follow: tuple[Point, int] | None


def words_of(error: str, source: SourceLocation | None) -> str:
    """What it raised; the line is told beside it."""
    place = "" if source is None else f" ({source.file}:{source.line})"
    return f"raised {error.replace(place, '') if place else error}"


def inputs_of(points: ValueTracer, execution: Execution) -> Given:
    """The inputs of an execution that raised: NaN and Inf first, then what was computed last."""
    book = points.book
    node = book.node(execution.node, execution.seq)
    seen: list[tuple[tuple[int, int, int], Operand, Point, int]] = []
    ranges: list[str] = []
    arrays: list[np.ndarray[Any, Any]] = []
    for port, value in enumerate(node.inputs):
        name = book.values.get(value, f"value {value}")
        source = book.operand(execution, port, value)
        if source is None:
            ranges.append(f"{name} was not recorded")
            continue
        point = point_of(source)
        try:
            array = np.asarray(points.array(point))
        except ReplayError as error:
            ranges.append(f"{name} is not available: {error.message}")
            continue
        arrays.append(array)
        range_text = operand_ranking.range_of(array)
        ranges.append(f"{name}, {array.dtype.name} {shape_words(array.shape)}, {range_text}")
        if not array.size:
            continue
        position = positions(array, None, name)[0]
        number = operand_ranking.element(array, position)
        state = state_of(number)
        rank = _STATES.index(state) if state in _STATES else len(_STATES)
        entered = not points.node(point).inputs
        operand = Operand(name, port, operand_ranking.index(array, position), number)
        seen.append(((rank, entered, -point.execution.seq), operand, point, position))
    wrong = effects.out_of_range(node.op, arrays) if len(arrays) == len(node.inputs) else ""
    ranges = [wrong, *ranges] if wrong else ranges
    seen.sort(key=lambda entry: entry[0])
    follow = seen[0][2:] if seen else None
    return Given(tuple(entry[1] for entry in seen), tuple(dict.fromkeys(ranges)), follow)

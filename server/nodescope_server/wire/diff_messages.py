"""Wire messages about one value at two moments, and a node at one.

Invariant: as in `wire`. Unavailable parts of a comparison are explained in words, not left empty.
"""

from __future__ import annotations

from typing import Any

import msgspec

from nodescope.compare.measure import Measure
from nodescope.debug.report.problems import NodeProblem
from nodescope.protocol import BrokenLoss
from nodescope.record.summary import TensorSummary

# ---------------------------------------------------------------- requests


class CompareMoments(msgspec.Struct, frozen=True, tag="compare_moments"):
    """Compare a value at two moments, with a window of the difference of its elements.

    Attributes:
        value: Value id.
        one, other: The moments; None for the latest.
        index, row, col, rows, cols: As in `GetValue`.
    """

    run: str
    value: int
    one: int | None
    other: int | None = None
    index: tuple[int, ...] = ()
    row: int = 0
    col: int = 0
    rows: int = 128
    cols: int = 128


class GetAttributes(msgspec.Struct, frozen=True, tag="get_attributes"):
    """Get the attributes of a node's op at a moment; None for the latest."""

    run: str
    node: int
    seq: int | None = None


class GetProblems(msgspec.Struct, frozen=True, tag="get_problems"):
    """Get the nodes that produced NaN or Inf or raised, in the whole recording."""

    run: str


# ---------------------------------------------------------------- answers


class ProblemList(msgspec.Struct, frozen=True, tag="problems"):
    """Nodes with problems in the order in which they began.

    Attributes:
        rows: At most some hundreds of them.
        nodes, executions: Total numbers.
        broken_loss: The loss at the end, if not finite; its steps may be unobserved.
        masks: Further nodes whose Inf all come from the program itself, such as masks.
    """

    rows: tuple[NodeProblem, ...]
    nodes: int
    executions: int
    broken_loss: BrokenLoss | None = None
    masks: int = 0


class ValueMoment(msgspec.Struct, frozen=True):
    """A value at one of the two moments.

    Attributes:
        found: Whether the value had been computed by then.
        seq, step: The execution that wrote it.
        summary: None where no statistics are kept.
        elements: Whether its elements are available; otherwise ``reason`` says why not.
        edit: Description of the user's edit; or ``""``.
    """

    found: bool
    seq: int = 0
    step: int = 0
    summary: TensorSummary | None = None
    elements: bool = False
    reason: str = ""
    edit: str = ""


class ElementPair(msgspec.Struct, frozen=True):
    """One element at both moments."""

    at: tuple[int, ...]
    one: str
    other: str


class MomentsCompared(msgspec.Struct, frozen=True, tag="moments_compared"):
    """The difference of a value between two moments.

    Attributes:
        same: Whether both moments show the same execution.
        measure: The measure of the difference: over all elements, else over statistics, else why
            there is none.
        differ: Number of elements that differ in any bit; None without elements.
        first: The first differing element.
        largest: The element with the largest finite difference.
        difference: Statistics of the elementwise difference; for complex numbers, of its magnitude.
            Where both are the same NaN or Inf, it is 0.
        shape, index, window, grid, data: The difference itself, as in `ValueSlice`.
    """

    value: int
    one: ValueMoment
    other: ValueMoment
    same: bool
    measure: Measure
    differ: int | None = None
    first: ElementPair | None = None
    largest: ElementPair | None = None
    difference: TensorSummary | None = None
    shape: tuple[int, ...] = ()
    index: tuple[int, ...] = ()
    window: tuple[int, int, int, int] = (0, 0, 0, 0)
    grid: tuple[int, int] = (0, 0)
    data: bytes = b""


class GetMemory(msgspec.Struct, frozen=True, tag="get_memory"):
    """Get the memory that a training step needs while a node runs."""

    run: str
    node: int
    step: int


class NodeMemory(msgspec.Struct, frozen=True, tag="node_memory"):
    """The memory that a training step needs, see `nodescope.record.live_memory`.

    Attributes:
        live: While the node runs, in bytes; None if it did not run in the step.
        peak: The most, in bytes.
        peak_node: The node at which that is.
    """

    node: int
    step: int
    live: int | None
    peak: int
    peak_node: int


class GetStatistics(msgspec.Struct, frozen=True, tag="get_statistics"):
    """Get statistics of all values at a moment; None for the latest."""

    run: str
    seq: int | None = None


class Statistics(msgspec.Struct, frozen=True, tag="statistics"):
    """Statistics of all values for which there are any, in columns of one entry per value.

    Attributes:
        count: Number of values.
        values: uint32, their ids.
        elements, zeros: float64, numbers of elements and of those that are zero.
        norms: float64, Euclidean norms of the finite elements; NaN without any.
    """

    count: int
    values: bytes
    elements: bytes
    zeros: bytes
    norms: bytes


class NodeAttributes(msgspec.Struct, frozen=True, tag="node_attributes"):
    """The attributes of a node's op at a moment.

    Attributes:
        seq, step: The execution; 0 if it had not run by then.
        changed: The values at its first execution of attributes that have changed.
    """

    node: int
    seq: int
    step: int
    attrs: dict[str, Any]
    changed: dict[str, Any] = {}


Requests = CompareMoments | GetAttributes | GetMemory | GetStatistics | GetProblems
Answers = MomentsCompared | NodeAttributes | NodeMemory | Statistics | ProblemList

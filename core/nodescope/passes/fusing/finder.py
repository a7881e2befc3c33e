"""Finder: the queries of idioms about the nodes that produce a value.

Invariant: read-only; nodes are recognised by what they do, never by their names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nodescope.ir.graph import Node, TensorSpec
from nodescope.ops.calls import Scalar, call_of
from nodescope.ops.shapes import axes
from nodescope.passes.draft import Draft
from nodescope.passes.fusing.roles import Shape, rows_of

Operand = int | Scalar


class Reduced(NamedTuple):
    """The result of a reduction, with the reduced axes kept as 1 or dropped.

    Attributes:
        nodes: The reduction, and the nodes that reshaped its result.
        source: The reduced value.
        axes: The reduced axes, in order.
        kept: Whether the value has the reduced axes with size 1.
    """

    nodes: tuple[Node, ...]
    source: int
    axes: Shape
    kept: bool


class Finder:
    """Queries on one draft."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._args: dict[int, tuple[Operand, ...]] = {}

    def args(self, node: Node) -> tuple[Operand, ...]:
        """Its operands by port."""
        args = self._args.get(node.id)
        if args is None:
            args = self._args[node.id] = call_of(node).args
        return args

    def by(self, value: Operand, *names: str) -> Node | None:
        """The producer of a value, if it runs one of these ops."""
        if not isinstance(value, int):
            return None
        node = self.draft.producer(value)
        return node if node is not None and node.op in names else None

    def either(self, node: Node) -> Iterator[tuple[Operand, Operand]]:
        """Both operands of a node, in both orders."""
        first, second = self.args(node)
        yield first, second
        yield second, first

    def spec(self, value: int) -> TensorSpec:
        """Shape and dtype."""
        return self.draft.spec(value)

    def shape(self, value: Operand) -> Shape:
        """Of a scalar operand: ``()``."""
        return self.draft.spec(value).shape if isinstance(value, int) else ()

    def is_scalar(self, value: Operand) -> bool:
        """Whether it is one number."""
        return math.prod(self.shape(value)) == 1

    def number(self, value: Operand) -> float | None:
        """The number, if known."""
        if not isinstance(value, int):
            return value.value if isinstance(value.value, int | float) else None
        array = self.draft.array(value)
        if array is None or array.size != 1 or array.dtype.kind not in "iuf":
            return None
        return float(array.flat[0])

    def is_range(self, value: Operand) -> bool:
        """Whether it is a constant 0, 1, 2 …"""
        array = self.draft.array(value) if isinstance(value, int) else None
        return (
            array is not None and array.ndim == 1 and array.dtype.kind in "iu"
            and bool(np.array_equal(array, np.arange(array.size)))
        )  # fmt: skip

    def bare(self, value: Operand) -> tuple[tuple[Node, ...], Operand]:
        """A value before dimensions of size 1 were added or dropped."""
        node = self.by(value, "reshape", "expand_dims", "squeeze", "getitem")
        if node is None or len(node.inputs) != 1:
            return (), value
        before, after = self.shape(node.inputs[0]), self.shape(value)
        if [n for n in before if n != 1] != [n for n in after if n != 1]:
            return (), value
        if node.op == "getitem":
            index = node.attrs["index"]
            items = index if isinstance(index, tuple) else (index,)
            if any(i is not None and i is not Ellipsis and i != slice(None) for i in items):
                return (), value
        return (node,), node.inputs[0]

    def reduced(self, value: Operand, *names: str) -> Reduced | None:
        """The reduction result, if one of these ops made the value."""
        around, inner = self.bare(value)
        node = self.by(inner, *names)
        if node is None or not isinstance(value, int):
            return None
        source = node.inputs[0]
        shape = self.shape(source)
        reduced_axes = tuple(sorted(axes(node.op, node.attrs["axis"], len(shape))))
        left = tuple(n for i, n in enumerate(shape) if i not in reduced_axes)
        if self.shape(value) == rows_of(shape, reduced_axes):
            return Reduced((node, *around), source, reduced_axes, True)
        if self.shape(value) == left:
            return Reduced((node, *around), source, reduced_axes, False)
        return None

    def mean(self, value: Operand) -> Reduced | None:
        """A mean, either as such or as a sum divided by the count."""
        reduced = self.reduced(value, "mean")
        node = self.by(value, "divide", "multiply")
        if reduced is not None or node is None:
            return reduced
        total, count = self.args(node)
        reduced = self.reduced(total, "sum")
        number = self.number(count)
        if reduced is None or number is None:
            return None
        size = math.prod(self.shape(reduced.source)[i] for i in reduced.axes)
        if number != (size if node.op == "divide" else 1 / size):
            return None
        return reduced._replace(nodes=(*reduced.nodes, node))

    def trailing(self, reduced: Reduced) -> bool:
        """Whether the last axes were reduced."""
        count, ndim = len(reduced.axes), len(self.shape(reduced.source))
        return count > 0 and reduced.axes == tuple(range(ndim - count, ndim))

    def alone(self, value: int, *users: Node) -> bool:
        """Whether only these nodes take a value, and it is not returned."""
        ids = {user.id for user in users}
        taking = self.draft.users(value)
        return not self.draft.is_output(value) and all(user.id in ids for user in taking)

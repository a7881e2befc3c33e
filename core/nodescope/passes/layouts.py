"""Layouts: what is known about the memory layout of values before they are computed.

NumPy sums in memory order, so the sum over a copy and the sum over the view that it was copied from
differ in their last bits. Before a pass replaces one value by another, it checks here whether the
layouts could make a difference.

Invariant: the answers hold for feeds of any strides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np

from nodescope import ops
from nodescope.ir.graph import Node, TensorSpec
from nodescope.ops.traits import traits_of
from nodescope.passes.draft import Draft

Kind = Literal["rows", "stretched", "dense", "any"]
"""``rows``: in C order without gaps. ``stretched``: the same, with some dimensions of stride 0.
``dense``: without gaps, in any order. The position of dimensions of size 1 does not matter.
"""

EXACT: Final = frozenset(
    [
        "add",
        "subtract",
        "multiply",
        "divide",
        "negative",
        "positive",
        "abs",
        "fabs",
        "square",
        "sqrt",
        "reciprocal",
        "floor",
        "ceil",
        "rint",
        "trunc",
        "sign",
        "isnan",
        "isinf",
        "isfinite",
        "signbit",
        "logical_not",
        "logical_and",
        "logical_or",
        "logical_xor",
        "invert",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "equal",
        "not_equal",
        "maximum",
        "minimum",
        "where",
        "keep",
        "copysign",
        "detach",
        "identity",
        "copy",
    ]
)
"""Ops that round every element exactly once, whatever its position in memory."""

_VIEWS: Final = frozenset(
    [
        "transpose",
        "reshape",
        "squeeze",
        "expand_dims",
        "broadcast_to",
        "flip",
        "concatenate",
        "stack",
    ]
)
_KEEPING: Final = frozenset(["reshape", "squeeze", "expand_dims"])
_IN_ORDER: Final = frozenset(["astype", "zeros_like", "ones_like"])
_REDUCTIONS: Final = frozenset(
    ["sum", "prod", "mean", "max", "min", "any", "all", "argmax", "argmin", "var", "std"]
)
_PRODUCTS: Final = frozenset(["matmul", "concatenate", "stack"])
_MOST: Final = 64  # limit of examined users


class Layouts:
    """The layouts of a draft's values, which follow the draft's changes."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._known: dict[int, Kind] = {}
        self._ready = False

    def of(self, value: int) -> Kind:
        """The layout of a value."""
        layout = self._known.get(value)
        if layout is not None:
            return layout
        if not self._ready:
            self._ready = True
            for node in self._draft:  # in order, so that none waits for another
                for result in node.outputs:
                    self._known.setdefault(result, self._made(node, result, {}))
            layout = self._known.get(value)
        if layout is None:
            maker = self._draft.producer(value)
            layout = "any" if maker is None else self._made(maker, value, {})
            self._known[value] = layout
        return layout

    def harmless(self, value: int, kind: Kind) -> bool:
        """Whether no result changes if the value, with the same elements, has this layout.

        If so, later answers assume that the caller makes this change.
        """
        if self.of(value) == kind == "rows":
            return True
        other: dict[int, Kind] = {value: kind}
        waiting, seen = [value], 0
        while waiting:
            now = waiting.pop()
            if self._goes_on(now):
                return False
            for node in self._draft.users(now):
                seen += 1
                if seen > _MOST or not _indifferent(self._draft, node):
                    return False
                for result in node.outputs:
                    lies = self._made(node, result, other)
                    if result in other or (lies == self.of(result) == "rows"):
                        continue
                    other[result] = lies
                    waiting.append(result)
        self._known.update(other)
        self._draft.known.pop(Layouts, None)  # no longer valid for the next pass
        return True

    def _goes_on(self, value: int) -> bool:
        """Whether a body returns the value in this layout, to its next iteration or to others."""
        draft = self._draft
        return draft.inside and any(
            result == value and i not in draft.copied for i, result in enumerate(draft.outputs)
        )

    def _now(self, value: int, other: Mapping[int, Kind]) -> Kind:
        return other[value] if value in other else self.of(value)

    def _made(self, node: Node, value: int, other: Mapping[int, Kind]) -> Kind:
        spec = self._draft.spec(value)
        if math.prod(spec.shape) <= 1:
            return "rows"
        layout = self._guess(node, value, spec, other)
        if layout == "dense" and sum(n != 1 for n in spec.shape) < 2:
            return "rows"
        return layout

    def _guess(self, node: Node, value: int, spec: TensorSpec, other: Mapping[int, Kind]) -> Kind:
        op, inputs = node.op, node.inputs
        if op == "constant":
            array = self._draft.array(value)
            return "rows" if array is not None and array.flags.c_contiguous else "any"
        if op == "copy":
            return "rows"
        if not inputs:
            return "any"
        definition = ops.get(op)
        if isinstance(definition.impl, np.ufunc) or op == "where":
            return _ufunc(self, inputs, spec, other)
        first = self._now(inputs[0], other)
        if op in _KEEPING:
            return first if first in ("rows", "dense") else "any"
        if op in _IN_ORDER:
            return first if first == "rows" else "dense"
        if op == "transpose":
            return transposed(first, order_of(node, len(spec.shape)), spec.shape)
        if op in ("identity", "detach"):
            return first
        if op == "broadcast_to":
            if self._draft.spec(inputs[0]).shape == spec.shape:
                return first
            return "stretched" if first in ("rows", "stretched") else "any"
        if op == "getitem":
            return "rows" if first == "rows" and _leading(node.attrs["index"]) else "any"
        if traits_of(op).state == "replaces":
            return self._now(inputs[-1], other)
        if op in _REDUCTIONS or op in _PRODUCTS or definition.elementwise or definition.family in (
            "activation", "norm"
        ):  # fmt: skip
            all_rows = all(self._now(operand, other) == "rows" for operand in inputs)
            if op == "matmul" and len(spec.shape) <= 2:
                all_rows = True
            return "rows" if all_rows else "any"
        return "any"


def layouts_of(draft: Draft) -> Layouts:
    """The layouts at the start of a pass: those of the previous pass, if it changed nothing."""
    layouts = draft.known.get(Layouts)
    if layouts is None:
        layouts = draft.known[Layouts] = Layouts(draft)
    return layouts


def _ufunc(
    layouts: Layouts, inputs: tuple[int, ...], spec: TensorSpec, other: Mapping[int, Kind]
) -> Kind:
    # NumPy's iterator prefers row order where operands disagree.
    kinds = []
    for operand in inputs:
        kind = layouts._now(operand, other)
        if kind == "rows" and layouts._draft.spec(operand).shape == spec.shape:
            return "rows"
        kinds.append(kind)
    return "rows" if all(kind in ("rows", "stretched") for kind in kinds) else "dense"


def _leading(index: tuple[Any, ...]) -> bool:
    """Whether an index selects one contiguous piece of a value in row order."""
    for i, item in enumerate(index):
        if isinstance(item, slice):
            return item.step in (None, 1) and all(
                rest == slice(None) or rest is Ellipsis for rest in index[i + 1 :]
            )
        if type(item) is not int:
            return item is Ellipsis and i + 1 == len(index)
    return True


def _indifferent(draft: Draft, node: Node) -> bool:
    """Whether the elements of a node's result depend only on the elements of its operands."""
    op = node.op
    if op in _VIEWS or op in EXACT:
        return op in _VIEWS or not any(
            draft.spec(value).dtype.startswith("complex") for value in (*node.inputs, *node.outputs)
        )
    if op == "getitem":
        return len(node.inputs) == 1
    return traits_of(op).state == "replaces"


def order_of(node: Node, ndim: int) -> tuple[int, ...]:
    """The axes of a transposition, counted from 0."""
    axes = node.attrs["axes"]
    if axes is None:
        return tuple(range(ndim))[::-1]
    return tuple(axis % ndim for axis in axes)


def transposed(kind: Kind, order: tuple[int, ...], shape: tuple[int, ...]) -> Kind:
    """The layout of a transposition to ``shape`` of a value with layout ``kind``."""
    moved = [axis for axis, n in zip(order, shape, strict=True) if n != 1]
    if moved == sorted(moved):
        return kind
    return "dense" if kind in ("rows", "dense") else "any"

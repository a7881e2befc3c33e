"""Roles: what a node can do in a kernel, for a back end.

Invariant: a role depends only on the node, its specs and the back end.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from nodescope import ops
from nodescope.ir.graph import Node, TensorSpec
from nodescope.ops.op import Op
from nodescope.ops.shapes import axes
from nodescope.passes.draft import Draft

Shape = tuple[int, ...]

C_DTYPES = frozenset(
    {"bool", "float32", "float64", *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64))}
)
"""Dtypes in which C kernels compute."""

_ALSO = frozenset({"clip", "gelu_grad", "dropout"})
"""Ops that are elementwise for all arguments possible in kernels: their other operands are
attributes, or have the output's shape.
"""
_MOVES = frozenset({"astype", "broadcast_to"})
"""Layout ops that a loop performs while it reads an operand."""
REDUCTIONS = frozenset({"sum", "prod", "mean", "max", "min", "any", "all"})


@dataclass(frozen=True, slots=True)
class Role:
    """The role of a node in a kernel's loop.

    Attributes:
        space: The shape of its loop: of its output, or of a reduction's input.
        out: The shape of its output.
        axes: Axes of a reduction, normalised and in order; None for an elementwise node.
        reason: Why it joins no kernel although it looks fusible; else ``""``.
    """

    space: Shape
    out: Shape
    axes: Shape | None = None
    reason: str = ""

    @property
    def trailing(self) -> bool:
        """Whether a reduction is over the last axes."""
        return self.axes is not None and self.axes[-1:] == (len(self.space) - 1,)


def role_of(draft: Draft, node: Node) -> Role | None:
    """The role of a node; None if it cannot be part of a kernel at all."""
    how = _how(node.op)
    if how == "":
        return None
    out = draft.spec(node.outputs[0])
    space = out.shape if how != "reduction" or not node.inputs else draft.spec(node.inputs[0]).shape
    reason = ""
    reduced_axes: Shape | None = None
    for_c = draft.options.backend == "c"
    if how == "reduction":
        reduced_axes = tuple(sorted(axes(node.op, node.attrs["axis"], len(space))))
        reason = _reduction_reason(node, space, reduced_axes, for_c)
    elif not for_c and how == "move":
        return None
    if not reason and for_c:
        reason = _c_reason(draft, node, out, how)
    if not reason and 0 in space:
        reason = f"{node.op} of shape {space} has no elements"
    return Role(space, out.shape, reduced_axes, reason)


@functools.cache
def _how(name: str) -> str:
    op: Op = ops.get(name)
    if op.is_leaf or op.outputs != 1 or op.variadic:
        return ""
    if name in REDUCTIONS:
        return "reduction"
    if name in _MOVES:
        return "move"
    return "map" if op.elementwise or name in _ALSO else ""


def _reduction_reason(node: Node, space: Shape, reduced_axes: Shape, for_c: bool) -> str:
    if not for_c:
        return f"{node.op} is a single NumPy call, which fusing does not speed up"
    count = len(reduced_axes)
    if math.prod(space[i] for i in reduced_axes) < 2:
        return f"{node.op} over axes {reduced_axes} of shape {space} reduces nothing"
    if reduced_axes not in (tuple(range(count)), tuple(range(len(space) - count, len(space)))):
        where = f"over axes {reduced_axes} of {len(space)}"
        return f"{node.op} {where}: neither the first nor the last axes"
    return ""


def _c_reason(draft: Draft, node: Node, out: TensorSpec, how: str) -> str:
    if how == "map" and not ops.get(node.op).c:
        return f"{node.op} has no C expression"
    if out.dtype not in C_DTYPES:
        return f"{node.op} produces {out.dtype}, which has no C type"
    for value in node.inputs:
        if draft.spec(value).dtype not in C_DTYPES:
            return f"{node.op} takes {draft.spec(value).dtype}, which has no C type"
    return ""


def rows_of(space: Shape, reduced_axes: Shape) -> Shape:
    """The shape of a reduction over axes that are kept as 1."""
    return tuple(1 if i in reduced_axes else n for i, n in enumerate(space))

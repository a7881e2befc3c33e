"""Writability: which tensors may be written to, and which values fit.

Invariant: the checks run before anything is computed or changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine import dispatch_mode
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.state import current
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import LEAF, Tensor
from nodescope.errors import DtypeError, GradientError, ShapeError, TraceError, UnsupportedError
from nodescope.ops.lowprecision import low

_ASTYPE, _BROADCAST = ops.get("astype"), ops.get("broadcast_to")


def check_writable(target: Tensor, subject: str) -> None:
    """Refuse a write that could not be correct.

    Args:
        target: The tensor to write to.
        subject: The writing expression, for the message.

    Raises:
        GradientError: The target is a leaf that requires a gradient, and gradients are recorded.
        UnsupportedError: Its elements share memory, as in `numpy.broadcast_to`.
        TraceError: A graph is being built, and the tensor is not one of its values.
    """
    data: Any = target.data
    builder = dispatch_mode.builder()
    if data.__class__ is Abstract:
        _check_traced(target, subject, builder)
    if target.edge is LEAF and current().recording:
        name = f" {target.name!r}" if target.name else ""
        raise GradientError(
            f"{subject} would write to the leaf{name}, which requires a gradient",
            source=where(),
            hint="make a new tensor, as in x = x + y; or use nodescope.assign, or write inside "
            "`with nodescope.no_grad():`",
        )
    if data.__class__ is Abstract:
        return
    if builder is not None:
        _check_traced(target, subject, builder)
    elif not data.flags.writeable:
        raise UnsupportedError(
            f"{subject}: the tensor is a read-only view",
            source=where(),
            hint="copy it: x = x.copy()",
        )


def _check_traced(target: Tensor, subject: str, builder: Any) -> None:
    data: Any = target.data
    if data.__class__ is not Abstract:
        if id(target) not in builder.made and not is_state(target):
            raise TraceError(
                f"{subject} would write to a tensor from outside of the graph",
                source=where(),
                hint="return the new value; or make it a parameter and use nodescope.assign",
            )
        return
    if data.graph is not builder:
        raise TraceError(
            f"{subject} would write to a value of another graph, or of the graph around this body",
            source=where(),
            hint="make a new tensor, as in x = x + y, and return it",
        )
    producer = builder.producer(data.value).op
    if producer == "parameter":
        raise TraceError(
            f"{subject} would write to a variable of the graph",
            source=where(),
            hint="use nodescope.assign, which makes the update a node",
        )
    if producer == "placeholder":
        raise TraceError(
            f"{subject} would write to an argument of the graph",
            source=where(),
            hint="make a new tensor, as in x = x + y, or copy it first: x = x.copy()",
        )


def is_state(target: Tensor) -> bool:
    """Whether a tensor is a leaf or parameter, which training changes and which stays a leaf."""
    return target.edge is LEAF or getattr(target, "_kind", "") == "parameter"


def fitted(target: Tensor, result: Tensor, subject: str, *, wider: bool = False) -> Tensor:
    """A result in the shape and dtype of its target.

    Args:
        target: The tensor to write to; it keeps its dtype.
        result: The tensor to write.
        subject: The writing expression, for messages.
        wider: Whether the result may broadcast to a larger target.

    Raises:
        ShapeError: The result does not fit.
        DtypeError: NumPy's "same kind" rule forbids the conversion, such as float to int.
    """
    if result.shape != target.shape:
        if not wider or not _broadcasts(result.shape, target.shape):
            raise ShapeError(
                f"{subject}: a result of shape {result.shape} "
                f"does not fit into shape {target.shape}",
                source=where(),
                hint="make a new tensor, as in x = x + y",
            )
        result = apply(_BROADCAST, (result,), {"shape": target.shape})
    old, new = target.dtype, result.dtype
    if old != new:
        if not _same_kind(new, old):
            raise DtypeError(
                f"{subject}: a tensor of {old} cannot hold {new}",
                source=where(),
                hint=f"make a new tensor, as in x = x + y, or convert: x = x.astype({new.name!r})",
            )
        result = apply(_ASTYPE, (result,), {"dtype": old.name})
    return result


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return len(shape) <= len(target) and all(n in (1, m) for n, m in pairs)


def _same_kind(old: np.dtype[Any], new: np.dtype[Any]) -> bool:
    if low(new):
        return old.kind in "fiub" or low(old)
    if low(old):
        return new.kind in "fc"
    return np.can_cast(old, new, "same_kind")

"""Building blocks of the functions in this package.

Invariant: one call of `call` is one node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine.run import apply, weakened
from nodescope.engine.source import where as where_
from nodescope.engine.symbolic import Abstract
from nodescope.engine.tensor import NO_ATTRS, Tensor, make, operand
from nodescope.errors import DtypeError, ShapeError, UnsupportedError

xp: Any = np
"""NumPy with `Any` annotations: its stubs do not know that its functions accept tensors."""

Table = dict[Any, Callable[..., Any]]
"""A table from NumPy's functions to ours, which take the same arguments."""


def tensor_of(value: Any) -> Tensor:
    """``value`` as a tensor; arrays, lists and numbers become constants."""
    tensor = operand(value)
    if tensor.__class__ is Tensor:
        return tensor
    return make(np.asarray(value), kind="constant")


def call(name: str, *inputs: Any, **attrs: Any) -> Any:
    """Run the op ``name`` on tensors and Python scalars."""
    return apply(ops.get(name), weakened(inputs), attrs or NO_ATTRS)


def refuse_out(name: str, out: Any) -> None:
    """Refuse ``out``, since functions return new tensors. Raises `UnsupportedError`."""
    if out is not None:
        raise UnsupportedError(
            f"{name}: out= is not traced", source=where_(), hint="use the function's result"
        )


def shape_error(text: str, hint: str = "") -> ShapeError:
    """A `ShapeError` that points at the user's line."""
    return ShapeError(text, source=where_(), hint=hint)


def dtype_error(text: str, hint: str = "") -> DtypeError:
    """A `DtypeError` that points at the user's line."""
    return DtypeError(text, source=where_(), hint=hint)


def unsupported(text: str, hint: str = "") -> UnsupportedError:
    """An `UnsupportedError` that points at the user's line."""
    return UnsupportedError(text, source=where_(), hint=hint)


def along(x: Tensor, axis: int, part: Any) -> Tensor:
    """``x`` with one axis indexed by ``part``."""
    return x[(slice(None),) * axis + (part,)]


def concrete(value: Any, subject: str) -> Any:
    """An argument that determines shapes, as an array: a tensor would be data.

    Raises:
        UnsupportedError: The argument is a tensor.
    """
    if isinstance(value, Tensor):
        raise unsupported(
            f"{subject} determines the shape of the result, so it cannot be a tensor",
            "pass a number, list or array, as with .numpy()",
        )
    return np.asarray(value)


def apart(result: Tensor, x: Tensor) -> Tensor:
    """``result``, or a copy if it is a view of ``x``: for functions that never return a view in
    NumPy.

    While a graph is built, only a run would show whether it is a view.
    """
    data: Any = result.data
    if data.__class__ is Abstract or np.may_share_memory(data, x.data):
        return call("copy", result)  # type: ignore[no-any-return]
    return result

"""Operators, methods and NumPy's protocols of tensors in the native core, for simple calls.

A call is simple if its operands are tensors, or numbers beside them, and its other arguments need
no conversion. All others, and all calls without the core, go to the Python function given with
each.

Invariant: a simple call runs the same op on the same inputs, with the same attributes, as the
Python function would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nodescope import ops
from nodescope.engine.run import plain
from nodescope.ops.op import Op

# The numbers of core/native/plain_functions.h.
BINARY, REFLECTED, UNARY, INDEXED, METHOD, SHAPED, UFUNC, FUNCTION = range(8)
_FIRST, _ALL, _ITEMS = range(3)
_AXIS, _FLAG, _SHAPE, _ORDER, _INTEGER, _FIXED = range(6)

Parameter = tuple[str, int, Any, int]
"""The name of an attribute, the values that it takes, its default (``...``: none), and its place
among positional arguments (-1: none)."""

_REDUCED: Final[tuple[Parameter, ...]] = (
    ("axis", _AXIS, None, 1), ("keepdims", _FLAG, False, -1),
)  # fmt: skip
_SPREAD: Final[tuple[Parameter, ...]] = (*_REDUCED, ("ddof", _FIXED, 0, -1))
_JOINED: Final[tuple[Parameter, ...]] = (("axis", _INTEGER, 0, 1),)

_METHODS: Final = {
    **dict.fromkeys(("sum", "prod", "mean", "max", "min", "any", "all"), _REDUCED),
    **dict.fromkeys(("var", "std"), _SPREAD),
}

_FUNCTIONS: Final[dict[str, tuple[tuple[Any, ...], int, int, tuple[Parameter, ...]]]] = {
    "sum": ((np.sum,), _FIRST, 1, _REDUCED),
    "prod": ((np.prod,), _FIRST, 1, _REDUCED),
    "mean": ((np.mean,), _FIRST, 1, _REDUCED),
    "max": ((np.max, np.amax), _FIRST, 1, _REDUCED),
    "min": ((np.min, np.amin), _FIRST, 1, _REDUCED),
    "any": ((np.any,), _FIRST, 1, _REDUCED),
    "all": ((np.all,), _FIRST, 1, _REDUCED),
    "var": ((np.var,), _FIRST, 1, _SPREAD),
    "std": ((np.std,), _FIRST, 1, _SPREAD),
    "reshape": ((np.reshape,), _FIRST, 1, (("shape", _SHAPE, ..., 1),)),
    "transpose": ((np.transpose,), _FIRST, 1, (("axes", _ORDER, None, 1),)),
    "broadcast_to": ((np.broadcast_to,), _FIRST, 1, (("shape", _SHAPE, ..., 1),)),
    "expand_dims": ((np.expand_dims,), _FIRST, 1, (("axis", _INTEGER, ..., 1),)),
    "where": ((np.where,), _ALL, 3, ()),
    "concatenate": ((np.concatenate,), _ITEMS, 1, _JOINED),
    "stack": ((np.stack,), _ITEMS, 1, _JOINED),
}  # fmt: skip


def special(kind: int, op: Op | None, function: Callable[..., Any], detail: Any = None) -> Any:
    """A function that does what ``function`` does; that function itself without a core."""
    return function if plain is None else plain.special(kind, op, detail, function)


def method(op: Op, function: Callable[..., Any]) -> Any:
    """A method with the arguments of a reduction."""
    parameters = _METHODS.get(op.name)
    return function if parameters is None else special(METHOD, op, function, parameters)


def array_function(function: Callable[..., Any]) -> Any:
    """``__array_function__``."""
    layouts = {
        numpy_function: (ops.get(name), kind, many, parameters)
        for name, (functions, kind, many, parameters) in _FUNCTIONS.items()
        for numpy_function in functions
    }
    return special(FUNCTION, None, function, layouts)

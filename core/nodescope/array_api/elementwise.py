"""Element-wise functions: NumPy's ufuncs under the standard's names.

Invariant: a function has the domain and the special values of its ufunc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.array_api.base import tensor_of, traced
from nodescope.engine.tensor import Tensor

_UNARY: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin,
    "asinh": np.arcsinh, "atan": np.arctan, "atanh": np.arctanh, "bitwise_invert": np.invert,
    "ceil": np.ceil, "conj": np.conjugate, "cos": np.cos, "cosh": np.cosh, "exp": np.exp,
    "expm1": np.expm1, "floor": np.floor, "imag": np.imag, "isfinite": np.isfinite,
    "isinf": np.isinf, "isnan": np.isnan, "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "logical_not": np.logical_not, "negative": np.negative,
    "positive": np.positive, "reciprocal": np.reciprocal, "sign": np.sign,
    "signbit": np.signbit, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "square": np.square,
    "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
}  # fmt: skip

_BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "atan2": np.arctan2, "bitwise_and": np.bitwise_and,
    "bitwise_left_shift": np.left_shift, "bitwise_or": np.bitwise_or,
    "bitwise_right_shift": np.right_shift, "bitwise_xor": np.bitwise_xor,
    "copysign": np.copysign, "divide": np.divide, "equal": np.equal,
    "floor_divide": np.floor_divide, "greater": np.greater, "greater_equal": np.greater_equal,
    "hypot": np.hypot, "less": np.less, "less_equal": np.less_equal, "logaddexp": np.logaddexp,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply,
    "nextafter": np.nextafter, "not_equal": np.not_equal, "pow": np.power,
    "remainder": np.remainder, "subtract": np.subtract,
}  # fmt: skip


def _unary(name: str, call: Callable[..., Any]) -> Callable[[Any], Tensor]:
    def function(x: Tensor, /) -> Tensor:
        result: Tensor = call(tensor_of(x))
        return result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.{call.__name__}`, element by element."
    return function


def _binary(name: str, call: Callable[..., Any]) -> Callable[[Any, Any], Tensor]:
    def function(x1: Any, x2: Any, /) -> Tensor:
        if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
            x1 = tensor_of(x1)
        result: Tensor = call(x1, x2)
        return result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.{call.__name__}`, element by element; one may be a Python scalar."
    return function


globals().update({name: _unary(name, call) for name, call in _UNARY.items()})
globals().update({name: _binary(name, call) for name, call in _BINARY.items()})


def real(x: Tensor, /) -> Tensor:
    """The real parts; a real tensor is returned unchanged."""
    return tensor_of(x).real


def round(x: Tensor, /) -> Tensor:
    """The nearest integers, halves to even; integers stay unchanged."""
    tensor = tensor_of(x)
    if tensor.dtype.kind in "iu":
        return +tensor
    if tensor.dtype.kind == "c":
        return traced("round", tensor)
    return traced("rint", tensor)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """The elements limited to the range from ``min`` to ``max``; NaN stays NaN."""
    tensor = tensor_of(x)
    if min is None and max is None:
        return +tensor if tensor.dtype.kind != "b" else tensor
    return traced("clip", tensor, min, max)

"""Functions that return no tensor: shapes, dtypes, whole-array comparisons, text.

Invariant: they read arrays and add nothing to the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.engine.numpy_functions.base import Table
from nodescope.engine.tensor import Tensor


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_array, args), **{key: _array(value) for key, value in kwargs.items()})

    return call


def _array(value: Any) -> Any:
    return value.data if isinstance(value, Tensor) else value


def _of_dtypes(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*(a.dtype if isinstance(a, Tensor) else a for a in args), **kwargs)

    return call


def _einsum_path(*operands: Any, **how: Any) -> Any:
    shapes = [
        np.empty(operand.shape) if isinstance(operand, Tensor) else operand for operand in operands
    ]
    path: Any = np.einsum_path
    return path(*shapes, **how)


NUMPY: Table = {
    np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim, np.size: _plain(np.size),
    np.allclose: _plain(np.allclose), np.array_equal: _plain(np.array_equal),
    np.array_equiv: _plain(np.array_equiv), np.result_type: _of_dtypes(np.result_type),
    np.can_cast: _of_dtypes(np.can_cast), np.common_type: _plain(np.common_type),
    np.min_scalar_type: _plain(np.min_scalar_type),
    np.iscomplexobj: lambda x: x.dtype.kind == "c", np.isrealobj: lambda x: x.dtype.kind != "c",
    np.array_repr: lambda arr, *args, **kwargs: repr(arr),
    np.array_str: lambda a, *args, **kwargs: str(a), np.array2string: _plain(np.array2string),
    np.einsum_path: _einsum_path,
    np.may_share_memory: _plain(np.may_share_memory), np.shares_memory: _plain(np.shares_memory),
}  # fmt: skip

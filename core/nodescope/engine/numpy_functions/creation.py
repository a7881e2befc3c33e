"""Constants: NumPy's functions that make arrays, as tensors.

Invariant: the array is NumPy's own, with its dtype; no gradient flows into it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from nodescope.engine.numpy_functions.base import Table, call, tensor_of
from nodescope.engine.numpy_functions.base import xp as np
from nodescope.engine.tensor import Tensor, make
from nodescope.ops.layout import as_shape


def _constant(function: Callable[..., Any]) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def create(*args: Any, **kwargs: Any) -> Tensor:
        return make(function(*args, **kwargs), kind="constant")

    name = function.__name__
    create.__doc__ = f"`numpy.{name}` as a constant tensor, with the same arguments."
    create.__module__ = __name__
    return create


arange, linspace, logspace, geomspace = map(
    _constant, (np.arange, np.linspace, np.logspace, np.geomspace)
)
eye, identity, tri, zeros, ones, full = map(
    _constant, (np.eye, np.identity, np.tri, np.zeros, np.ones, np.full)
)
# Unwritten memory would make runs differ: zeros are used instead.
empty = _constant(np.zeros)
empty.__name__ = "empty"
empty.__doc__ = "As `zeros`: a tensor always has values."


def _like(op: str, fill: Any) -> Callable[..., Any]:
    def like(
        a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
        device: Any = None,
    ) -> Any:  # fmt: skip
        x = tensor_of(a)
        if dtype is None and shape is None:
            return call(op, x)
        sizes = x.shape if shape is None else as_shape(shape)
        return make(np.full(sizes, fill, dtype or x.dtype), kind="constant")

    like.__name__ = op
    return like


zeros_like, ones_like = _like("zeros_like", 0), _like("ones_like", 1)


def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None, *, device: Any = None,
) -> Tensor:  # fmt: skip
    """``np.full_like``; a tensor as ``fill_value`` stays in the graph."""
    x = tensor_of(a)
    sizes = x.shape if shape is None else as_shape(shape)
    fill_dtype = dtype or x.dtype
    if isinstance(fill_value, Tensor):
        return call("broadcast_to", fill_value.astype(fill_dtype), shape=sizes)
    return make(np.full(sizes, fill_value, fill_dtype), kind="constant")


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """``np.vander``."""
    base = tensor_of(x)
    size = base.size if N is None else N
    powers = np.arange(size) if increasing else np.arange(size)[::-1]
    dtype = np.promote_types(base.dtype, int)
    columns = [base.astype(dtype) ** int(power) for power in powers]
    if not columns:
        return make(np.zeros((base.size, 0), dtype), kind="constant")
    return call("stack", *columns, axis=1)


NUMPY: Table = {
    np.zeros_like: zeros_like, np.ones_like: ones_like, np.full_like: full_like,
    np.empty_like: zeros_like, np.vander: vander,
}  # fmt: skip

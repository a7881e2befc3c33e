"""Ufuncs beyond the plain call: the methods reduce, accumulate and outer, and ``dtype=``.

Invariant: what is not traced is refused by name and says what to use instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodescope.engine.numpy_functions.base import dtype_error, tensor_of, unsupported
from nodescope.engine.numpy_functions.base import xp as np
from nodescope.engine.numpy_functions.cumulative import UFUNC_ACCUMULATE
from nodescope.engine.numpy_functions.nan import NUMPY as _NAN
from nodescope.engine.numpy_functions.products import vecdot
from nodescope.engine.numpy_functions.reduce import UFUNC_REDUCE
from nodescope.engine.numpy_functions.writing import at, into
from nodescope.engine.run import apply
from nodescope.engine.tensor import NO_ATTRS, Tensor, operand
from nodescope.ops.op import Op

_REDUCE = {**UFUNC_REDUCE, np.fmax: _NAN[np.nanmax], np.fmin: _NAN[np.nanmin]}


def called(
    op: Op | None,
    ufunc: np.ufunc,
    method: str,
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any],
    not_traced: Callable[[str], Exception],
) -> Any:
    """What NumPy's ``ufunc.method(*inputs, **kwargs)`` is on tensors.

    Raises:
        UnsupportedError: It is not traced.
    """
    name = f"np.{ufunc.__name__}"
    if "out" in kwargs:
        rest = dict(kwargs)
        targets, where = rest.pop("out"), rest.pop("where", True)
        if len(targets) != 1:
            raise unsupported(f"{name} with several out= is not traced", "use the results")
        return into(name, targets[0], lambda: getattr(ufunc, method)(*inputs, **rest), where)
    if method == "__call__":
        if op is None:
            raise not_traced(name)
        return _with_arguments(op, ufunc, inputs, kwargs)
    if method == "reduce":
        return _reduce(op, ufunc, name, *inputs, **kwargs)
    if method == "accumulate" and ufunc in UFUNC_ACCUMULATE:
        return UFUNC_ACCUMULATE[ufunc](*inputs, **kwargs)
    if method == "outer" and op is not None and len(inputs) == 2 and not kwargs:
        a, b = map(tensor_of, inputs)
        return ufunc(a.reshape(a.shape + (1,) * b.ndim), b)
    if method == "at" and ufunc in (np.add, np.subtract):
        return at(ufunc.__name__, *inputs)
    hints = {
        "at": "nodescope.index_add(x, index, value) gives a new tensor",
        "accumulate": "np.cumsum and np.cumprod are traced",
        "reduceat": "split first, then reduce each part",
    }
    raise unsupported(
        f"{name}.{method} is not traced",
        hints.get(method, "use .numpy() first to leave the graph"),
    )


def _reduce(
    op: Op | None, ufunc: np.ufunc, name: str, array: Any, *args: Any, **kwargs: Any
) -> Any:
    known = _REDUCE.get(ufunc)
    if known is not None:
        if not args:
            kwargs.setdefault("axis", 0)
        return known(array, *args, **kwargs)
    if op is None or ufunc.nin != 2 or ufunc.identity is None or op.vjp is not None:
        raise unsupported(
            f"{name}.reduce is not traced", "use .numpy() first to leave the graph, or np.sum"
        )
    return _folded(op, ufunc, name, array, *args, **kwargs)


def _folded(
    op: Op, ufunc: np.ufunc, name: str, array: Any, axis: int = 0, keepdims: bool = False,
    **rest: Any,
) -> Any:  # fmt: skip
    """Of associative functions of bits: halves of the axis are combined until one is left."""
    if rest or not isinstance(axis, int):
        raise unsupported(f"{name}.reduce: only one axis and keepdims are traced")
    x = np.moveaxis(tensor_of(array), axis, 0)
    if not len(x):
        x = tensor_of(np.full((1, *x.shape[1:]), ufunc.identity, x.dtype))
    while len(x) > 1:
        half = len(x) // 2
        folded = apply(op, (x[:half], x[half : 2 * half]), NO_ATTRS)
        x = np.concatenate([folded, x[2 * half :].astype(folded.dtype)]) if len(x) % 2 else folded
    return np.moveaxis(x, 0, axis) if keepdims else x[0]


def _with_arguments(
    op: Op, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if ufunc is np.vecdot and set(kwargs) == {"axis"}:
        return vecdot(*inputs, **kwargs)
    other = next((each for each in kwargs if each != "dtype"), None)
    name = f"np.{ufunc.__name__}"
    if other is not None:
        hint = "select with np.where" if other == "where" else "convert with .astype"
        raise unsupported(f"{name}: the argument {other}= is not traced", hint)
    found = [operand(each) for each in inputs]
    if None in [each if each is None else 0 for each in found]:
        return NotImplemented
    given = [each.dtype if isinstance(each, Tensor) else type(each) for each in found]
    wanted = np.dtype(kwargs["dtype"])
    signature = (*(None,) * ufunc.nin, *(wanted,) * ufunc.nout)
    try:
        dtypes = ufunc.resolve_dtypes(
            (*given, *(None,) * ufunc.nout), signature=signature, casting="same_kind"
        )
    except TypeError:
        raise dtype_error(
            f"{name}: cannot be computed with dtype={wanted}", "convert the result with .astype"
        ) from None
    converted = tuple(
        each if not isinstance(each, Tensor) or each.dtype == dtype else each.astype(dtype)
        for each, dtype in zip(found, dtypes, strict=False)
    )
    return apply(op, converted, NO_ATTRS)

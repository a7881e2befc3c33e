"""Ufuncs beyond the plain call: the methods reduce, accumulate and outer, and ``dtype=``.

Invariant: untraced calls are refused by name, with an alternative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodescope.engine.numpy_functions.base import dtype_error, refuse_out, tensor_of, unsupported
from nodescope.engine.numpy_functions.base import xp as np
from nodescope.engine.numpy_functions.cumulative import UFUNC_ACCUMULATE
from nodescope.engine.numpy_functions.nan import NUMPY as _NAN
from nodescope.engine.numpy_functions.ranges import reduceat
from nodescope.engine.numpy_functions.reduce import UFUNC_REDUCE, masked
from nodescope.engine.numpy_functions.writing import at, into
from nodescope.engine.run import apply
from nodescope.engine.tensor import NO_ATTRS, Tensor, operand
from nodescope.ops.op import Op
from nodescope.ops.reduction import as_axis
from nodescope.ops.shapes import axes, count

_REDUCE = {**UFUNC_REDUCE, np.fmax: _NAN[np.nanmax], np.fmin: _NAN[np.nanmin]}


def called(
    op: Op | None,
    ufunc: np.ufunc,
    method: str,
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any],
    not_traced: Callable[[str], Exception],
) -> Any:
    """NumPy's ``ufunc.method(*inputs, **kwargs)`` on tensors.

    Raises:
        UnsupportedError: The call is not traced.
    """
    name = f"np.{ufunc.__name__}"
    if "out" in kwargs:
        rest = dict(kwargs)
        targets, where = rest.pop("out"), rest.pop("where", True)
        if len(targets) != 1:
            raise unsupported(f"{name} with several out= is not traced", "use the results")
        return into(
            name, targets[0], lambda: getattr(ufunc, method)(*inputs, **rest), where,
            wider=method in ("__call__", "outer"),
        )  # fmt: skip
    if method == "__call__":
        if op is None:
            raise not_traced(name)
        return _with_arguments(op, ufunc, inputs, kwargs)
    if method == "reduce":
        return _reduce(op, ufunc, name, *inputs, **kwargs)
    if method == "accumulate" and ufunc in UFUNC_ACCUMULATE:
        return UFUNC_ACCUMULATE[ufunc](*inputs, **kwargs)
    if method == "outer" and op is not None and len(inputs) == 2:
        a, b = map(tensor_of, inputs)
        return ufunc(a.reshape(a.shape + (1,) * b.ndim), b, **kwargs)
    if method == "reduceat" and ufunc in _REDUCE:
        return reduceat(_REDUCE[ufunc], name, *inputs, **kwargs)
    if method == "at" and ufunc in (np.add, np.subtract):
        return at(ufunc.__name__, *inputs)
    hints = {
        "at": f"write x[index] = {name}(x[index], ...), which counts a repeated index once",
        "accumulate": "np.cumsum and np.cumprod are traced",
        "reduceat": "split first, then reduce each part",
        "outer": "add an axis: f(a[:, None], b)",
    }
    raise unsupported(
        f"{name}.{method} is not traced",
        hints.get(method, "use .numpy() first to leave the graph"),
    )


def _reduce(
    op: Op | None, ufunc: np.ufunc, name: str, array: Any, axis: Any = 0, dtype: Any = None,
    out: None = None, keepdims: bool = False, initial: Any = None, where: Any = True,
) -> Any:  # fmt: skip
    """``ufunc.reduce`` with NumPy's arguments, in their order."""
    refuse_out(f"{name}.reduce", out)
    known = _REDUCE.get(ufunc)
    rest: dict[str, Any] = {}
    if initial is not None:
        rest["initial"] = initial
    if where is not True:
        rest["where"] = where
    if known is not None:
        if ufunc in (np.add, np.multiply):
            rest["dtype"] = dtype
        elif dtype is not None:
            array = tensor_of(array).astype(dtype, copy=False)
        return known(array, axis=axis, keepdims=keepdims, **rest)
    if op is None or ufunc.nin != 2 or ufunc.identity is None or op.vjp is not None:
        raise unsupported(
            f"{name}.reduce is not traced", "use .numpy() first to leave the graph, or np.sum"
        )
    x = tensor_of(array) if dtype is None else tensor_of(array).astype(dtype, copy=False)
    return _folded(op, ufunc, x, axis, keepdims, initial, where)


def _folded(
    op: Op, ufunc: np.ufunc, x: Any, axis: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    """Reduce with an associative bit function: combine the halves until one element is left."""
    if where is not True:
        x = masked(x, where, ufunc.identity)
    reduced_axes = axes(f"{ufunc.__name__}.reduce", as_axis(axis), x.ndim)
    wide = tuple(1 if i in reduced_axes else n for i, n in enumerate(x.shape))
    kept = tuple(i for i in range(x.ndim) if i not in reduced_axes)
    shape = tuple(x.shape[i] for i in kept)
    x = np.transpose(x, (*reduced_axes, *kept)).reshape((count(x.shape, reduced_axes), *shape))
    if not len(x):
        x = tensor_of(np.full((1, *shape), ufunc.identity, x.dtype))
    while len(x) > 1:
        half = len(x) // 2
        folded = apply(op, (x[:half], x[half : 2 * half]), NO_ATTRS)
        x = np.concatenate([folded, x[2 * half :].astype(folded.dtype)]) if len(x) % 2 else folded
    result = x[0].reshape(wide) if keepdims else x[0]
    return result if initial is None else ufunc(result, initial)


_CORES = {np.matmul: (2, 2, 2), np.matvec: (2, 1, 1), np.vecmat: (1, 2, 1), np.vecdot: (1, 1, 0)}
"""The numbers of axes of each operand, and of the result, that take part in a product."""


def _along(
    ufunc: np.ufunc, a: Any, b: Any, /, *, axes: Any = None, axis: Any = None,
    keepdims: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """A product along named axes: they are moved to the end, and those of the result are moved
    back.
    """
    name = f"np.{ufunc.__name__}"
    if axes is not None and (axis is not None or keepdims):
        raise unsupported(f"{name}: axes= is not combined with axis= or keepdims=", "omit one")
    if axes is None:
        if ufunc is not np.vecdot:
            raise unsupported(f"{name}: axis= and keepdims= are for np.vecdot", "give axes=")
        axis = -1 if axis is None else axis
        axes = [axis, axis]
    places = [place if isinstance(place, tuple) else (place,) for place in axes]
    if ufunc is np.vecdot and len(places) == 2:
        places.append(())
    if tuple(map(len, places)) != _CORES[ufunc]:
        example = [tuple(range(-n, 0)) for n in _CORES[ufunc]]
        raise unsupported(f"{name}: axes={axes!r} are not those of a product", f"as in {example}")
    first, second = (
        np.moveaxis(tensor_of(factor), place, range(-len(place), 0))
        for factor, place in zip((a, b), places, strict=False)
    )
    product = ufunc(first, second, **kwargs)
    product = np.moveaxis(product, range(-len(places[2]), 0), places[2])
    return np.expand_dims(product, axis) if keepdims else product


def _with_arguments(
    op: Op, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if ufunc in _CORES and not kwargs.keys().isdisjoint(("axes", "axis", "keepdims")):
        return _along(ufunc, *inputs, **kwargs)
    name = f"np.{ufunc.__name__}"
    if kwargs.get("where", True) is not True:
        raise unsupported(
            f"{name}: where= without out= leaves elements without a value",
            "select with np.where, or give out= a tensor",
        )
    if "signature" in kwargs or "sig" in kwargs:
        raise unsupported(f"{name}: the argument signature= is not traced", "say dtype=")
    kwargs = {key: value for key, value in kwargs.items() if key in ("dtype", "casting")}
    casting = kwargs.get("casting", "same_kind")
    operands = [operand(value) for value in inputs]
    if None in [operand_ if operand_ is None else 0 for operand_ in operands]:
        return NotImplemented
    operand_dtypes = [
        operand_.dtype if isinstance(operand_, Tensor) else type(operand_) for operand_ in operands
    ]
    result_dtype = None if kwargs.get("dtype") is None else np.dtype(kwargs["dtype"])
    signature = (*(None,) * ufunc.nin, *(result_dtype,) * ufunc.nout)
    try:
        dtypes = ufunc.resolve_dtypes(
            (*operand_dtypes, *(None,) * ufunc.nout), signature=signature, casting=casting
        )
    except TypeError:
        given_as = "" if result_dtype is None else f" with dtype={result_dtype}"
        raise dtype_error(
            f"{name}: cannot be computed{given_as} by the rule casting={casting!r}",
            "convert the operands with .astype",
        ) from None
    converted = tuple(
        operand_
        if not isinstance(operand_, Tensor) or operand_.dtype == dtype
        else operand_.astype(dtype)
        for operand_, dtype in zip(operands, dtypes, strict=False)
    )
    return apply(op, converted, NO_ATTRS)

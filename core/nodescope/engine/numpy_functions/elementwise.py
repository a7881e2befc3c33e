"""Elementwise functions composed of ufuncs, and functions of neighbouring elements.

Invariant: result dtypes are NumPy's, because the same ufuncs determine them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nodescope.engine.numpy_functions.base import (
    Table,
    along,
    call,
    dtype_error,
    refuse_out,
    shape_error,
    tensor_of,
    unsupported,
)
from nodescope.engine.numpy_functions.base import (
    xp as np,
)
from nodescope.engine.tensor import Tensor, operand
from nodescope.ops.shapes import axes


def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: None = None, *, min: Any = None,
    max: Any = None,
) -> Any:  # fmt: skip
    """``np.clip``, with scalar or array bounds."""
    refuse_out("np.clip", out)
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    if any(isinstance(bound, Tensor | np.ndarray | np.generic | list) for bound in (low, high)):
        if low is not None:
            a = np.maximum(tensor_of(a), low)
        return a if high is None else np.minimum(tensor_of(a), high)
    return call("clip", tensor_of(a), low=low, high=high)


def angle(z: Any, deg: bool = False) -> Tensor:
    """``np.angle``."""
    x = tensor_of(z)
    angles = (
        np.arctan2(call("imag", x), call("real", x)) if x.dtype.kind == "c" else np.arctan2(0, x)
    )
    return angles * (180 / math.pi) if deg else angles


def fix(x: Any, out: None = None) -> Tensor:
    """``np.fix``: round towards 0."""
    refuse_out("np.fix", out)
    return np.trunc(tensor_of(x))


def _sign_of_infinity(name: str, negative: bool) -> Callable[..., Tensor]:
    def function(x: Any, out: None = None) -> Tensor:
        refuse_out(f"np.{name}", out)
        tensor = tensor_of(x)
        if tensor.dtype.kind == "c":
            raise dtype_error(f"np.{name}: not defined for {tensor.dtype}")
        sign = np.signbit(tensor) if tensor.dtype.kind == "f" else tensor < 0
        return np.logical_and(np.isinf(tensor), sign if negative else ~sign)

    return function


def _is_real(name: str, real: bool) -> Callable[..., Tensor]:
    def function(x: Any) -> Tensor:
        tensor = tensor_of(x)
        flat = (
            np.zeros_like(tensor, dtype=bool)
            if tensor.dtype.kind != "c"
            else call("imag", tensor) != 0
        )
        return np.logical_not(flat) if real else flat

    return function


def unwrap(
    p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi
) -> Tensor:
    """``np.unwrap``: jumps of more than half a period are removed."""
    x = tensor_of(p)
    (at,) = axes("unwrap", (axis,), x.ndim)
    dtype = np.result_type(x.dtype, period)
    steps = diff(x.astype(dtype) if x.dtype != dtype else x, axis=at)
    half = period / 2
    wrapped = (steps + half) % period - half
    wrapped = np.where((wrapped == -half) & (steps > 0), np.asarray(half, dtype), wrapped)
    correction = wrapped - steps
    limit = half if discont is None else discont
    correction = np.where(np.abs(steps) < limit, np.asarray(0, dtype), correction)
    first = along(x, at, slice(None, 1)).astype(dtype)
    rest = along(x, at, slice(1, None)).astype(dtype) + np.cumsum(correction, axis=at)
    return np.concatenate([first, rest], axis=at)


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Tensor:
    """``np.interp``: piecewise linear interpolation; differentiable in all three tensors."""
    where, places, values = tensor_of(x), tensor_of(xp), tensor_of(fp)
    if places.ndim != 1 or places.shape != values.shape or not places.size:
        raise shape_error(f"np.interp: points {places.shape} and values {values.shape} do not fit")
    where, places = where.astype(np.float64), places.astype(np.float64)
    values = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    if period is not None:
        period, left, right = abs(period), None, None
        where, places = where % period, places % period
        order = np.argsort(places)
        places, values = places[order], values[order]
        places = np.concatenate([places[-1:] - period, places, places[:1] + period])
        values = np.concatenate([values[-1:], values, values[:1]])
    first, final = values[0], values[-1]
    if places.size == 1:
        result: Any = where * 0 + first
    else:
        upper = np.clip(np.searchsorted(places, where, side="right"), 1, places.size - 1)
        start, end = places[upper - 1], places[upper]
        low, high = values[upper - 1], values[upper]
        result = (high - low) / (end - start) * (where - start) + low
    result = np.where(where < places[0], first if left is None else left, result)
    result = np.where(where > places[-1], final if right is None else right, result)
    result = np.where(where == places[-1], final, result)
    return np.where(np.isnan(where), np.nan, result)


# Neighbours


def diff(
    a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> Tensor:  # fmt: skip
    """``np.diff``."""
    x = tensor_of(a)
    if not x.ndim or n < 0:
        raise shape_error(f"np.diff: order {n} of shape {x.shape} is not defined")
    (at,) = axes("diff", (axis,), x.ndim)
    if prepend is not None or append is not None:
        single = (*x.shape[:at], 1, *x.shape[at + 1 :])
        ends = [
            edge if edge is None or edge.ndim else call("broadcast_to", edge, shape=single)
            for edge in (None if e is None else tensor_of(e) for e in (prepend, append))
        ]
        x = np.concatenate([e for e in (ends[0], x, ends[1]) if e is not None], axis=at)
    for _ in range(n):
        later, earlier = along(x, at, slice(1, None)), along(x, at, slice(None, -1))
        x = later != earlier if x.dtype == bool else later - earlier
    return x


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """``np.ediff1d``."""
    x = tensor_of(ary)
    differences = diff(x.ravel())
    ends = [None if end is None else tensor_of(end).ravel() for end in (to_begin, to_end)]
    parts = [end.astype(x.dtype) if end is not None else None for end in ends]
    joined = [part for part in (parts[0], differences, parts[1]) if part is not None]
    return np.concatenate(joined) if len(joined) > 1 else differences


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """``np.gradient``: central differences inside, one-sided at the ends."""
    x = tensor_of(f)
    if edge_order not in (1, 2):
        raise unsupported("np.gradient: edge_order must be 1 or 2")
    if x.dtype.kind in "biu":
        if x.dtype == bool:
            raise dtype_error("np.gradient: not defined for bool")
        x = x.astype(np.float64)
    along_all = axes(
        "gradient", axis if axis is None else tuple(np.atleast_1d(axis).tolist()), x.ndim
    )
    steps = list(varargs) or [1.0]
    if len(steps) == 1:
        steps = steps * len(along_all)
    if len(steps) != len(along_all):
        raise shape_error(f"np.gradient: {len(steps)} spacings for {len(along_all)} axes")
    slopes = [_slope(x, at, h, edge_order) for at, h in zip(along_all, steps, strict=True)]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _slope(x: Tensor, at: int, spacing: Any, order: int) -> Tensor:
    size = x.shape[at]
    if size < order + 1:
        raise shape_error(f"np.gradient: axis {at} of {x.shape} needs {order + 1} elements")

    def part(start: int | None, stop: int | None) -> Tensor:
        return along(x, at, slice(start, stop))

    h = operand(spacing)
    if not isinstance(h, Tensor) or not h.ndim:
        inner = (part(2, None) - part(None, -2)) / (2.0 * h)
        if order == 1:
            ends = [(part(1, 2) - part(0, 1)) / h, (part(-1, None) - part(-2, -1)) / h]
        else:
            ends = [
                (-1.5 / h) * part(0, 1) + (2.0 / h) * part(1, 2) + (-0.5 / h) * part(2, 3),
                (0.5 / h) * part(-3, -2) + (-2.0 / h) * part(-2, -1) + (1.5 / h) * part(-1, None),
            ]
    else:
        if h.shape != (size,):
            raise shape_error(f"np.gradient: {h.shape} places for {size} elements of axis {at}")
        wide = [1] * x.ndim
        wide[at] = -1
        dx = diff(h)
        d1, d2 = dx[:-1].reshape(wide), dx[1:].reshape(wide)
        a, b, c = -d2 / (d1 * (d1 + d2)), (d2 - d1) / (d1 * d2), d1 / (d2 * (d1 + d2))
        inner = a * part(None, -2) + b * part(1, -1) + c * part(2, None)
        if order == 1:
            ends = [(part(1, 2) - part(0, 1)) / dx[0], (part(-1, None) - part(-2, -1)) / dx[-1]]
        else:
            p, q, r, s = dx[0], dx[1], dx[-2], dx[-1]
            ends = [
                -(2.0 * p + q) / (p * (p + q)) * part(0, 1) + (p + q) / (p * q) * part(1, 2)
                + -p / (q * (p + q)) * part(2, 3),
                s / (r * (r + s)) * part(-3, -2) + -(s + r) / (r * s) * part(-2, -1)
                + (2.0 * s + r) / (s * (r + s)) * part(-1, None),
            ]  # fmt: skip
    # The result has the dtype of the values, regardless of that of the positions.
    return np.concatenate([ends[0], inner, ends[1]], axis=at).astype(x.dtype)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """``np.trapezoid``: the integral by the trapezoidal rule."""
    values = tensor_of(y)
    (at,) = axes("trapezoid", (axis,), values.ndim)
    width: Any = dx
    if x is not None:
        places = tensor_of(x)
        if places.ndim == 1:
            wide = [1] * values.ndim
            wide[at] = -1
            width = diff(places).reshape(wide)
        else:
            width = diff(places, axis=at)
    both = along(values, at, slice(1, None)) + along(values, at, slice(None, -1))
    return np.sum(width * both / 2.0, axis=at)


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Tensor:
    """``np.cross`` of 3-vectors."""
    if axis is not None:
        axisa = axisb = axisc = axis
    left = np.moveaxis(tensor_of(a), axisa, -1)
    right = np.moveaxis(tensor_of(b), axisb, -1)
    if left.shape[-1:] != (3,) or right.shape[-1:] != (3,):
        raise shape_error(
            f"np.cross: expected vectors of length 3, got {left.shape} and {right.shape}"
        )
    (a0, a1, a2), (b0, b1, b2) = ([v[..., i] for i in range(3)] for v in (left, right))
    product = np.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1)
    return np.moveaxis(product, -1, axisc)


def polyval(p: Any, x: Any) -> Tensor:
    """``np.polyval``: the highest power first."""
    factors, places = tensor_of(p), tensor_of(x)
    result: Any = np.zeros_like(places)
    for i in range(factors.size):
        result = result * places + factors[i]
    return result


# Convolution of vectors


def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    """``np.convolve``."""
    long, short = tensor_of(a), tensor_of(v)
    if long.ndim > 1 or short.ndim > 1 or not long.size or not short.size:
        raise shape_error(f"np.convolve: expected two vectors, got {long.shape} and {short.shape}")
    long, short = long.ravel(), short.ravel()
    if short.size > long.size:
        long, short = short, long
    full = call("convolve", long, short)
    if mode == "full":
        return full
    if mode not in ("same", "valid"):
        raise unsupported(f"np.convolve: mode={mode!r}", "use full, same or valid")
    cut = (short.size - 1) // 2 if mode == "same" else short.size - 1
    size = long.size if mode == "same" else long.size - short.size + 1
    return full[cut : cut + size]


def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    """``np.correlate``."""
    long, short = tensor_of(a), tensor_of(v)
    turned = np.flip(np.conjugate(short)) if short.dtype.kind == "c" else np.flip(short)
    if mode != "same" or short.size <= long.size:
        return convolve(long, turned, mode)
    # Of the two middles of an even number of elements, np.correlate keeps the other one.
    cut = long.size // 2
    full = convolve(long, turned)
    return full[cut : cut + short.size]


NUMPY: Table = {
    np.clip: clip, np.angle: angle, np.fix: fix, np.isposinf: _sign_of_infinity("isposinf", False),
    np.isneginf: _sign_of_infinity("isneginf", True), np.isreal: _is_real("isreal", True),
    np.iscomplex: _is_real("iscomplex", False), np.unwrap: unwrap, np.interp: interp,
    np.diff: diff, np.ediff1d: ediff1d, np.gradient: gradient, np.trapezoid: trapezoid,
    np.cross: cross, np.linalg.cross: lambda x1, x2, /, *, axis=-1: cross(x1, x2, axis=axis),
    np.convolve: convolve,
    np.polyval: polyval, np.correlate: correlate,
}  # fmt: skip

"""Sliding windows over images: their arithmetic, for convolution and pooling.

All arrays have two spatial dimensions; sequences are images of height 1.

Invariant: only this module computes positions and padding and raises their errors, so that `infer`
and `impl` agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import DtypeError, ShapeError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import TensorSpec
from nodescope.ops.lowprecision import promote
from nodescope.ops.op import Array, Operand

Sizes = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]

_LETTERS = {1: "(N, C, L)", 2: "(N, C, H, W)"}
_NARROW = ("float16", "bfloat16")


def positions(
    name: str, size: Sizes, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes
) -> Sizes:
    """The number of positions of a window along each dimension.

    Raises:
        ShapeError: The window does not fit even once, or a size is not positive.
    """
    counts = []
    for n, k, s, (low, high), d in zip(size, kernel, stride, padding, dilation, strict=True):
        if k < 1 or s < 1 or d < 1:
            raise ShapeError(
                f"{name}: kernel {kernel}, stride {stride} and dilation {dilation} must be positive"
            )
        if low < 0 or high < 0:
            raise ShapeError(
                f"{name}: padding {padding} must not be negative", hint="slice the input instead"
            )
        reach = d * (k - 1) + 1
        if n + low + high < reach:
            wide = f", {reach} wide with dilation {d}" if d > 1 else ""
            raise ShapeError(
                f"{name}: a kernel of {k}{wide} does not fit into {n} elements padded by "
                f"{low} and {high}",
                hint="use a smaller kernel or more padding",
            )
        counts.append((n + low + high - reach) // s + 1)
    return tuple(counts)


def image(name: str, operand: Operand, spatial: int) -> TensorSpec:
    """The spec of a batch of images or sequences. Raises `ShapeError` for another rank."""
    if not isinstance(operand, TensorSpec) or len(operand.shape) != spatial + 2:
        shape = operand.shape if isinstance(operand, TensorSpec) else ()
        raise ShapeError(
            f"{name}: expected {_LETTERS[spatial]}, got shape {shape}",
            hint="add a batch dimension with x[None]?" if len(shape) == spatial + 1 else "",
        )
    return operand


def floating(name: str, *operands: Operand | None) -> np.dtype[Any]:
    """The common dtype. Raises `DtypeError` unless it is floating point or complex."""
    specs = (operand for operand in operands if isinstance(operand, TensorSpec))
    dtype = promote(*(as_dtype(spec.dtype) for spec in specs))
    if dtype.kind not in "fcV":
        raise DtypeError(
            f"{name}: not defined for {dtype}", hint="convert with .astype(np.float32)"
        )
    return dtype


def specs_of(*arrays: Any) -> tuple[Any, ...]:
    """Specs of arrays in the form that `infer` expects, so that ``impl`` can use it to check a
    call.
    """
    return tuple(
        TensorSpec(array.shape, array.dtype.name) if hasattr(array, "shape") else array
        for array in arrays
    )


def working(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype for sums: half precision is summed in float32."""
    return np.dtype(np.float32) if dtype.name in _NARROW else dtype


def padded(x: Array, padding: Padding, value: Any = 0) -> Array:
    """The array with a border of ``value``, or the array itself if there is no border."""
    (top, bottom), (left, right) = padding
    if not (top or bottom or left or right):
        return x
    n, c, h, w = x.shape
    whole = np.empty((n, c, top + h + bottom, left + w + right), x.dtype)
    for border in (
        whole[:, :, :top], whole[:, :, top + h :], whole[..., :left], whole[..., left + w :]
    ):  # fmt: skip
        border[...] = value
    whole[:, :, top : top + h, left : left + w] = x
    return whole


def inner(x: Array, padding: Padding) -> Array:
    """The array without its border."""
    (top, bottom), (left, right) = padding
    h, w = x.shape[2:]
    return x[:, :, top : h - bottom, left : w - right]


def lift(x: Array) -> Array:
    """Sequences as images of height 1; images are returned unchanged."""
    return x if x.ndim == 4 else x[:, :, None, :]


def flat(x: Array, spatial: int) -> Array:
    """The inverse of `lift`."""
    return x if spatial == 2 else x[:, :, 0, :]


def pair(sizes: Sizes, filler: int = 1) -> tuple[int, int]:
    """Sizes along two dimensions, the first ``filler`` for a sequence."""
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (filler, sizes[0])


def pair_padding(padding: Padding) -> Padding:
    """Padding along two dimensions."""
    return padding if len(padding) == 2 else ((0, 0), *padding)

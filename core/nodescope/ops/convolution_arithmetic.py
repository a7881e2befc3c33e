"""The arithmetic of convolution: windows laid out as columns, multiplied by BLAS, image by image.

If the stride is 1, a column runs over whole padded rows, including the few elements between two
rows: copying single rows would cost more than the wasted products. On LeNet's shapes, this was
measured to be 1.2 to 1.8 times as fast.

Invariant: plain arrays of two spatial dimensions, checked by the caller; results are contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nodescope.ops.op import Array
from nodescope.ops.windows import Padding, inner, padded

_PART_BYTES = 4 << 20  # bytes of columns at a time; more would leave the caches and fault new pages
_WASTE = 8.0  # wasted products per copied element beyond which copying row by row is cheaper


class ConvolutionPlan(NamedTuple):
    """The geometry of one convolution.

    Attributes:
        kernel, stride, dilation: Along the two dimensions.
        padding: Before and after, along each.
        groups: Number of groups, each of which only sees its own channels.
        outputs: Output channels of one group.
        out: Positions along the two dimensions.
        shape: Of the padded images, without the batch.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: Padding
    groups: int
    outputs: int
    out: tuple[int, int]
    shape: tuple[int, int, int]

    @property
    def rows_run_on(self) -> bool:
        """Whether columns run over whole padded rows."""
        if self.stride != (1, 1):
            return False
        wasted = self.shape[2] / self.out[1] - 1.0
        return wasted * self.outputs < _WASTE

    @property
    def length(self) -> int:
        """Elements of a column's row."""
        if self.rows_run_on:
            return (self.out[0] - 1) * self.shape[2] + self.out[1]
        return self.out[0] * self.out[1]

    @property
    def taps(self) -> int:
        """Rows of the columns of one group."""
        return self.shape[0] // self.groups * self.kernel[0] * self.kernel[1]


def _windows(x: Array, plan: ConvolutionPlan) -> Array:
    """A view of the padded images of shape (N, C, kh, kw, …): the input of each tap."""
    n, c = x.shape[:2]
    by_image, by_channel, by_row, by_column = x.strides
    (down, right), (dh, dw) = plan.stride, plan.dilation
    lead, steps = (n, c, *plan.kernel), (by_image, by_channel, by_row * dh, by_column * dw)
    if plan.rows_run_on:
        return as_strided(x, (*lead, plan.length), (*steps, by_column))
    return as_strided(x, (*lead, *plan.out), (*steps, by_row * down, by_column * right))


def _parts(n: int, plan: ConvolutionPlan, itemsize: int) -> Iterator[slice]:
    """Slices of the batch whose columns fit into `_PART_BYTES`."""
    item_bytes = plan.taps * plan.groups * plan.length * itemsize
    many = max(1, _PART_BYTES // max(item_bytes, 1))
    for start in range(0, n, many):
        yield slice(start, min(start + many, n))


def _columns(view: Array, plan: ConvolutionPlan) -> Array:
    """Copied windows of some images: (n, groups, taps, length)."""
    return np.ascontiguousarray(view).reshape(len(view), plan.groups, plan.taps, plan.length)


def _spread(y: Array, plan: ConvolutionPlan) -> Array:
    """Outputs (or cotangents of outputs) as (n, groups, channels, length)."""
    n, o = y.shape[:2]
    if plan.rows_run_on and plan.out[1] != plan.shape[2]:
        wide = np.zeros((n, o, plan.out[0], plan.shape[2]), y.dtype)
        wide[..., : plan.out[1]] = y
        y = wide.reshape(n, o, plan.out[0] * plan.shape[2])[..., : plan.length]
    return y.reshape(n, plan.groups, o // plan.groups, plan.length)


def _ready(x: Array, plan: ConvolutionPlan) -> Array:
    return np.ascontiguousarray(padded(x, plan.padding))


def _untouched(plan: ConvolutionPlan) -> bool:
    """Whether the padded image is its own column: a kernel of size 1 with stride 1."""
    return plan.kernel == (1, 1) and plan.stride == (1, 1)


def forward(x: Array, w: Array, plan: ConvolutionPlan, bias: Array | None = None) -> Array:
    """(N, C, H, W) and (O, C / groups, kh, kw) to (N, O, H', W'), plus a bias (O, 1, 1)."""
    n, o = len(x), len(w)
    x = _ready(x, plan)
    out = np.empty((n, o, *plan.out), x.dtype)
    weights = w.reshape(plan.groups, o // plan.groups, plan.taps)
    if _untouched(plan):
        columns = x.reshape(n, plan.groups, plan.taps, plan.length)
        product: Array = np.matmul(weights, columns).reshape(out.shape)
        return product if bias is None else np.add(product, bias, out=product)
    view = _windows(x, plan)
    wide = plan.rows_run_on and plan.out[1] != plan.shape[2]
    for part in _parts(n, plan, x.itemsize):
        columns = _columns(view[part], plan)
        if wide:
            rows: Array = np.empty((len(columns), o, plan.out[0] * plan.shape[2]), x.dtype)
            into = rows[..., : plan.length].reshape(len(rows), *weights.shape[:2], plan.length)
            np.matmul(weights, columns, out=into)
            rows = rows.reshape(len(columns), o, plan.out[0], plan.shape[2])
            if bias is None:
                out[part] = rows[..., : plan.out[1]]
            else:  # added along the way, so that the result is traversed once
                np.add(rows[..., : plan.out[1]], bias, out=out[part])
        else:
            into = out[part].reshape(len(columns), *weights.shape[:2], plan.length)
            np.matmul(weights, columns, out=into)
            if bias is not None:
                np.add(out[part], bias, out=out[part])
    return out


def weight_grad(x: Array, ct: Array, plan: ConvolutionPlan) -> Array:
    """(N, C, H, W) and (N, O, H', W') to (O, C / groups, kh, kw)."""
    o = ct.shape[1]
    x = _ready(x, plan)
    total = np.zeros((plan.groups, o // plan.groups, plan.taps), x.dtype)
    spread = _spread(ct, plan)
    if _untouched(plan):
        columns = x.reshape(len(x), plan.groups, plan.taps, plan.length)
        total += np.matmul(spread, columns.swapaxes(2, 3)).sum(0)
    else:
        view = _windows(x, plan)
        for part in _parts(len(x), plan, x.itemsize):
            columns = _columns(view[part], plan)
            total += np.matmul(spread[part], columns.swapaxes(2, 3)).sum(0)
    return total.reshape(o, plan.shape[0] // plan.groups, *plan.kernel)


def input_grad(ct: Array, w: Array, plan: ConvolutionPlan) -> Array:
    """(N, O, H', W') and (O, C / groups, kh, kw) to (N, C, H, W)."""
    n, o = ct.shape[:2]
    spread = _spread(ct, plan)
    turned = w.reshape(plan.groups, o // plan.groups, plan.taps).swapaxes(1, 2)
    if _untouched(plan):
        whole = np.matmul(turned, spread).reshape(n, *plan.shape)
        return np.ascontiguousarray(inner(whole, plan.padding))
    whole = np.zeros((n, *plan.shape), ct.dtype)
    view = _windows(whole, plan)
    for part in _parts(n, plan, ct.itemsize):
        columns = np.matmul(turned, spread[part])
        columns = columns.reshape(len(columns), *view.shape[1:])
        into = view[part]
        for i in range(plan.kernel[0]):
            for j in range(plan.kernel[1]):
                # One tap at a time: within a tap, no element occurs twice.
                target = into[:, :, i, j]
                np.add(target, columns[:, :, i, j], out=target)
    return np.ascontiguousarray(inner(whole, plan.padding))

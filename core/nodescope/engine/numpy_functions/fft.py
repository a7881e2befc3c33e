"""`numpy.fft` on tensors.

Invariant: every transform is one op, ``fft``, ``ifft``, ``rfft`` or ``irfft``, over its axes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.engine.numpy_functions.base import Table, call, tensor_of
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import ShapeError, UnsupportedError
from nodescope.ops.shapes import axes as listed

_OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _run(op: str, a: Any, n: Any, axes: Any, norm: Any, out: Any) -> Tensor:
    a = tensor_of(a)
    if out is not None:
        raise UnsupportedError(f"np.fft.{op}: out= is not traced", source=where())
    try:
        along = listed(op, tuple(int(axis) for axis in axes), a.ndim)
    except ShapeError as error:
        error.source = where()
        raise
    if not along:
        return a if a.dtype.kind == "c" else a.astype(np.result_type(a.dtype, np.complex64))  # type: ignore[no-any-return]
    lengths = [None] * len(along) if n is None else list(n)
    if len(lengths) != len(along):
        raise ShapeError(f"{op}: {len(lengths)} lengths for {len(along)} axes", source=where())
    sizes = [
        a.shape[axis] if length is None or length == -1 else int(length)
        for axis, length in zip(along, lengths, strict=True)
    ]
    if op == "irfft" and lengths[-1] in (None, -1):
        sizes[-1] = 2 * (a.shape[along[-1]] - 1)
    return call(op, a, n=tuple(sizes), axes=along, norm=norm or "backward")  # type: ignore[no-any-return]


def _one(name: str, op: str, summary: str) -> Callable[..., Tensor]:
    def function(
        a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
    ) -> Tensor:
        return _run(op, a, None if n is None else (n,), (axis,), norm, out)

    return _named(function, name, summary)


def _two(name: str, op: str, summary: str) -> Callable[..., Tensor]:
    def function(
        a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: None = None
    ) -> Tensor:
        return _run(op, a, s, _axes(a, s, axes), norm, out)

    return _named(function, name, summary)


def _many(name: str, op: str, summary: str) -> Callable[..., Tensor]:
    def function(
        a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: None = None
    ) -> Tensor:
        return _run(op, a, s, _axes(a, s, axes), norm, out)

    return _named(function, name, summary)


def _axes(a: Any, s: Any, axes: Any) -> tuple[int, ...]:
    if axes is not None:
        return tuple(axes)
    ndim = tensor_of(a).ndim
    return tuple(range(ndim)) if s is None else tuple(range(ndim - len(s), ndim))


def _named(function: Callable[..., Tensor], name: str, summary: str) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``np.fft.{name}``: {summary}."
    return function


fft = _one("fft", "fft", "the Fourier transform along an axis")
ifft = _one("ifft", "ifft", "undoes `fft`")
rfft = _one("rfft", "rfft", "the half of the spectrum that real numbers have")
irfft = _one("irfft", "irfft", "undoes `rfft`")
fft2 = _two("fft2", "fft", "`fft` along two axes")
ifft2 = _two("ifft2", "ifft", "undoes `fft2`")
rfft2 = _two("rfft2", "rfft", "`rfft` along the last of two axes, `fft` along the other")
irfft2 = _two("irfft2", "irfft", "undoes `rfft2`")
fftn = _many("fftn", "fft", "`fft` along any axes")
ifftn = _many("ifftn", "ifft", "undoes `fftn`")
rfftn = _many("rfftn", "rfft", "`rfft` along the last axis, `fft` along the others")
irfftn = _many("irfftn", "irfft", "undoes `rfftn`")


def hfft(
    a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Tensor:
    """``np.fft.hfft``: the real spectrum of half a Hermitian signal."""
    return irfft(_conjugate(tensor_of(a)), n, axis, _turned("hfft", norm), out)


def ihfft(
    a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Tensor:
    """``np.fft.ihfft``: undoes `hfft`."""
    return _conjugate(rfft(a, n, axis, _turned("ihfft", norm), out))


def _turned(name: str, norm: str | None) -> str:
    if norm not in _OPPOSITE:
        raise ShapeError(
            f"{name}: norm must be one of backward, ortho, forward, not {norm!r}", source=where()
        )
    return _OPPOSITE[norm]


def _conjugate(x: Tensor) -> Tensor:
    return call("conjugate", x) if x.dtype.kind == "c" else x


def fftshift(x: Any, axes: Any = None) -> Tensor:
    """``np.fft.fftshift``: the zero frequency to the middle."""
    return _shifted(x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Tensor:
    """``np.fft.ifftshift``: undoes `fftshift`."""
    return _shifted(x, axes, -1)


def _shifted(x: Any, axes: Any, way: int) -> Tensor:
    x = tensor_of(x)
    shifted_axes = tuple(range(x.ndim)) if axes is None else axes
    shifted_axes = (
        (shifted_axes,) if isinstance(shifted_axes, int | np.integer) else tuple(shifted_axes)
    )
    try:
        along = listed("fftshift", shifted_axes, x.ndim)
    except ShapeError as error:
        error.source = where()
        raise
    shifts = tuple(way * (x.shape[axis_] // 2)
                   for axis_ in along)  # fmt: skip
    return np.roll(x, shifts, along)  # type: ignore[no-any-return]


NUMPY: Table = {
    getattr(np.fft, function.__name__): function
    for function in (
        fft, ifft, rfft, irfft, fft2, ifft2, rfft2, irfft2, fftn, ifftn, rfftn, irfftn, hfft,
        ihfft, fftshift, ifftshift,
    )
}  # fmt: skip

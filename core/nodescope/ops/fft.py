"""Discrete Fourier transforms.

One op per kind of transform, over any axes: complex to complex, real to half a spectrum, and half a
spectrum to real. Cotangents travel unconjugated, and the matrix of a transform is symmetric, so the
rule of ``fft`` is ``fft`` itself.

Invariant: ``n`` holds one length per axis, to which the input is cut or padded with zeros; axes are
transformed from the last to the first, as in NumPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nodescope.errors import BoundsError, DtypeError, ShapeError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Infer, Op, Operand, Sample
from nodescope.ops.shapes import shape_of

_SCALES = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""Each ``norm``, and the one that scales the opposite direction equally."""


def _checked(
    name: str, specs: tuple[Operand, ...], attrs: dict[str, Any]
) -> tuple[list[int], np.dtype[Any]]:
    """The shape with the lengths substituted, and the real dtype of the computation."""
    (x,) = specs
    shape, lengths, axes = list(shape_of(x)), attrs["n"], attrs["axes"]
    if attrs["norm"] not in _SCALES:
        raise ShapeError(
            f"{name}: norm must be one of {',  '.join(_SCALES)}, not {attrs['norm']!r}"
        )
    for axis, length in zip(axes, lengths, strict=True):
        if not -len(shape) <= axis < len(shape):
            raise BoundsError(f"{name}: axis {axis} is out of range for {len(shape)} dimensions")
        if length < 1:
            raise ShapeError(f"{name}: a transform needs at least one point, not {length}")
        shape[axis] = length
    if len({axis % len(shape) for axis in axes}) != len(axes):
        raise ShapeError(f"{name}: axes {axes} name a dimension twice")
    dtype = as_dtype(x.dtype if isinstance(x, TensorSpec) else type(x))
    if dtype.kind == "V":
        raise DtypeError(f"{name}: not defined for {dtype.name}", hint="use .astype('float32')")
    if dtype.kind in "fc":
        return shape, np.zeros(0, dtype).real.dtype
    return shape, np.dtype(np.float64)


def _complex(real: np.dtype[Any]) -> str:
    # float16 is computed in float32, as in NumPy.
    return np.result_type(real, np.complex64).name


def _fft_infer(name: str) -> Infer:
    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
        shape, real = _checked(name, specs, attrs)
        return TensorSpec(tuple(shape), _complex(real))

    return infer


def _rfft_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    (x,) = specs
    if isinstance(x, TensorSpec) and np.dtype(x.dtype).kind == "c":
        raise DtypeError("rfft: expected real numbers, not " + x.dtype, hint="use fft")
    shape, real = _checked("rfft", specs, attrs)
    last = attrs["axes"][-1]
    shape[last] = shape[last] // 2 + 1
    return TensorSpec(tuple(shape), _complex(real))


def _irfft_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    shape, real = _checked("irfft", specs, attrs)
    return TensorSpec(tuple(shape), np.result_type(real, np.float32).name)


def _plain(name: str, function: Any, infer: Infer) -> Any:
    def impl(x: Array, n: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Any:
        attrs = {"n": n, "axes": axes, "norm": norm}
        spec: Any = infer((TensorSpec(x.shape, x.dtype.name),), attrs)
        return function(x, n, axes, norm).astype(spec.dtype, copy=False)

    return impl


def _fitted(F: Any, x: Any, like: Any, axes: tuple[int, ...]) -> Any:
    """``x`` cut, or padded with zeros, to the shape of ``like`` along axes."""
    shape = tuple(like.shape)
    index = tuple(slice(None, min(a, b)) for a, b in zip(x.shape, shape, strict=True))
    if any(a > b for a, b in zip(x.shape, shape, strict=True)):
        x = F.getitem(x, index=index)
    for axis, (have, want) in enumerate(zip(x.shape, shape, strict=True)):
        if have < want:
            rest = (*x.shape[:axis], want - have, *x.shape[axis + 1 :])
            x = F.concatenate(x, np.zeros(rest, x.dtype), axis=axis)
    return x


def _fft_vjp(name: str) -> Any:
    def rule(F: Any, ct: Any, out: Any, x: Any, n: Any, axes: Any, norm: str) -> Any:
        back = getattr(F, name)(ct, n=n, axes=axes, norm=norm)
        return _fitted(F, back, x, axes)

    return rule


def _rfft_vjp(F: Any, ct: Any, out: Any, x: Any, n: Any, axes: Any, norm: str) -> Any:
    # The half spectrum is part of the full one; the rest has the cotangent zero.
    full = list(ct.shape)
    for axis, length in zip(axes, n, strict=True):
        full[axis] = length
    last = axes[-1]
    missing = full[last] - ct.shape[last]
    if missing:
        rest = list(ct.shape)
        rest[last] = missing
        ct = F.concatenate(ct, np.zeros(tuple(rest), ct.dtype), axis=last)
    back = F.fft(ct, n=n, axes=axes, norm=norm)
    return F.real(_fitted(F, back, x, axes))


def _irfft_vjp(F: Any, ct: Any, out: Any, x: Any, n: Any, axes: Any, norm: str) -> Any:
    # From dL = ct * irfft(dx): every point except the first and the middle also stands for its
    # mirror.
    length, last = n[-1], axes[-1]
    back = F.conjugate(F.rfft(ct, n=n, axes=axes, norm=_SCALES[norm]))
    weight = np.full(length // 2 + 1, 2.0, ct.dtype)
    weight[0] = 1.0
    if length % 2 == 0:
        weight[-1] = 1.0
    shape = [1] * ct.ndim
    shape[last] = weight.size
    return _fitted(F, F.multiply(back, weight.reshape(shape)), x, axes)


def _flops(specs: tuple[Operand, ...], out: TensorSpec, attrs: dict[str, Any]) -> int:
    size = max(int(np.prod(out.shape)), 1)
    return int(5 * size * math.log2(size + 1))


_CASES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], str]] = [
    ((6,), (6,), (0,), "backward"), ((5,), (5,), (0,), "ortho"), ((4,), (7,), (0,), "forward"),
    ((6,), (3,), (0,), "backward"), ((1,), (1,), (0,), "backward"), ((2, 4), (4,), (1,), "ortho"),
    ((4, 3), (5,), (0,), "backward"), ((3, 4), (3, 4), (0, 1), "forward"),
    ((2, 3, 4), (4, 2), (2, 0), "backward"), ((0, 4), (4,), (1,), "backward"),
    ((3, 4), (2, 6), (0, 1), "ortho"),
]  # fmt: skip


def _samples(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((rng.standard_normal(shape),), {"n": n, "axes": axes, "norm": norm})
        for shape, n, axes, norm in _CASES
    ]


for _name, _function, _infer, _vjp in (
    ("fft", np.fft.fftn, _fft_infer("fft"), _fft_vjp("fft")),
    ("ifft", np.fft.ifftn, _fft_infer("ifft"), _fft_vjp("ifft")),
    ("rfft", np.fft.rfftn, _rfft_infer, _rfft_vjp),
    ("irfft", np.fft.irfftn, _irfft_infer, _irfft_vjp),
):
    register(
        Op(
            name=_name,
            family="matmul",
            infer=_infer,
            impl=_plain(_name, _function, _infer),
            vjp=(_vjp,),
            samples=_samples,
            flops=_flops,
        )
    )

"""Singular values, eigenvalues, pseudo-inverse, least squares.

Singular vectors and eigenvectors are determined up to a sign, or a phase if complex: LAPACK chooses
one, and gradients are right for everything that does not depend on the choice. Where two singular
or eigenvalues coincide, vectors have no derivative: a gradient through them becomes NaN or
infinite, while one through the values alone stays right. Formulas: Giles, "Collected matrix
derivative results" (2008); Townsend, "Differentiating the singular value decomposition" (2016);
Golub and Pereyra on the pseudo-inverse (1973).

Invariant: shapes and types are those of `numpy.linalg`, except that `eig` and `eigvals` always
return complex numbers: a static graph cannot have a value-dependent dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.linalg import one_triangle, positive_definite, well_conditioned
from nodescope.ops.matrices import (
    adjoint,
    column,
    conjugate,
    cubic,
    diagonal_matrix,
    dtype,
    guarded,
    masked,
    matrix,
    real,
    row,
    square,
    transposed,
)
from nodescope.ops.op import Array, Infer, Op, Operand, Rule, Sample
from nodescope.ops.shapes import shape_of

_RECTANGLES = ((4, 3), (3, 3), (2, 4), (1, 1), (3, 1), (0, 3), (3, 0), (2, 3, 2), (2, 2, 3))
_SQUARES = ((3, 3), (1, 1), (0, 0), (2, 3, 3), (0, 2, 2))


def _gaps(F: Any, values: Any) -> Any:
    """``values[j] - values[i]`` at (i, j), and ones on the diagonal."""
    gaps = F.subtract(row(F, values), column(F, values))
    return F.add(gaps, np.eye(values.shape[-1], dtype=gaps.dtype))


def _skew(F: Any, x: Any) -> Any:
    return F.subtract(x, adjoint(F, x))


# Singular values


def _svd_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> tuple[TensorSpec, ...]:
    *batch, m, n = matrix("svd", specs[0])
    result_dtype, k = dtype("svd", specs[0]), min(m, n)
    rows, columns = (m, n) if attrs["full_matrices"] else (k, k)
    return (
        TensorSpec((*batch, m, rows), result_dtype.name),
        TensorSpec((*batch, k), real(result_dtype).name),
        TensorSpec((*batch, columns, n), result_dtype.name),
    )


def _svd_vjp(F: Any, ct: Any, out: Any, x: Any, full_matrices: bool) -> Any:
    (u, s, vh), (ct_u, ct_s, ct_vh) = out, (conjugate(F, cotangent) for cotangent in ct)
    m, n = x.shape[-2:]
    k = min(m, n)
    arbitrary = None
    if full_matrices and m != n:
        # The vectors beyond the k-th are an arbitrary basis: gradients through them are NaN.
        kept, beyond = slice(None, k), slice(k, None)
        if m > n:
            arbitrary = F.getitem(ct_u, index=(..., beyond))
            u, ct_u = (F.getitem(array, index=(..., kept)) for array in (u, ct_u))
        else:
            arbitrary = F.getitem(ct_vh, index=(..., beyond, slice(None)))
            vh, ct_vh = (F.getitem(array, index=(..., kept, slice(None))) for array in (vh, ct_vh))
    ct_v, v, uh = adjoint(F, ct_vh), adjoint(F, vh), adjoint(F, u)
    squared = F.multiply(s, s)
    gaps = _gaps(F, squared)
    turn_u, turn_v = _skew(F, F.matmul(uh, ct_u)), _skew(F, F.matmul(vh, ct_v))
    inner = F.add(
        F.multiply(F.divide(turn_u, gaps), row(F, s)),
        F.multiply(column(F, s), F.divide(turn_v, gaps)),
    )
    inner = F.add(masked(F, inner, 1.0, 0.0, 1.0), diagonal_matrix(F, ct_s))
    if x.dtype.kind == "c":
        phase = F.divide(turn_u, F.multiply(column(F, s), 2.0))
        inner = F.add(inner, masked(F, phase, 0.0, 1.0, 0.0))
    gradient = F.matmul(u, F.matmul(inner, vh))
    if m > k:
        outside = F.subtract(ct_u, F.matmul(u, F.matmul(uh, ct_u)))
        gradient = F.add(gradient, F.matmul(F.divide(outside, row(F, s)), vh))
    if n > k:
        outside = F.subtract(ct_vh, F.matmul(F.matmul(ct_vh, v), vh))
        gradient = F.add(gradient, F.matmul(u, F.divide(outside, column(F, s))))
    if arbitrary is not None:
        used = F.any(F.not_equal(arbitrary, 0.0), axis=(-2, -1), keepdims=True)
        gradient = F.where(used, np.asarray(np.nan, gradient.dtype), gradient)
    return conjugate(F, gradient)


def _svdvals_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    *batch, m, n = matrix("svdvals", specs[0])
    return TensorSpec((*batch, min(m, n)), real(dtype("svdvals", specs[0])).name)


def _svdvals_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    u, _, vh = F.svd(x, full_matrices=False)
    return conjugate(F, F.matmul(F.multiply(u, row(F, ct)), vh))


def _svdvals(a: Array) -> Any:
    return np.linalg.svd(a, compute_uv=False)


register(
    Op(
        name="svd",
        family="matmul",
        infer=_svd_infer,
        impl=guarded(
            "svd", lambda a, full_matrices: tuple(np.linalg.svd(a, full_matrices)), _svd_infer
        ),
        vjp=(_svd_vjp,),
        outputs=3,
        ports=("a",),
        samples=lambda rng: [
            Sample((rng.standard_normal(shape),), {"full_matrices": full})
            for shape in _RECTANGLES
            for full in (False, True)
            if not full or shape[-1] == shape[-2]
        ],
        flops=cubic,
    )
)
register(
    Op(
        name="svdvals",
        family="matmul",
        infer=_svdvals_infer,
        impl=guarded("svdvals", _svdvals, _svdvals_infer),
        vjp=(_svdvals_vjp,),
        ports=("a",),
        samples=lambda rng: [Sample((rng.standard_normal(shape),)) for shape in _RECTANGLES],
        flops=cubic,
    )
)


# Hermitian matrices


def _eigh_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> tuple[TensorSpec, TensorSpec]:
    shape, result_dtype = square("eigh", specs[0]), dtype("eigh", specs[0])
    return TensorSpec(shape[:-1], real(result_dtype).name), TensorSpec(shape, result_dtype.name)


def _eigh_vjp(F: Any, ct: Any, out: Any, x: Any, UPLO: str) -> Any:
    (w, v), (ct_w, ct_v) = out, (conjugate(F, cotangent) for cotangent in ct)
    vh = adjoint(F, v)
    inner = F.divide(F.matmul(vh, ct_v), _gaps(F, w))
    inner = F.add(masked(F, inner, 1.0, 0.0, 1.0), diagonal_matrix(F, ct_w))
    gradient = F.matmul(v, F.matmul(inner, vh))
    return conjugate(F, one_triangle(F, gradient, UPLO == "U"))


def _eigvalsh_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    shape = square("eigvalsh", specs[0])
    return TensorSpec(shape[:-1], real(dtype("eigvalsh", specs[0])).name)


def _eigvalsh_vjp(F: Any, ct: Any, out: Any, x: Any, UPLO: str) -> Any:
    _, v = F.eigh(x, UPLO=UPLO)
    gradient = F.matmul(F.multiply(v, row(F, ct)), adjoint(F, v))
    return conjugate(F, one_triangle(F, gradient, UPLO == "U"))


def _symmetric(rng: np.random.Generator) -> list[Sample]:
    return [
        Sample((positive_definite(rng, *shape),), {"UPLO": uplo})
        for shape in _SQUARES
        for uplo in ("L", "U")
    ]


def _spectrum(name: str, infer: Infer, impl: Any, rule: Rule, samples: Any, outputs: int) -> None:
    register(
        Op(
            name=name,
            family="matmul",
            infer=infer,
            impl=guarded(name, impl, infer),
            vjp=(rule,),
            outputs=outputs,
            ports=("a",),
            samples=samples,
            flops=cubic,
        )
    )


_spectrum(
    "eigh", _eigh_infer, lambda a, UPLO: tuple(np.linalg.eigh(a, UPLO)), _eigh_vjp, _symmetric, 2
)
_spectrum(
    "eigvalsh", _eigvalsh_infer, lambda a, UPLO: np.linalg.eigvalsh(a, UPLO), _eigvalsh_vjp,
    _symmetric, 1,
)  # fmt: skip


# General square matrices


def _eigvals_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    shape, result_dtype = square("eigvals", specs[0]), dtype("eigvals", specs[0])
    return TensorSpec(shape[:-1], np.result_type(result_dtype, np.complex64).name)


def _eig_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> tuple[TensorSpec, TensorSpec]:
    values = _eigvals_infer(specs, attrs)
    return values, TensorSpec(shape_of(specs[0]), values.dtype)


def _complex(x: Array) -> Array:
    return x.astype(np.result_type(x.dtype, np.complex64), copy=False)


def _eigvals_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    _, v = F.eig(x)
    # ct_x = (v diag(ct) inv(v))^T, for which v^T x = diag(ct) v^T is solved.
    back = transposed(F, v)
    return F.solve(back, F.multiply(column(F, ct), back))


def _eig_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    (w, v), (ct_w, ct_v) = out, (conjugate(F, cotangent) for cotangent in ct)
    vh = adjoint(F, v)
    along = F.matmul(vh, ct_v)
    # The columns of v have length 1, so gradient components that would stretch them are removed.
    stretch = F.astype(F.real(along), dtype=along.dtype.name)
    stretch = F.matmul(F.matmul(vh, v), masked(F, stretch, 0.0, 1.0, 0.0))
    inner = F.divide(F.subtract(along, stretch), conjugate(F, _gaps(F, w)))
    inner = F.add(masked(F, inner, 1.0, 0.0, 1.0), diagonal_matrix(F, ct_w))
    return conjugate(F, F.solve(vh, F.matmul(inner, vh)))


_REAL_SPECTRUM = np.diag([1.0, 2.0, 4.0])


def _nearly_diagonal(rng: np.random.Generator) -> list[Sample]:
    near = [_REAL_SPECTRUM + 0.1 * rng.standard_normal(shape) for shape in ((3, 3), (2, 3, 3))]
    return [Sample((m,)) for m in (*near, np.ones((1, 1)), np.ones((0, 0)))]


_spectrum(
    "eig", _eig_infer, lambda a: tuple(map(_complex, np.linalg.eig(a))), _eig_vjp,
    _nearly_diagonal, 2,
)  # fmt: skip
_spectrum(
    "eigvals", _eigvals_infer, lambda a: _complex(np.linalg.eigvals(a)), _eigvals_vjp,
    _nearly_diagonal, 1,
)  # fmt: skip


# Pseudo-inverse and least squares


def _pinv_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    *batch, m, n = matrix("pinv", specs[0])
    cutoffs = np.shape(attrs["rcond"])
    pairs = zip(reversed(cutoffs), reversed(batch), strict=False)
    if len(cutoffs) > len(batch) or any(size not in (1, expected) for size, expected in pairs):
        raise ShapeError(
            f"pinv: cutoffs of shape {cutoffs} for matrices of shape {tuple(batch)}",
            hint="give one number, or one for each matrix",
        )
    return TensorSpec((*batch, n, m), dtype("pinv", specs[0]).name)


def _pinv_pull(F: Any, ct: Any, p: Any, a: Any) -> Any:
    """From the gradient ``ct`` with respect to the pseudo-inverse ``p`` to that with respect to
    ``a``, at constant rank.
    """
    ph, cth = adjoint(F, p), adjoint(F, ct)
    right = F.matmul(cth, F.matmul(p, ph))
    left = F.matmul(F.matmul(ph, p), cth)
    gradient = F.subtract(right, F.matmul(ph, F.matmul(ct, ph)))
    gradient = F.subtract(gradient, F.matmul(a, F.matmul(p, right)))
    return F.subtract(F.add(gradient, left), F.matmul(F.matmul(left, p), a))


def _pinv_vjp(F: Any, ct: Any, out: Any, x: Any, rcond: Any) -> Any:
    return conjugate(F, _pinv_pull(F, conjugate(F, ct), out, x))


def _pinv(a: Array, rcond: Any) -> Array:
    target = dtype("pinv", TensorSpec((), a.dtype.name))
    return np.linalg.pinv(a, np.asarray(rcond)).astype(target, copy=False)


def _lstsq_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> tuple[TensorSpec, ...]:
    a, b = shape_of(specs[0]), shape_of(specs[1])
    if len(a) != 2 or len(b) not in (1, 2) or a[0] != b[0]:
        raise ShapeError(
            f"lstsq: a matrix (m, n) and a right-hand side (m,) or (m, k), not {a} and {b}"
        )
    result_dtype = dtype("lstsq", *specs).name
    return TensorSpec((a[1], *b[1:]), result_dtype), TensorSpec((), "int32")


def _lstsq(a: Array, b: Array, rcond: Any) -> tuple[Any, ...]:
    x, _, rank, _ = np.linalg.lstsq(a, b, rcond)
    return x, np.asarray(rank, np.int32)


def _cutoff(a: Any, rcond: Any) -> float:
    """The threshold for zero in `numpy.linalg.lstsq`, relative to the largest singular value."""
    if rcond is not None:
        return float(rcond)
    eps = float(np.finfo(dtype("lstsq", TensorSpec((), a.dtype.name))).eps)
    return eps * int(max(a.shape))


def _lstsq_left(F: Any, ct: Any, out: Any, a: Any, b: Any, rcond: Any) -> Any:
    ct_x = conjugate(F, ct[0])
    columns, ct_x = (column(F, b), column(F, ct_x)) if b.ndim == 1 else (b, ct_x)
    p = F.pinv(a, rcond=_cutoff(a, rcond))
    return conjugate(F, _pinv_pull(F, F.matmul(ct_x, adjoint(F, columns)), p, a))


def _lstsq_right(F: Any, ct: Any, out: Any, a: Any, b: Any, rcond: Any) -> Any:
    p = F.pinv(a, rcond=_cutoff(a, rcond))
    return conjugate(F, F.matmul(adjoint(F, p), conjugate(F, ct[0])))


register(
    Op(
        name="pinv",
        family="matmul",
        infer=_pinv_infer,
        impl=guarded("pinv", _pinv, _pinv_infer),
        vjp=(_pinv_vjp,),
        ports=("a",),
        samples=lambda rng: [
            Sample((rng.standard_normal(shape),), {"rcond": 1e-12}) for shape in _RECTANGLES
        ],
        flops=cubic,
    )
)
register(
    Op(
        name="lstsq",
        family="matmul",
        infer=_lstsq_infer,
        impl=guarded("lstsq", _lstsq, _lstsq_infer),
        vjp=(_lstsq_left, _lstsq_right),
        outputs=2,
        ports=("a", "b"),
        samples=lambda rng: [
            Sample((a, rng.standard_normal(b)), {"rcond": None})
            for a, b in ((rng.standard_normal((4, 2)), (4,)), (rng.standard_normal((4, 2)), (4, 3)),
                         (well_conditioned(rng, 3, 3), (3,)), (rng.standard_normal((2, 3)), (2, 1)))
        ],
        flops=cubic,
    )
)  # fmt: skip

"""Linear systems, determinants, Cholesky and QR.

Cotangents of complex matrices travel unconjugated, so a holomorphic rule is its real formula with
plain transposes; a rule with conjugates (Cholesky, QR) conjugates its inputs and outputs.
Formulas: Giles, "Collected matrix derivative results" (2008); Walter and Lehmann on QR (2018).

Invariant: shapes, types and refusals are those of `numpy.linalg`. `cholesky` reads one triangle, as
in NumPy, and its gradient is in that triangle.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import GradientError, ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.matrices import (
    Shape,
    adjoint,
    column,
    conjugate,
    cubic,
    dtype,
    guarded,
    masked,
    matrix,
    real,
    square,
    transposed,
)
from nodescope.ops.op import Array, Op, Operand, Sample
from nodescope.ops.shapes import shape_of


def well_conditioned(rng: np.random.Generator, *shape: int) -> Array:
    """Square matrices that are far from singular."""
    return rng.standard_normal(shape) + 4.0 * np.eye(shape[-1])


def positive_definite(rng: np.random.Generator, *shape: int) -> Array:
    """Symmetric matrices with positive eigenvalues."""
    half = rng.standard_normal(shape)
    return half @ np.swapaxes(half, -1, -2) + np.eye(shape[-1])


_SQUARES = ((3, 3), (1, 1), (0, 0), (2, 3, 3), (0, 2, 2), (2, 1, 4, 4))


# solve


def _solve_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    a, b = square("solve", specs[0]), shape_of(specs[1])
    if not b:
        raise ShapeError("solve: the right-hand side must be a vector or matrices, not a scalar")
    size = b[0] if len(b) == 1 else b[-2]
    if size != a[-1]:
        raise ShapeError(
            f"solve: matrices {a} do not fit the right-hand side {b}",
            hint="the last dimension of the right-hand side holds columns; "
            "write a stack of vectors as x[..., None]",
        )
    result_dtype = dtype("solve", *specs).name
    if len(b) == 1:
        return TensorSpec((*a[:-2], a[-1]), result_dtype)
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise ShapeError(f"solve: leading dimensions do not broadcast: {a} and {b}") from None
    return TensorSpec((*batch, *b[-2:]), result_dtype)


def _solve_columns(F: Any, name: str, ct: Any, b: Any, *system: Any, **attrs: Any) -> Any:
    """``op(*system, ct)``, where vectors pass as columns if ``b`` is one."""
    op = getattr(F, name)
    if b.ndim > 1:
        return op(*system, ct, **attrs)
    return op(*system, column(F, ct), **attrs)


def _solve_left(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    back = _solve_columns(F, "solve", ct, b, transposed(F, a))
    x = column(F, out) if b.ndim == 1 else out
    return F.negative(F.matmul(back, transposed(F, x)))


def _solve_right(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    back = _solve_columns(F, "solve", ct, b, transposed(F, a))
    return F.reshape(back, shape=back.shape[:-1]) if b.ndim == 1 else back


_SYSTEMS = [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 1)),
            ((2, 3, 3), (3,)), ((2, 1, 2, 2), (3, 2, 2)), ((1, 1), (1,)), ((0, 0), (0,)),
            ((0, 0), (0, 2)), ((0, 2, 2), (2, 2)), ((2, 2), (2, 0))]  # fmt: skip


def _systems(rng: np.random.Generator) -> list[Sample]:
    return [Sample((well_conditioned(rng, *a), rng.standard_normal(b))) for a, b in _SYSTEMS]


register(
    Op(
        name="solve",
        family="matmul",
        infer=_solve_infer,
        impl=guarded("solve", np.linalg.solve, _solve_infer),
        vjp=(_solve_left, _solve_right),
        ports=("a", "b"),
        samples=_systems,
        flops=cubic,
    )
)


# Triangular systems


def _triangle(F: Any, a: Any, lower: bool, unit: bool) -> Any:
    """The part of ``a`` that a triangular solve reads."""
    triangle = masked(F, a, float(lower), float(not unit), float(not lower))
    if unit:
        triangle = F.add(triangle, np.eye(a.shape[-1], dtype=triangle.dtype))
    return triangle


class _Plain:
    multiply, add = np.multiply, np.add


def _solve_triangular(a: Array, b: Array, lower: bool, trans: bool, unit: bool) -> Any:
    _solve_infer((TensorSpec(a.shape, a.dtype.name), TensorSpec(b.shape, b.dtype.name)), {})
    used = _triangle(_Plain, a.astype(dtype("solve_triangular", TensorSpec((), a.dtype.name))),
                     lower, unit)  # fmt: skip
    return np.linalg.solve(np.swapaxes(used, -1, -2) if trans else used, b)


def _triangular_left(
    F: Any, ct: Any, out: Any, a: Any, b: Any, lower: bool, trans: bool, unit: bool
) -> Any:
    back = _solve_columns(F, "solve_triangular", ct, b, a, lower=lower, trans=not trans, unit=unit)
    x = column(F, out) if b.ndim == 1 else out
    left, right = (x, back) if trans else (back, x)
    product = F.negative(F.matmul(left, transposed(F, right)))
    return masked(F, product, float(lower), float(not unit), float(not lower))


def _triangular_right(
    F: Any, ct: Any, out: Any, a: Any, b: Any, lower: bool, trans: bool, unit: bool
) -> Any:
    back = _solve_columns(F, "solve_triangular", ct, b, a, lower=lower, trans=not trans, unit=unit)
    return F.reshape(back, shape=back.shape[:-1]) if b.ndim == 1 else back


# The order of (system, right side) is that of solve: `_solve_columns` passes a, then the columns.
register(
    Op(
        name="solve_triangular",
        family="matmul",
        infer=_solve_infer,
        impl=guarded("solve_triangular", _solve_triangular, _solve_infer),
        vjp=(_triangular_left, _triangular_right),
        ports=("a", "b"),
        samples=lambda rng: [
            Sample(problem.inputs, {"lower": lower, "trans": trans, "unit": unit})
            for lower, trans, unit in ((True, False, False), (False, True, False),
                                       (False, False, True), (True, True, True))
            for problem in _systems(rng)
        ],
        flops=cubic,
    )
)  # fmt: skip


# inv, det, slogdet


def _inv_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    return TensorSpec(square("inv", specs[0]), dtype("inv", specs[0]).name)


def _inv_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    back = transposed(F, out)
    return F.negative(F.matmul(back, F.matmul(ct, back)))


def _det_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    return TensorSpec(square("det", specs[0])[:-2], dtype("det", specs[0]).name)


def _det_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    share = F.reshape(F.multiply(ct, out), shape=(*x.shape[:-2], 1, 1))
    return F.multiply(share, transposed(F, F.inv(x)))


def _slogdet_infer(
    specs: tuple[Operand, ...], attrs: dict[str, Any]
) -> tuple[TensorSpec, TensorSpec]:
    shape, result_dtype = square("slogdet", specs[0])[:-2], dtype("slogdet", specs[0])
    return TensorSpec(shape, result_dtype.name), TensorSpec(shape, real(result_dtype).name)


def _slogdet_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    share = ct[1]
    if out[0].dtype.kind == "c":
        # The sign is exp(i angle): its cotangent applies to the imaginary part of tr(inv(x) dx).
        share = F.add(share, F.multiply(F.imag(F.multiply(ct[0], out[0])), 1j))
    share = F.reshape(share, shape=(*x.shape[:-2], 1, 1))
    return F.multiply(share, transposed(F, F.inv(x)))


for _name, _infer, _impl, _vjp in (
    ("inv", _inv_infer, np.linalg.inv, _inv_vjp),
    ("det", _det_infer, np.linalg.det, _det_vjp),
):
    register(
        Op(
            name=_name,
            family="matmul",
            infer=_infer,
            impl=guarded(_name, _impl, _infer),
            vjp=(_vjp,),
            ports=("a",),
            samples=lambda rng: [Sample((well_conditioned(rng, *shape),)) for shape in _SQUARES],
            flops=cubic,
        )
    )

register(
    Op(
        name="slogdet",
        family="matmul",
        infer=_slogdet_infer,
        impl=guarded("slogdet", lambda a: tuple(np.linalg.slogdet(a)), _slogdet_infer),
        vjp=(_slogdet_vjp,),
        outputs=2,
        ports=("a",),
        samples=lambda rng: [Sample((well_conditioned(rng, *shape),)) for shape in _SQUARES],
        flops=cubic,
    )
)


# Cholesky


def _cholesky_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    return TensorSpec(square("cholesky", specs[0]), dtype("cholesky", specs[0]).name)


def _cholesky_vjp(F: Any, ct: Any, out: Any, x: Any, upper: bool) -> Any:
    ct = conjugate(F, ct)
    factor, ct = (adjoint(F, out), adjoint(F, ct)) if upper else (out, ct)
    turned = adjoint(F, factor)
    inner = masked(F, F.matmul(turned, ct), 1.0, 0.5, 0.0)
    back = F.solve(turned, adjoint(F, F.solve(turned, inner)))
    return conjugate(F, one_triangle(F, back, upper))


def one_triangle(F: Any, grad: Any, upper: bool) -> Any:
    """The gradient of a function that reads one triangle of a Hermitian matrix as the whole."""
    both = F.multiply(F.add(grad, adjoint(F, grad)), 0.5)
    return masked(F, both, 0.0 if upper else 2.0, 1.0, 2.0 if upper else 0.0)


register(
    Op(
        name="cholesky",
        family="matmul",
        infer=_cholesky_infer,
        impl=guarded("cholesky", np.linalg.cholesky, _cholesky_infer),
        vjp=(_cholesky_vjp,),
        ports=("a",),
        samples=lambda rng: [
            Sample((positive_definite(rng, *shape),), {"upper": upper})
            for shape in _SQUARES
            for upper in (False, True)
        ],
        flops=cubic,
    )
)


# QR


def _qr(a: Array, mode: Any) -> tuple[Array, Array]:
    return tuple(np.linalg.qr(a, mode))  # type: ignore[return-value]


def _qr_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> tuple[TensorSpec, TensorSpec]:
    *batch, m, n = matrix("qr", specs[0])
    result_dtype = dtype("qr", specs[0]).name
    k = m if attrs["mode"] == "complete" else min(m, n)
    return TensorSpec((*batch, m, k), result_dtype), TensorSpec((*batch, k, n), result_dtype)


def _qr_vjp(F: Any, ct: Any, out: Any, x: Any, mode: str) -> Any:
    m, n = x.shape[-2:]
    (q, r), (ct_q, ct_r) = out, (conjugate(F, cotangent) for cotangent in ct)
    if m > n and mode == "complete":
        raise GradientError(
            f"qr: the last {m - n} columns of Q are an arbitrary basis and have no gradient",
            hint="use mode='reduced'",
        )
    if m >= n:
        return conjugate(F, _qr_tall(F, q, r, ct_q, ct_r))
    left, right = (..., slice(None, m)), (..., slice(m, None))
    wide, ct_wide = F.getitem(x, index=right), F.getitem(ct_r, index=right)
    ct_q = F.add(ct_q, F.matmul(wide, adjoint(F, ct_wide)))
    start = _qr_tall(F, q, F.getitem(r, index=left), ct_q, F.getitem(ct_r, index=left))
    rest = F.matmul(q, ct_wide)
    return conjugate(F, F.concatenate(start, rest, axis=-1))


def _qr_tall(F: Any, q: Any, r: Any, ct_q: Any, ct_r: Any) -> Any:
    inner = F.subtract(F.matmul(ct_r, adjoint(F, r)), F.matmul(adjoint(F, q), ct_q))
    inner = masked(F, inner, 0.0, 1.0, 1.0)
    inner = masked(F, F.add(inner, adjoint(F, inner)), 1.0, 0.5, 1.0)
    back = F.add(ct_q, F.matmul(q, inner))
    # back times the inverse of r's adjoint, from the right.
    return adjoint(F, F.solve(r, adjoint(F, back)))


_RECTANGLES: tuple[Shape, ...] = (
    (4, 3), (3, 3), (2, 4), (1, 1), (3, 1), (0, 3), (3, 0), (2, 3, 2), (2, 2, 3)
)  # fmt: skip

register(
    Op(
        name="qr",
        family="matmul",
        infer=_qr_infer,
        impl=guarded("qr", _qr, _qr_infer),
        vjp=(_qr_vjp,),
        outputs=2,
        ports=("a",),
        samples=lambda rng: [
            Sample((rng.standard_normal(shape),), {"mode": mode})
            for shape in _RECTANGLES
            for mode in ("reduced", "complete")
            if mode == "reduced" or shape[-2] <= shape[-1]
        ],
        flops=cubic,
    )
)

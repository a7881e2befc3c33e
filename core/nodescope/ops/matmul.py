"""Matrix products.

Invariant: shapes follow ``np.matmul``: vectors are promoted, leading dimensions broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.errors import ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Infer, Op, Operand, Rule, Sample
from nodescope.ops.rules import unbroadcast
from nodescope.ops.shapes import resolve, shape_of


def _infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    a, b = shape_of(specs[0]), shape_of(specs[1])
    if not a or not b:
        raise ShapeError(
            f"matmul: operands need at least one dimension, got {a} @ {b}", hint="multiply with *"
        )
    inner = b[0] if len(b) == 1 else b[-2]
    if a[-1] != inner:
        raise ShapeError(f"matmul: inner dimensions differ: {a} @ {b}", hint=_hint(a, b, inner))
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise ShapeError(f"matmul: leading dimensions do not broadcast: {a} @ {b}") from None
    rows = a[-2:-1] if len(a) > 1 else ()
    columns = b[-1:] if len(b) > 1 else ()
    return TensorSpec((*batch, *rows, *columns), resolve("matmul", np.matmul, specs).name)


def _hint(a: tuple[int, ...], b: tuple[int, ...], inner: int) -> str:
    """The changes that would make two shapes match, the likeliest first."""
    if a[-1] == b[-1]:
        return "transpose the right operand?"
    if len(a) > 1 and a[-2] == b[-1]:
        return "swap the operands?"
    if len(a) > 1 and a[-2] == inner:
        return "transpose the left operand?"
    where = "elements" if len(b) == 1 else "rows"
    return (
        f"the last dimension of the left operand is {a[-1]}: the right one needs {a[-1]} {where}, "
        f"not {inner}"
    )


def _impl(a: Array, b: Array) -> Any:
    # The rows of a stack times one matrix are one product; NumPy would compute one for each matrix
    # of the stack.
    if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous and a.size and a.dtype.kind == "f":
        flat = np.matmul(a.reshape(-1, a.shape[-1]), b)
        return flat.reshape(*a.shape[:-1], flat.shape[-1])
    return np.matmul(a, b)


def _swapped(F: Any, x: Any) -> Any:
    if x.ndim == 2:
        return F.transpose(x, axes=None)
    return F.transpose(x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _left(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    if a.ndim == 2 and b.ndim == 2:
        return F.matmul(ct, F.transpose(b, axes=None))
    if b.ndim == 1:
        # Each row's dot product with b: the cotangent is an outer product.
        grad = F.multiply(ct if a.ndim == 1 else _column(F, ct), b)
        return unbroadcast(F, grad, a)
    if a.ndim == 1:
        ct = F.reshape(ct, shape=(*ct.shape[:-1], 1, ct.shape[-1]))
        grad = F.matmul(ct, _swapped(F, b))
        grad = F.reshape(grad, shape=(*grad.shape[:-2], grad.shape[-1]))
        return unbroadcast(F, grad, a)
    if b.ndim == 2:
        grad = F.matmul(_rows(F, ct), F.transpose(b, axes=None))
        return F.reshape(grad, shape=a.shape)
    return unbroadcast(F, F.matmul(ct, _swapped(F, b)), a)


def _right(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    if a.ndim == 2 and b.ndim == 2:
        return F.matmul(F.transpose(a, axes=None), ct)
    if b.ndim == 1:
        grad = F.multiply(ct if a.ndim == 1 else _column(F, ct), a)
        return unbroadcast(F, grad, b)
    if a.ndim == 1:
        column = F.reshape(a, shape=(a.shape[0], 1))
        grad = F.multiply(column, F.reshape(ct, shape=(*ct.shape[:-1], 1, ct.shape[-1])))
        return unbroadcast(F, grad, b)
    if b.ndim == 2:
        return F.matmul(F.transpose(_rows(F, a), axes=None), _rows(F, ct))
    return unbroadcast(F, F.matmul(_swapped(F, a), ct), b)


def _rows(F: Any, x: Any) -> Any:
    """A stack of matrices as one: with a single matrix, one large product beats many small ones."""
    return F.reshape(x, shape=(int(np.prod(x.shape[:-1], dtype=np.int64)), x.shape[-1]))


def _column(F: Any, ct: Any) -> Any:
    return F.reshape(ct, shape=(*ct.shape, 1))


def _flops(specs: tuple[Operand, ...], out: TensorSpec, attrs: dict[str, Any]) -> int:
    return 2 * int(np.prod(out.shape)) * shape_of(specs[0])[-1]


_SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (2, 4, 5)),
    ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)), ((0, 4), (4, 3)), ((3, 0), (0, 2)), ((1, 1), (1, 1)),
]  # fmt: skip

register(
    Op(
        name="matmul",
        family="matmul",
        infer=_infer,
        impl=_impl,
        vjp=(_left, _right),
        numpy=(np.matmul,),
        ports=("x1", "x2"),
        samples=lambda rng: [
            Sample((rng.standard_normal(a), rng.standard_normal(b))) for a, b in _SHAPES
        ],
        flops=_flops,
    )
)


# Products of stacks of vectors: np.vecdot, np.matvec, np.vecmat


def _gufunc_infer(name: str, ufunc: np.ufunc, core: tuple[int, int]) -> Infer:
    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
        a, b = shape_of(specs[0]), shape_of(specs[1])
        if len(a) < core[0] or len(b) < core[1]:
            raise ShapeError(
                f"{name}: operands need at least {core[0]} and {core[1]} dimensions: {a}, {b}"
            )
        inner = b[-1] if core[1] == 1 else b[-2]
        if a[-1] != inner:
            raise ShapeError(f"{name}: inner dimensions differ: {a} and {b}")
        try:
            batch = np.broadcast_shapes(a[: len(a) - core[0]], b[: len(b) - core[1]])
        except ValueError:
            raise ShapeError(f"{name}: leading dimensions do not broadcast: {a} and {b}") from None
        rest = (*(a[-2:-1] if core[0] == 2 else ()), *(b[-1:] if core[1] == 2 else ()))
        return TensorSpec((*batch, *rest), resolve(name, ufunc, specs).name)

    return infer


def _conjugate(F: Any, x: Any) -> Any:
    return F.conjugate(x) if x.dtype.kind == "c" else x


def _row(F: Any, x: Any) -> Any:
    return F.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))


_STACKED: list[tuple[Any, tuple[int, int], tuple[Rule, Rule], list[tuple[Any, Any]]]] = [
    (
        np.vecdot, (1, 1),
        (lambda F, ct, out, a, b: _conjugate(F, F.multiply(_column(F, ct), b)),
         lambda F, ct, out, a, b: F.multiply(_column(F, ct), _conjugate(F, a))),
        [((3,), (3,)), ((2, 3), (3,)), ((2, 1, 3), (4, 3)), ((0,), (0,)), ((1,), (2, 1))],
    ),
    (
        getattr(np, "matvec", None), (2, 1),
        (lambda F, ct, out, a, b: F.multiply(_column(F, ct), _row(F, b)),
         lambda F, ct, out, a, b: F.matvec(_swapped(F, a), ct)),
        [((2, 3), (3,)), ((4, 2, 3), (3,)), ((2, 3), (4, 3)), ((0, 3), (3,)), ((1, 1), (1,))],
    ),
    (
        getattr(np, "vecmat", None), (1, 2),
        (lambda F, ct, out, a, b: _conjugate(F, F.matvec(b, ct)),
         lambda F, ct, out, a, b: F.multiply(_column(F, _conjugate(F, a)), _row(F, ct))),
        [((3,), (3, 2)), ((3,), (4, 3, 2)), ((4, 3), (3, 2)), ((3,), (3, 0)), ((1,), (1, 1))],
    ),
]  # fmt: skip


def _stacked_samples(cases: list[tuple[Any, Any]]) -> Callable[..., list[Sample]]:
    return lambda rng: [Sample((rng.standard_normal(a), rng.standard_normal(b))) for a, b in cases]


for _ufunc, _core, _rules, _cases in _STACKED:
    if _ufunc is None:
        continue  # NumPy before 2.2
    register(
        Op(
            name=_ufunc.__name__,
            family="matmul",
            infer=_gufunc_infer(_ufunc.__name__, _ufunc, _core),
            impl=_ufunc,
            vjp=_rules,
            numpy=(_ufunc,),
            ports=("x1", "x2"),
            samples=_stacked_samples(_cases),
            flops=_flops,
        )
    )

"""Norms of vectors and matrices, condition numbers and ranks.

Invariant: ``ord`` has the meaning of `numpy.linalg.norm`; gradients are those of the constituent
ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.engine.numpy_functions.base import Table, call, tensor_of
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import DomainError, ShapeError
from nodescope.ops.matrices import MatrixShapeError
from nodescope.ops.shapes import axes

Axes = int | tuple[int, ...] | None


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """``np.linalg.norm``: of all elements, of vectors along one axis, of matrices along two.

    Raises:
        ShapeError: ``axis`` or ``ord`` is given, and the number of axes is not one or two.
        DomainError: The norm does not exist.
    """
    x = tensor_of(x)
    if axis is None and ord is None:
        return _euclidean(x, None, keepdims)
    if axis is None:
        axis = tuple(range(x.ndim))
    along = _along("norm", axis, x)
    if len(along) == 1:
        if isinstance(ord, str):
            raise DomainError(f"norm: {ord!r} is not a norm of vectors", source=where())
        return _vectors(x, 2 if ord is None else ord, along[0], keepdims)
    if len(along) == 2:
        return _matrices(x, "fro" if ord is None else ord, along, keepdims)
    raise ShapeError(
        f"norm: norms are defined over one or two axes, not {len(along)}",
        source=where(),
        hint="give axis, or omit ord for the Euclidean norm of all elements",
    )


def vector_norm(x: Any, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """``np.linalg.vector_norm``: of all elements, or of vectors along one or more axes.

    The array API standard's function; ``ord`` may be any number.
    """
    x = tensor_of(x)
    if isinstance(ord, str):
        raise DomainError(f"vector_norm: {ord!r} is not a norm of vectors", source=where())
    along = None if axis is None else _along("vector_norm", axis, x)
    if ord == 2 or ord is None:
        return _euclidean(x, along, keepdims)
    return _vectors(x, ord, along, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """``np.linalg.matrix_norm``: of the matrices in the last two axes.

    Args:
        x: (..., rows, columns).
        keepdims: Keep the two axes as size 1.
        ord: "fro", "nuc", 1, -1, 2, -2, inf or -inf.
    """
    x = tensor_of(x)
    if x.ndim < 2:
        raise MatrixShapeError(
            f"matrix_norm: a matrix has two dimensions, not {x.ndim}", source=where()
        )
    return _matrices(x, "fro" if ord is None else ord, (x.ndim - 2, x.ndim - 1), keepdims)


def _along(name: str, axis: Any, x: Tensor) -> tuple[int, ...]:
    axes_given = axis if isinstance(axis, tuple | list) else (axis,)
    try:
        return axes(name, tuple(int(axis_) for axis_ in axes_given), x.ndim)
    except ShapeError as error:
        error.source = where()
        raise


def _euclidean(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    if isinstance(axis, tuple) and len(axis) == 1:
        (axis,) = axis
    return call("vector_norm", x, axis=axis, keepdims=bool(keepdims))  # type: ignore[no-any-return]


def _vectors(x: Tensor, order: Any, axis: Axes, keepdims: bool) -> Tensor:
    if order == 2:
        return _euclidean(x, axis, keepdims)
    if x.dtype.kind in "biu":
        x = x.astype(np.float64)
    if order == 0:
        return np.sum((x != 0).astype(_real(x)), axis=axis, keepdims=keepdims)  # type: ignore[return-value]
    size = np.abs(x)
    if order == np.inf:
        return np.max(size, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]
    if order == -np.inf:
        return np.min(size, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]
    if order == 1:
        return np.sum(size, axis=axis, keepdims=keepdims)  # type: ignore[return-value]
    order = float(order)
    return np.sum(size**order, axis=axis, keepdims=keepdims) ** (1.0 / order)  # type: ignore[no-any-return]


def _real(x: Tensor) -> np.dtype[Any]:
    return np.zeros(0, x.dtype).real.dtype


def _matrices(x: Tensor, order: Any, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    rows, columns = axis
    if order == "fro":
        return _euclidean(x, axis, keepdims)
    sums = {1: (rows, columns, np.max), -1: (rows, columns, np.min),
            np.inf: (columns, rows, np.max), -np.inf: (columns, rows, np.min)}  # fmt: skip
    if order in sums:
        summed, chosen, choose = sums[order]
        if x.dtype.kind in "biu":
            x = x.astype(np.float64)
        norms = np.sum(np.abs(x), axis=summed, keepdims=True)
        norms = choose(norms, axis=chosen, keepdims=True)
        return norms if keepdims else np.squeeze(norms, axis=axis)  # type: ignore[no-any-return]
    spectral: dict[Any, Any] = {2: np.max, -2: np.min, "nuc": np.sum}
    if order not in spectral:
        raise DomainError(
            f"norm: {order!r} is not a norm of matrices",
            source=where(),
            hint="one of 'fro', 'nuc', 1, -1, 2, -2, inf, -inf",
        )
    last = (*(i for i in range(x.ndim) if i not in axis), rows, columns)
    ordered = x if last == tuple(range(x.ndim)) else call("transpose", x, axes=last)
    norms = spectral[order](call("svdvals", ordered), axis=-1)
    if not keepdims:
        return norms  # type: ignore[no-any-return]
    return norms.reshape(tuple(1 if i in axis else n for i, n in enumerate(x.shape)))  # type: ignore[no-any-return]


def cond(x: Any, p: Any = None) -> Tensor:
    """``np.linalg.cond``: the condition number, from singular values if ``p`` is None, 2 or -2.

    Raises:
        MatrixError: For another ``p``, the matrix has no inverse (NumPy gives infinity).
    """
    x = tensor_of(x)
    if p is None or p in (2, -2):
        singular_values = call("svdvals", x)
        largest, smallest = singular_values[..., 0], singular_values[..., -1]
        return smallest / largest if p == -2 else largest / smallest  # type: ignore[no-any-return]
    return norm(x, p, (-2, -1)) * norm(call("inv", x), p, (-2, -1))


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tensor:
    """``np.linalg.matrix_rank``: the number of singular values above ``tol``, or above ``rtol``
    times the largest; if neither is given, ``rtol`` is the dtype's precision times the larger side.
    """
    A = tensor_of(A)
    if A.ndim < 2:
        return np.any(A != 0).astype(np.int64)  # type: ignore[return-value]
    spectrum = np.abs(call("eigvalsh", A, UPLO="L")) if hermitian else call("svdvals", A)
    if tol is None:
        if rtol is None:
            rtol = max(A.shape[-2:]) * float(np.finfo(spectrum.dtype).eps)
        if not spectrum.shape[-1]:
            return np.sum(spectrum != 0, axis=-1)  # type: ignore[no-any-return]
        limit = np.max(spectrum, axis=-1, keepdims=True) * _column(rtol)
    else:
        limit = _column(tol)
    return np.sum(spectrum > limit, axis=-1)  # type: ignore[no-any-return]


def _column(value: Any) -> Any:
    """A number, or one number per matrix, aligned with the singular values."""
    if isinstance(value, int | float):
        return value
    tensor = tensor_of(value)
    return tensor.reshape((*tensor.shape, 1))


NUMPY: Table = {
    np.linalg.norm: norm, np.linalg.vector_norm: vector_norm, np.linalg.matrix_norm: matrix_norm,
    np.linalg.cond: cond, np.linalg.matrix_rank: matrix_rank,
}  # fmt: skip

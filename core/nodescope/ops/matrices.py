"""Common parts of ops on stacks of matrices: checks, errors, transposition, masks.

Invariant: registers no op; shapes are ``(..., rows, columns)`` throughout.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.errors import DtypeError, NodescopeError, ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops.op import Array, Infer, Operand
from nodescope.ops.shapes import dtype_of, shape_of

Shape = tuple[int, ...]
_NATIVE = ("float32", "float64", "complex64", "complex128")


class MatrixError(NodescopeError, np.linalg.LinAlgError):
    """A computation that the elements of a matrix make impossible; also NumPy's `LinAlgError`."""


class MatrixShapeError(ShapeError, np.linalg.LinAlgError):
    """An operand is not a stack of matrices, or of square ones; also NumPy's `LinAlgError`."""


_HINTS = {
    "Singular": "the matrix has no inverse; add a multiple of the identity, or use pinv or lstsq",
    "positive definite": "check that it is symmetric and its eigenvalues positive; add a multiple "
    "of the identity",
    "converge": "look for NaN or infinity in the matrix",
}


def guarded(name: str, function: Callable[..., Any], infer: Infer) -> Callable[..., Any]:
    """``function`` with NumPy's errors replaced by nodescope's."""

    def impl(*arrays: Any, **attrs: Any) -> Any:
        try:
            return function(*arrays, **attrs)
        except np.linalg.LinAlgError as error:
            infer(tuple(spec(array) for array in arrays), attrs)
            text = str(error)
            hint = next((hint for word, hint in _HINTS.items() if word in text), "")
            raise MatrixError(f"{name}: {text[:1].lower()}{text[1:]}", hint=hint) from None

    return impl


def spec(x: Any) -> Any:
    """The spec of an array; a Python scalar is returned unchanged."""
    return TensorSpec(x.shape, x.dtype.name) if isinstance(x, np.ndarray) else x


def dtype(name: str, *operands: Operand) -> np.dtype[Any]:
    """The dtype in which linear algebra computes: integers become float64.

    Raises:
        DtypeError: An operand has a dtype unknown to LAPACK, such as float16.
    """
    dtypes = []
    for operand in operands:
        operand_dtype = np.dtype(dtype_of(operand))
        if operand_dtype.kind in "biu":
            operand_dtype = np.dtype(np.float64)
        elif operand_dtype.name not in _NATIVE:
            raise DtypeError(
                f"{name}: not defined for {operand_dtype.name}", hint="use .astype('float32')"
            )
        dtypes.append(operand_dtype)
    return np.result_type(*dtypes)


def real(dtype_: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of a complex dtype; a real dtype itself."""
    return np.zeros(0, dtype_).real.dtype


def matrix(name: str, operand: Operand) -> Shape:
    """The shape of a stack of matrices.

    Raises:
        MatrixShapeError: The operand has fewer than two dimensions.
    """
    shape = shape_of(operand)
    if len(shape) < 2:
        raise MatrixShapeError(
            f"{name}: a matrix has two dimensions, not {len(shape)}: shape {shape}",
            hint="x[None, :] makes a row of a vector, x[:, None] a column",
        )
    return shape


def square(name: str, operand: Operand) -> Shape:
    """The shape of a stack of square matrices.

    Raises:
        MatrixShapeError: The matrices are not square.
    """
    shape = matrix(name, operand)
    if shape[-1] != shape[-2]:
        raise MatrixShapeError(f"{name}: the matrix must be square, not ({shape[-2]}, {shape[-1]})")
    return shape


def transposed(F: Any, x: Any) -> Any:
    """The last two dimensions exchanged."""
    return F.transpose(x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def conjugate(F: Any, x: Any) -> Any:
    """The complex conjugate; real numbers themselves, without a node."""
    return F.conjugate(x) if x.dtype.kind == "c" else x


def adjoint(F: Any, x: Any) -> Any:
    """The conjugate transpose."""
    return conjugate(F, transposed(F, x))


def row(F: Any, x: Any) -> Any:
    """(..., n) as (..., 1, n)."""
    return F.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))


def column(F: Any, x: Any) -> Any:
    """(..., n) as (..., n, 1)."""
    return F.reshape(x, shape=(*x.shape, 1))


@functools.lru_cache(256)
def mask(n: int, below: float, diagonal: float, above: float, name: str) -> Array:
    """(n, n) with these numbers below, on and above its diagonal; of the real type of ``name``."""
    ones = np.ones((n, n), real(np.dtype(name)))
    weights = below * np.tril(ones, -1) + diagonal * np.eye(n) + above * np.triu(ones, 1)
    weights = weights.astype(ones.dtype)
    weights.flags.writeable = False
    return weights


def masked(F: Any, x: Any, below: float, diagonal: float, above: float) -> Any:
    """``x`` (..., n, n), times these numbers below, on and above its diagonal."""
    return F.multiply(x, mask(x.shape[-1], below, diagonal, above, x.dtype.name))


def diagonal_matrix(F: Any, x: Any) -> Any:
    """(..., n) on the diagonals of (..., n, n)."""
    return F.multiply(row(F, x), mask(x.shape[-1], 0.0, 1.0, 0.0, x.dtype.name))


def cubic(specs: tuple[Operand, ...], out: Any, attrs: dict[str, Any]) -> int:
    """Approximate operation count of a factorisation of the first operand."""
    shape = shape_of(specs[0])
    *batch, rows, columns = shape if len(shape) > 1 else (*shape, 1)
    return int(np.prod(batch)) * rows * columns * min(rows, columns)

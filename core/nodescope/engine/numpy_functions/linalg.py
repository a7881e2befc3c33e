"""`numpy.linalg` on tensors: systems, factorisations, spectra, powers.

Invariant: functions take the arguments of NumPy and of the array API standard, and return results
with the names that both use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nodescope.engine.numpy_functions.base import Table, call, tensor_of
from nodescope.engine.numpy_functions.products import matmul
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor, check_known
from nodescope.errors import DtypeError, ShapeError, UnsupportedError
from nodescope.ops.matrices import MatrixShapeError, real
from nodescope.ops.shapes import axes


class SVDResult(NamedTuple):
    """``U * S @ Vh`` is the matrix."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class QRResult(NamedTuple):
    """``Q @ R`` is the matrix."""

    Q: Tensor
    R: Tensor


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SlogdetResult(NamedTuple):
    """``sign * exp(logabsdet)`` is the determinant."""

    sign: Tensor
    logabsdet: Tensor


# Systems


def solve(a: Any, b: Any, /) -> Tensor:
    """``np.linalg.solve``: x with ``a @ x == b``; a ``b`` with one dimension is a vector.

    Raises:
        MatrixError: A matrix has no inverse.
        ShapeError: The shapes do not fit.
    """
    return call("solve", tensor_of(a), tensor_of(b))  # type: ignore[no-any-return]


def solve_triangular(
    a: Any, b: Any, /, *, lower: bool = False, trans: bool = False, unit_diagonal: bool = False
) -> Tensor:
    """x with ``triangle(a) @ x == b``; only that triangle of ``a`` is read.

    Args:
        a: (..., n, n).
        b: (n,) or (..., n, k).
        lower: Whether to use the lower triangle.
        trans: Whether to use its transpose.
        unit_diagonal: Whether to assume a diagonal of ones.
    """
    return call(  # type: ignore[no-any-return]
        "solve_triangular", tensor_of(a), tensor_of(b), lower=bool(lower), trans=bool(trans),
        unit=bool(unit_diagonal),
    )  # fmt: skip


def inv(a: Any, /) -> Tensor:
    """``np.linalg.inv``. Raises `MatrixError` for a singular matrix."""
    return call("inv", tensor_of(a))  # type: ignore[no-any-return]


def pinv(a: Any, /, rcond: Any = None, hermitian: bool = False, *, rtol: Any = 1e-15) -> Tensor:
    """``np.linalg.pinv``: singular values up to ``rtol`` times the largest count as zero; None
    stands for the dtype's precision times the larger side. An array holds one cutoff per matrix.

    The gradient assumes constant rank.
    """
    a = tensor_of(a)
    if rtol is None and a.ndim >= 2:
        rtol = max(a.shape[-2:]) * float(np.finfo(_float(a)).eps)
    cutoff = rtol if rcond is None else rcond
    if isinstance(cutoff, Tensor):
        check_known(cutoff, "pinv: rtol")
        cutoff = cutoff.data
    relative = _tuples(
        np.asarray(cutoff or 0.0 if np.ndim(cutoff) == 0 else cutoff, float).tolist()
    )
    if hermitian:
        return _hermitian_pinv(a, np.asarray(relative))
    return call("pinv", a, rcond=relative)  # type: ignore[no-any-return]


def _hermitian_pinv(a: Tensor, cutoffs: Any) -> Tensor:
    """The pseudo-inverse from the eigenvalues of one triangle, as in NumPy."""
    eigen: Any = eigh(a)
    values, vectors = eigen
    size: Any = np.abs(values)
    large = size > cutoffs[..., None] * np.max(size, axis=-1, keepdims=True)
    turned = np.where(large, 1 / np.where(large, values, 1), 0).astype(values.dtype)
    return vectors * turned[..., None, :] @ _adjoint(vectors)  # type: ignore[no-any-return]


def _adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _float(x: Tensor) -> np.dtype[Any]:
    return np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype


def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``np.linalg.lstsq``: the solution, sums of squared residuals, rank, singular values.

    Residuals are returned for every matrix with more rows than columns: NumPy leaves them out if
    the rank is deficient, which a static graph cannot know.
    """
    a, b = tensor_of(a), tensor_of(b)
    x, rank = call("lstsq", a, b, rcond=None if rcond is None else float(rcond))
    if a.shape[0] > a.shape[1]:
        squares = np.square(np.abs(a @ x - b))
        residuals = np.sum(squares, axis=0).reshape(b.shape[1:] or (1,))
    else:
        residuals = tensor_of(np.zeros(0, real(x.dtype)))
    return x, residuals, rank, svdvals(a)


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Tensor:
    """``np.linalg.tensorsolve``: x with ``tensordot(a, x, x.ndim) == b``."""
    a, b = tensor_of(a), tensor_of(b)
    if axes is not None:
        moved = _listed("tensorsolve", axes, a)
        a = call("transpose", a, axes=(*(i for i in range(a.ndim) if i not in moved), *moved))
    shape = a.shape[b.ndim :]
    if int(np.prod(shape)) != b.size or b.size**2 != a.size:
        raise MatrixShapeError(f"tensorsolve: {a.shape} does not fit {b.shape}", source=where())
    return solve(a.reshape(b.size, b.size), b.ravel()).reshape(shape)


def tensorinv(a: Any, ind: int = 2) -> Tensor:
    """``np.linalg.tensorinv``: undoes ``tensordot(a, x, ind)``."""
    a = tensor_of(a)
    if ind <= 0:
        raise ShapeError("tensorinv: ind must be at least 1", source=where())
    first, last = a.shape[:ind], a.shape[ind:]
    n = int(np.prod(last))
    return inv(a.reshape(-1 if n else 0, n)).reshape((*last, *first))


def _listed(name: str, axes_given: Any, x: Tensor) -> tuple[int, ...]:
    try:
        return axes(name, tuple(int(axis) for axis in axes_given), x.ndim)
    except ShapeError as error:
        error.source = where()
        raise


# Determinants and factorisations


def det(a: Any, /) -> Tensor:
    """``np.linalg.det``. Its gradient exists where the matrix has an inverse."""
    return call("det", tensor_of(a))  # type: ignore[no-any-return]


def slogdet(a: Any, /) -> SlogdetResult:
    """``np.linalg.slogdet``: sign and logarithm of the absolute value of the determinant."""
    return SlogdetResult(*call("slogdet", tensor_of(a)))


def cholesky(a: Any, /, *, upper: bool = False) -> Tensor:
    """``np.linalg.cholesky``: L with ``L @ L.conj().T == a``, or U with ``U.conj().T @ U == a``.

    One triangle of ``a`` is read, as in NumPy; it receives the gradient.
    """
    return call("cholesky", tensor_of(a), upper=bool(upper))  # type: ignore[no-any-return]


def qr(a: Any, /, mode: str = "reduced") -> Any:
    """``np.linalg.qr``; ``mode`` is "reduced", "complete" or "r" (R alone)."""
    if mode not in ("reduced", "complete", "r"):
        raise UnsupportedError(
            f"qr: mode={mode!r} is not traced", source=where(), hint="'reduced', 'complete' or 'r'"
        )
    result = QRResult(*call("qr", tensor_of(a), mode="reduced" if mode == "r" else mode))
    return result.R if mode == "r" else result


def svd(
    a: Any, /, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """``np.linalg.svd``: U, S and Vh, or S alone without ``compute_uv``.

    Vectors have a gradient where singular values are distinct and not zero. With
    ``full_matrices``, those beyond the smaller side are an arbitrary basis: a gradient through them
    is NaN.
    """
    if hermitian:
        return _hermitian_svd(tensor_of(a), compute_uv)
    if not compute_uv:
        return svdvals(a)
    return SVDResult(*call("svd", tensor_of(a), full_matrices=bool(full_matrices)))


def _hermitian_svd(a: Tensor, compute_uv: bool) -> Any:
    """The SVD from the eigenvalues of one triangle; Vh takes their signs."""
    if not compute_uv:
        return np.sort(np.abs(eigvalsh(a)), axis=-1)[..., ::-1]
    eigen: Any = eigh(a)
    values, vectors = eigen
    order: Any = np.argsort(np.abs(values), axis=-1)[..., ::-1]
    signs = np.take_along_axis(np.sign(values), order, -1)
    u: Any = np.take_along_axis(vectors, order[..., None, :], -1)
    s: Any = np.take_along_axis(np.abs(values), order, -1)
    return SVDResult(u, s, _adjoint(u * signs[..., None, :]))


def svdvals(x: Any, /) -> Tensor:
    """``np.linalg.svdvals``: singular values, in descending order."""
    return call("svdvals", tensor_of(x))  # type: ignore[no-any-return]


# Eigenvalues


def eigh(a: Any, /, UPLO: str = "L") -> EighResult:
    """``np.linalg.eigh``, of Hermitian matrices; one triangle is read, and has the gradient.

    Vectors have a gradient where eigenvalues are distinct.
    """
    return EighResult(*call("eigh", tensor_of(a), UPLO=_triangle(UPLO)))


def eigvalsh(a: Any, /, UPLO: str = "L") -> Tensor:
    """``np.linalg.eigvalsh``: eigenvalues of Hermitian matrices, in ascending order."""
    return call("eigvalsh", tensor_of(a), UPLO=_triangle(UPLO))  # type: ignore[no-any-return]


def _triangle(uplo: str) -> str:
    if uplo.upper() not in ("L", "U"):
        raise ShapeError(f"eigh: UPLO must be 'L' or 'U', not {uplo!r}", source=where())
    return uplo.upper()


def eig(a: Any, /) -> EigResult:
    """``np.linalg.eig``, but always complex; vectors have length 1 and any phase."""
    return EigResult(*call("eig", tensor_of(a)))


def eigvals(a: Any, /) -> Tensor:
    """``np.linalg.eigvals``, but always complex."""
    return call("eigvals", tensor_of(a))  # type: ignore[no-any-return]


# Powers and chains


def matrix_power(a: Any, n: int, /) -> Tensor:
    """``np.linalg.matrix_power``, by squaring; a power of the inverse if ``n`` is negative."""
    a = tensor_of(a)
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise DtypeError("matrix_power: the exponent must be an integer", source=where())
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise MatrixShapeError(
            f"matrix_power: matrices must be square, not {a.shape}", source=where()
        )
    if n == 0:
        return tensor_of(np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape).copy())
    if n < 0:
        a, n = inv(a), -n
    result = None
    while n:
        if n & 1:
            result = a if result is None else matmul(result, a)
        n >>= 1
        if n:
            a = matmul(a, a)
    assert result is not None
    return result  # type: ignore[no-any-return]


def multi_dot(arrays: Sequence[Any], *, out: None = None) -> Tensor:
    """``np.linalg.multi_dot``: a product of matrices, in the order with the fewest
    multiplications.
    """
    if out is not None:
        raise UnsupportedError("multi_dot: out= is not traced", source=where())
    chain = [tensor_of(array) for array in arrays]
    if len(chain) < 2:
        raise ShapeError("multi_dot: needs at least two arrays", source=where())
    ends = chain[0].ndim == 1, chain[-1].ndim == 1
    if ends[0]:
        chain[0] = chain[0].reshape(1, -1)
    if ends[1]:
        chain[-1] = chain[-1].reshape(-1, 1)
    for matrix in chain:
        if matrix.ndim != 2:
            raise MatrixShapeError(
                f"multi_dot: all inner arrays must be matrices, not shape {matrix.shape}",
                source=where(),
            )
    product = _chain(chain, _splits([matrix.shape[0] for matrix in chain] + [chain[-1].shape[1]]))
    shape = (() if ends[0] else product.shape[:1]) + (() if ends[1] else product.shape[1:])
    return product if shape == product.shape else product.reshape(shape)


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to cut the product of matrices i to j; matrix i is (sizes[i], sizes[i + 1])."""
    n = len(sizes) - 1
    cost: dict[tuple[int, int], int] = {(i, i): 0 for i in range(n)}
    cut: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], cut[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return cut


def _chain(chain: list[Tensor], cut: dict[tuple[int, int], int]) -> Tensor:
    def product(i: int, j: int) -> Tensor:
        if i == j:
            return chain[i]
        return matmul(product(i, cut[i, j]), product(cut[i, j] + 1, j))

    return product(0, len(chain) - 1)


NUMPY: Table = {
    np.linalg.solve: solve, np.linalg.inv: inv, np.linalg.pinv: pinv, np.linalg.lstsq: lstsq,
    np.linalg.tensorsolve: tensorsolve, np.linalg.tensorinv: tensorinv, np.linalg.det: det,
    np.linalg.slogdet: slogdet, np.linalg.cholesky: cholesky, np.linalg.qr: qr, np.linalg.svd: svd,
    np.linalg.svdvals: svdvals, np.linalg.eigh: eigh, np.linalg.eigvalsh: eigvalsh,
    np.linalg.eig: eig, np.linalg.eigvals: eigvals, np.linalg.matrix_power: matrix_power,
    np.linalg.multi_dot: multi_dot,
}  # fmt: skip

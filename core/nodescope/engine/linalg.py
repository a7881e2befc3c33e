"""`nodescope.linalg`: linear algebra by the names of the array API standard, and NumPy's others.

``ns.linalg.f(x)`` and ``np.linalg.f(x)`` are the same function; the former also takes arrays, which
become constants.

Invariant: this module only provides names; the implementations are in `engine.numpy_functions`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.engine.numpy_functions.base import tensor_of
from nodescope.engine.numpy_functions.linalg import (
    cholesky,
    det,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    lstsq,
    matrix_power,
    multi_dot,
    pinv,
    qr,
    slogdet,
    solve,
    solve_triangular,
    svd,
    svdvals,
    tensorinv,
    tensorsolve,
)
from nodescope.engine.numpy_functions.norms import (
    cond,
    matrix_norm,
    matrix_rank,
    norm,
    vector_norm,
)
from nodescope.engine.numpy_functions.products import (
    matmul,
    matrix_transpose,
    tensordot,
    vecdot,
)
from nodescope.engine.numpy_functions.products import (
    outer_of_vectors as outer,
)
from nodescope.engine.tensor import Tensor
from nodescope.ops.matrices import MatrixError as LinAlgError

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve",
    "solve_triangular", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace",
    "vecdot", "vector_norm",
]  # fmt: skip


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """``np.linalg.cross``: the cross product of 3-vectors along an axis."""
    return np.linalg.cross(tensor_of(x1), tensor_of(x2), axis=axis)  # type: ignore[return-value]


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """``np.linalg.diagonal`` of the matrices in the last two axes."""
    return np.linalg.diagonal(tensor_of(x), offset=offset)  # type: ignore[return-value]


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """``np.linalg.trace`` of the matrices in the last two axes."""
    return np.linalg.trace(tensor_of(x), offset=offset, dtype=dtype)  # type: ignore[no-any-return]

"""Products of arrays beyond ``@``: einsum, tensordot, dot, inner, outer, kron; cov, corrcoef.

Invariant: every product of any shape is one ``einsum`` or ``matmul``, whose subscripts the graph
shows.
"""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from nodescope.engine.numpy_functions.base import Table, call, tensor_of
from nodescope.engine.source import where
from nodescope.engine.tensor import Tensor
from nodescope.errors import DtypeError, ShapeError, UnsupportedError
from nodescope.ops.einsum import spelled_out
from nodescope.ops.shapes import axes

_LETTERS = string.ascii_letters


def einsum(
    *operands: Any, optimize: Any = True, out: None = None, order: str = "K", dtype: Any = None,
    casting: Any = "safe",
) -> Tensor:  # fmt: skip
    """``np.einsum``: with subscripts, or with alternating operands and lists of axes.

    Args:
        operands: ``"ij,jk->ik", a, b`` or ``a, [0, 1], b, [1, 2], [0, 2]``.
        optimize: Accepted as in NumPy; a good order is always searched.
        out: Refused.
        order: Accepted; the memory layout of the result is unspecified.
        dtype: The dtype of the computation and the result; that of the operands if None.
        casting: Which conversions to ``dtype`` are allowed, in NumPy's terms.

    Raises:
        ShapeError: The subscripts do not fit each other or the operands.
    """
    if out is not None:
        raise UnsupportedError(
            "einsum with out= would take the result out of the graph", source=where()
        )
    if not operands:
        raise ShapeError("einsum: the subscripts are missing", source=where())
    subscripts, operands_given = _parsed(operands)
    tensors = [tensor_of(operand_) for operand_ in operands_given]
    if dtype is not None:
        for tensor in tensors:
            if not np.can_cast(tensor.dtype, dtype, casting):
                raise DtypeError(
                    f"np.einsum: {tensor.dtype} cannot be cast to {np.dtype(dtype)} by the rule "
                    f"{casting!r}",
                    source=where(),
                    hint="give casting='unsafe', or convert with .astype",
                )
        tensors = [tensor.astype(dtype) for tensor in tensors]
    try:
        expression = spelled_out(subscripts, tuple(tensor.ndim for tensor in tensors))
    except ShapeError as error:
        raise ShapeError(error.message, source=where(), hint=error.hint) from None
    return call("einsum", *tensors, subscripts=expression)  # type: ignore[no-any-return]


def _parsed(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    if isinstance(operands[0], str):
        return operands[0], operands[1:]
    pairs = len(operands) // 2
    terms = [_term(operand) for operand in operands[1 : 2 * pairs : 2]]
    expression = ",".join(terms)
    if len(operands) % 2:
        expression += "->" + _term(operands[-1])
    return expression, operands[0 : 2 * pairs : 2]


def _term(labels: Any) -> str:
    term = ""
    for label in labels:
        if label is Ellipsis:
            term += "..."
        elif 0 <= int(label) < len(_LETTERS):
            term += _LETTERS[int(label)]
        else:
            raise ShapeError(
                f"einsum: the axis {label} is not between 0 and {len(_LETTERS) - 1}", source=where()
            )
    return term


def contracted(a: Tensor, b: Tensor, a_axes: tuple[int, ...], b_axes: tuple[int, ...]) -> Tensor:
    """Sum products over pairs of axes; the result has the other axes of ``a``, then those of
    ``b``.
    """
    if a.ndim + b.ndim - len(a_axes) > len(_LETTERS):
        raise ShapeError("products with this many dimensions are not traced", source=where())
    a_labels = list(_LETTERS[: a.ndim])
    b_labels = list(_LETTERS[a.ndim : a.ndim + b.ndim])
    for i, j in zip(a_axes, b_axes, strict=True):
        b_labels[j] = a_labels[i]
    rest = [x for i, x in enumerate(a_labels) if i not in a_axes]
    rest += [x for j, x in enumerate(b_labels) if j not in b_axes]
    return call(  # type: ignore[no-any-return]
        "einsum", a, b, subscripts=f"{''.join(a_labels)},{''.join(b_labels)}->{''.join(rest)}"
    )


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """``np.tensordot``: ``axes`` is a number (last axes of ``a`` and first of ``b``), or a pair of
    axes or of lists of them.

    Raises:
        ShapeError: Axes do not exist, are repeated or differ in size.
    """
    a, b = tensor_of(a), tensor_of(b)
    if isinstance(axes, int | np.integer):
        n = int(axes)
        if n > min(a.ndim, b.ndim) or n < 0:
            raise ShapeError(
                f"tensordot: {a.shape} and {b.shape} have no {n} axes to sum over", source=where()
            )
        pairs = tuple(range(a.ndim - n, a.ndim)), tuple(range(n))
    else:
        a_axes, b_axes = axes
        pairs = _listed(a_axes, a), _listed(b_axes, b)
    sizes = tuple(tuple(x.shape[i] for i in pair) for x, pair in zip((a, b), pairs, strict=True))
    if sizes[0] != sizes[1]:
        raise ShapeError(
            f"tensordot: sizes {sizes[0]} of the first operand do not match {sizes[1]}",
            source=where(),
            hint=f"shapes are {a.shape} and {b.shape}",
        )
    return contracted(a, b, *pairs)


def _listed(axes_given: Any, x: Tensor) -> tuple[int, ...]:
    axes_listed = (axes_given,) if isinstance(axes_given, int | np.integer) else tuple(axes_given)
    try:
        return axes("tensordot", tuple(int(axis) for axis in axes_listed), x.ndim)
    except ShapeError as error:
        error.source = where()
        raise


def _one_size(name: str, a: Tensor, b: Tensor, i: int, j: int) -> None:
    if a.shape[i] != b.shape[j]:
        raise ShapeError(
            f"{name}: sizes {a.shape[i]} and {b.shape[j]} differ in shapes {a.shape} and {b.shape}",
            source=where(),
        )


def dot(a: Any, b: Any, out: None = None) -> Tensor:
    """``np.dot``: sums over the last axis of ``a`` and the second-to-last of ``b``."""
    if out is not None:
        raise UnsupportedError("np.dot: out= is not traced", source=where())
    a, b = tensor_of(a), tensor_of(b)
    if not a.ndim or not b.ndim:
        return a * b  # type: ignore[no-any-return]
    if b.ndim <= 2 and a.ndim <= 2:
        return a @ b  # type: ignore[no-any-return]
    last = max(b.ndim - 2, 0)
    _one_size("dot", a, b, -1, last)
    return contracted(a, b, (a.ndim - 1,), (last,))


def inner(a: Any, b: Any) -> Tensor:
    """``np.inner``: sums over the last axes of both."""
    a, b = tensor_of(a), tensor_of(b)
    if not a.ndim or not b.ndim:
        return a * b  # type: ignore[no-any-return]
    _one_size("inner", a, b, -1, -1)
    return contracted(a, b, (a.ndim - 1,), (b.ndim - 1,))


def vdot(a: Any, b: Any) -> Tensor:
    """``np.vdot``: the dot product of all elements, the first operand conjugated."""
    a, b = tensor_of(a).ravel(), tensor_of(b).ravel()
    _one_size("vdot", a, b, 0, 0)
    return contracted(_conjugate(a), b, (0,), (0,))


def _conjugate(x: Tensor) -> Tensor:
    return call("conjugate", x) if x.dtype.kind == "c" else x


def outer(a: Any, b: Any, out: None = None) -> Tensor:
    """``np.outer`` of all elements, in row-major order."""
    if out is not None:
        raise UnsupportedError("np.outer: out= is not traced", source=where())
    return tensor_of(a).ravel().reshape(-1, 1) * tensor_of(b).ravel()


def outer_of_vectors(x1: Any, x2: Any, /) -> Tensor:
    """``np.linalg.outer``, of vectors only."""
    a, b = tensor_of(x1), tensor_of(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(
            f"outer: expected vectors, got shapes {a.shape} and {b.shape}",
            source=where(),
            hint="np.outer flattens its arguments",
        )
    return a.reshape(-1, 1) * b


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """``np.linalg.vecdot``: products of vectors along an axis, the first conjugated."""
    a, b = tensor_of(x1), tensor_of(x2)
    if axis != -1:
        a, b = (call("transpose", x, axes=_to_end(x, axis)) for x in (a, b))
    return call("vecdot", a, b)  # type: ignore[no-any-return]


def _to_end(x: Tensor, axis: int) -> tuple[int, ...]:
    try:
        (at,) = axes("vecdot", (axis,), x.ndim)
    except ShapeError as error:
        error.source = where()
        raise
    return (*(i for i in range(x.ndim) if i != at), at)


def kron(a: Any, b: Any) -> Tensor:
    """``np.kron``: every element of ``a`` times all of ``b``."""
    a, b = tensor_of(a), tensor_of(b)
    ndim = max(a.ndim, b.ndim)
    a_labels, b_labels = _LETTERS[: a.ndim], _LETTERS[ndim : ndim + b.ndim]
    woven = ""
    for i in range(ndim):
        woven += a_labels[i - ndim + a.ndim : i - ndim + a.ndim + 1] if i >= ndim - a.ndim else ""
        woven += b_labels[i - ndim + b.ndim : i - ndim + b.ndim + 1] if i >= ndim - b.ndim else ""
    product = call("einsum", a, b, subscripts=f"{a_labels},{b_labels}->{woven}")
    sizes = [(1,) * (ndim - x.ndim) + x.shape for x in (a, b)]
    return product.reshape(tuple(m * n for m, n in zip(*sizes, strict=True)))  # type: ignore[no-any-return]


def matrix_transpose(x: Any, /) -> Tensor:
    """``np.matrix_transpose``: the last two axes exchanged."""
    x = tensor_of(x)
    if x.ndim < 2:
        raise ShapeError(
            f"matrix_transpose: a matrix has two dimensions, not {x.ndim}", source=where()
        )
    order = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    return call("transpose", x, axes=order)  # type: ignore[no-any-return]


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """``np.linalg.matmul``."""
    return call("matmul", tensor_of(x1), tensor_of(x2))  # type: ignore[no-any-return]


# Statistics


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Tensor:
    """``np.cov``: the covariance matrix of variables, one per row."""
    x = _variables(tensor_of(m), rowvar)
    if y is not None:
        other = _variables(tensor_of(y), rowvar)
        x = call("concatenate", x, other, axis=0)
    target = np.result_type(x.dtype, np.float64) if dtype is None else np.dtype(dtype)
    x = x if x.dtype == target else x.astype(target)
    ddof = (0 if bias else 1) if ddof is None else ddof
    if fweights is None and aweights is None:
        centred = x - np.mean(x, axis=1, keepdims=True)
        share: Any = max(x.shape[1] - ddof, 0)
        scaled = centred
    else:
        weights: Any = 1.0
        if fweights is not None:
            weights = tensor_of(fweights)
            if weights.dtype.kind not in "iub":
                raise DtypeError("cov: fweights are counts and must be integers", source=where())
            _one_per_column(weights, x)
        if aweights is not None:
            _one_per_column(tensor_of(aweights), x)
            weights = weights * tensor_of(aweights)
        total = np.sum(weights)
        centred = x - (np.sum(x * weights, axis=1) / total).reshape(-1, 1)
        if ddof == 0:
            share = total
        elif aweights is None:
            share = total - ddof
        else:
            share = total - ddof * np.sum(weights * tensor_of(aweights)) / total
        scaled = centred * weights
    product = contracted(scaled, _conjugate(centred), (1,), (1,))
    return (product / share).squeeze()  # type: ignore[no-any-return]


def _one_per_column(weights: Tensor, x: Tensor) -> None:
    if weights.shape != x.shape[1:]:
        raise ShapeError(
            f"cov: {weights.shape} weights for {x.shape[1]} observations", source=where()
        )


def _variables(x: Tensor, rowvar: bool) -> Tensor:
    if x.ndim > 2:
        raise ShapeError("cov: variables must have one or two dimensions", source=where())
    if x.ndim < 2:
        return x.reshape(1, -1)
    return x if rowvar or x.shape[0] == 1 else x.T


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    """``np.corrcoef``: correlations of variables, one per row; clipped to -1 and 1 as NumPy's."""
    covariance = cov(x, y, rowvar, dtype=dtype)
    if not covariance.ndim:
        return covariance / covariance
    n = covariance.shape[0]
    spread = np.sqrt(np.real(covariance[np.arange(n), np.arange(n)]))
    scaled = covariance / spread.reshape(-1, 1) / spread
    return scaled if scaled.dtype.kind == "c" else call("clip", scaled, low=-1, high=1)


NUMPY: Table = {
    np.einsum: einsum, np.tensordot: tensordot, np.dot: dot, np.inner: inner, np.vdot: vdot,
    np.outer: outer, np.kron: kron, np.matrix_transpose: matrix_transpose, np.cov: cov,
    np.corrcoef: corrcoef, np.linalg.tensordot: tensordot, np.linalg.vecdot: vecdot,
    np.linalg.matrix_transpose: matrix_transpose, np.linalg.matmul: matmul,
    np.linalg.outer: outer_of_vectors,
}  # fmt: skip

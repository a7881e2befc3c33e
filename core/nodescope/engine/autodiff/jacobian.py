"""Whole derivatives: Jacobian and Hessian matrices, and a Hessian times a vector.

Invariant: shapes are JAX's, ``out.shape + in.shape``; for trees, the result is a tree like the
output, whose leaves are trees like the input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from nodescope.engine.autodiff.forward_mode import linearize
from nodescope.engine.autodiff.grad import grad
from nodescope.engine.autodiff.transforms import Argnums, DifferentiatedCall, numbers_of, outputs_of
from nodescope.engine.numpy_functions.base import call
from nodescope.engine.source import where
from nodescope.engine.tensor import SMOOTH, Tensor, make
from nodescope.engine.trees import Tree, flatten, map_leaves, unflatten
from nodescope.errors import GradientError

Mode = Literal["reverse", "forward"]


def jacobian(
    f: Callable[..., Any], argnums: Argnums = 0, *, mode: Mode = "reverse", has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``f``.

    For a real function of complex arguments, rows are gradients as returned by `grad`; for a
    complex function of complex arguments, which must be holomorphic, complex derivatives; for a
    complex function of real arguments, complex numbers.

    Args:
        f: Returns a tree of floating-point tensors; with ``has_aux``, a pair of that and anything.
        argnums: Positional arguments to differentiate with respect to; each may be a tree.
        mode: ``reverse`` takes one backward pass per output element, ``forward`` one per input
            element, all through a single evaluation of ``f``.
        has_aux: ``f`` also returns auxiliary data; the function returns ``(jacobian, aux)``.

    Raises:
        GradientError: An output or argument is not floating point.
    """
    if mode not in ("reverse", "forward"):
        raise GradientError(
            f"jacobian: mode {mode!r}", source=where(), hint='use "reverse" or "forward"'
        )
    numbers = numbers_of(argnums)
    rows = _reverse if mode == "reverse" else _forward

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        (form, columns), aux = rows(f, args, kwargs, numbers, has_aux)
        rows_of_argument = [trees if isinstance(argnums, tuple) else trees[0] for trees in columns]
        jacobian_tree = unflatten(form, rows_of_argument)
        return (jacobian_tree, aux) if has_aux else jacobian_tree

    return differentiated


def jacrev(f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False) -> Any:
    """`jacobian` by backward passes, one per output element (``jax.jacrev``)."""
    return jacobian(f, argnums, mode="reverse", has_aux=has_aux)


def jacfwd(f: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False) -> Any:
    """`jacobian` by forward passes, one per input element (``jax.jacfwd``)."""
    return jacobian(f, argnums, mode="forward", has_aux=has_aux)


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that returns the matrix of second derivatives of ``f`` (``jax.hessian``)."""
    return jacobian(jacobian(f, argnums), argnums)


def hvp(f: Callable[..., Any], primals: Sequence[Tree], tangents: Sequence[Tree]) -> Any:
    """The product of the Hessian of a scalar function and a vector, without forming the Hessian.

    Args:
        f: Returns a scalar.
        primals: Its arguments, a tuple or list.
        tangents: A tree like each primal.

    Returns:
        A tuple with a tree like each primal; just the tree if there is one primal.

    Raises:
        GradientError, ShapeError, DtypeError: As for `grad` and `linearize`.
    """
    slopes = grad(f, tuple(range(len(primals))))
    _, push = linearize(slopes, *primals)
    products = push(*tangents)
    return products[0] if len(primals) == 1 else products


Rows = tuple[Any, list[tuple[Any, ...]]]
"""The output's structure, and for each output a tree per argument."""


def _reverse(
    f: Callable[..., Any], args: Any, kwargs: Any, numbers: tuple[int, ...], has_aux: bool
) -> tuple[Rows, Any]:
    call_ = DifferentiatedCall(f, args, kwargs, numbers, name="jacobian")
    value = call_.result[0] if has_aux else call_.result
    outputs = outputs_of(value, "jacobian")
    columns = []
    for root in outputs:
        _check_smooth(root)
        columns.append(tuple(call_.like_arguments(_rows(call_, root))))
    return (flatten(value)[1], columns), call_.result[1] if has_aux else None


def _rows(call_: DifferentiatedCall, root: Tensor) -> list[Tensor]:
    """The Jacobian of one output with respect to each leaf."""
    size, turned = root.size, root.dtype.kind == "c"
    rows = []
    for number in range(size):
        basis = np.zeros(size, root.dtype)
        basis[number] = 1.0
        start = basis.reshape(root.shape)
        real_part = call_.pull([root], [start], name="jacobian", conjugate=not turned)
        if turned and any(leaf.dtype.kind != "c" for leaf in call_.leaves):
            # Real arguments keep only the real part, so the imaginary part is pulled separately.
            other = call_.pull([root], [-1j * start], name="jacobian", conjugate=False)
            real_part = [
                real if leaf.dtype.kind == "c" else real + 1j * more
                for leaf, real, more in zip(call_.leaves, real_part, other, strict=True)
            ]
        rows.append(real_part)
    return [
        _stacked([row[number] for row in rows], (*root.shape, *leaf.shape), leaf.dtype)
        for number, leaf in enumerate(call_.leaves)
    ]


def _stacked(rows: list[Tensor], shape: tuple[int, ...], dtype: Any) -> Tensor:
    if not rows:
        return make(np.zeros(shape, dtype))
    return call("stack", *rows, axis=0).reshape(shape)  # type: ignore[no-any-return]


def _forward(
    f: Callable[..., Any], args: Any, kwargs: Any, numbers: tuple[int, ...], has_aux: bool
) -> tuple[Rows, Any]:
    aux: list[Any] = []

    def of(*replaced: Any) -> Any:
        full = list(args)
        for number, replacement in zip(numbers, replaced, strict=True):
            full[number] = replacement
        result = f(*full, **kwargs)
        if has_aux:
            result, more = result
            aux.append(more)
        return result

    chosen = [args[number] for number in numbers]
    value, push = linearize(of, *chosen)
    outputs, form = flatten(value)
    for output in outputs:
        _check_smooth(output)
    leaves = [x if isinstance(x, Tensor) else np.asarray(x) for x in flatten(chosen)[0]]
    zeros = [np.zeros(leaf.shape, leaf.dtype) for leaf in leaves]  # their elements may be unknown
    by_leaf = []
    for number, leaf in enumerate(zeros):
        pushed = [
            _pushed(push, chosen, zeros, number, place, outputs) for place in range(leaf.size)
        ]
        by_leaf.append(
            [
                _columns([column[port] for column in pushed], out.shape, leaf)
                for port, out in enumerate(outputs)
            ]
        )
    columns = []
    for port in range(len(outputs)):
        following = iter(column[port] for column in by_leaf)
        columns.append(tuple(map_leaves(lambda _: next(following), tree) for tree in chosen))  # noqa: B023
    return (form, columns), aux[0] if has_aux else None


def _pushed(
    push: Any, chosen: list[Any], zeros: list[Any], number: int, place: int, outputs: list[Tensor]
) -> list[Tensor]:
    """The derivative of all outputs with respect to one element of one leaf."""

    def along(step: complex) -> list[Tensor]:
        tangent = zeros[number].copy()
        tangent.reshape(-1)[place] = step
        following = iter([*zeros[:number], tangent, *zeros[number + 1 :]])
        return flatten(push(*map_leaves(lambda _: next(following), list(chosen))))[0]

    real_part = along(1.0)
    if zeros[number].dtype.kind == "c" and any(output.dtype.kind != "c" for output in outputs):
        other = along(1j)
        real_part = [
            real if out.dtype.kind == "c" else real + 1j * more
            for out, real, more in zip(outputs, real_part, other, strict=True)
        ]
    return real_part


def _columns(columns: list[Tensor], shape: tuple[int, ...], leaf: Any) -> Tensor:
    if not columns:
        return make(np.zeros((*shape, *leaf.shape), leaf.dtype))
    return call("stack", *columns, axis=-1).reshape((*shape, *leaf.shape))  # type: ignore[no-any-return]


def _check_smooth(root: Tensor) -> None:
    if root.dtype.kind not in SMOOTH:
        raise GradientError(f"jacobian: {root.dtype} has no gradient", source=where())

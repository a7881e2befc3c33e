"""Functions of several ops: NumPy's own that need no op, and the field's usual ones.

Invariant: written in ops and other functions only, so they are traced and differentiated as such.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.tensor import NO_ATTRS, Tensor, make, operand, weak
from nodescope.errors import ShapeError, UnsupportedError, UsageError
from nodescope.ops.layout import as_shape
from nodescope.ops.shapes import axes


def tensor_of(value: Any) -> Tensor:
    """``value`` as a tensor; arrays, lists and numbers become constants."""
    found = operand(value)
    if found.__class__ is Tensor:
        return found
    return make(np.asarray(value), kind="constant")


def _call(name: str, *inputs: Any, **attrs: Any) -> Tensor:
    return apply(ops.get(name), weak(inputs), attrs or NO_ATTRS)


# NumPy functions


def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """``np.clip``, with scalar or array bounds."""
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    if any(isinstance(each, Tensor | np.ndarray | list) for each in (low, high)):
        if low is not None:
            a = np.maximum(a, low)
        return a if high is None else np.minimum(a, high)
    return _call("clip", tensor_of(a), low=low, high=high)


def ravel(a: Any, order: str = "C") -> Tensor:
    """``np.ravel`` in C order."""
    if order != "C":
        raise UnsupportedError("np.ravel: only order='C' is traced", source=where())
    return tensor_of(a).ravel()


def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    """``np.swapaxes``."""
    found = tensor_of(a)
    one, two = axes("swapaxes", (axis1, axis2), found.ndim) if axis1 != axis2 else (0, 0)
    order = list(range(found.ndim))
    order[one], order[two] = order[two], order[one]
    return _call("transpose", found, axes=tuple(order))


def moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    """``np.moveaxis``."""
    found = tensor_of(a)
    sources = axes("moveaxis", as_shape(source), found.ndim)
    targets = axes("moveaxis", as_shape(destination), found.ndim)
    if len(sources) != len(targets):
        raise ShapeError("moveaxis: source and destination differ in length", source=where())
    order = [i for i in range(found.ndim) if i not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return _call("transpose", found, axes=tuple(order))


def dot(a: Any, b: Any) -> Tensor:
    """``np.dot``: scalars multiply, everything else up to two dimensions is a matrix product."""
    left, right = tensor_of(a), tensor_of(b)
    if not left.ndim or not right.ndim:
        return left * right
    if left.ndim > 2 or right.ndim > 2:
        raise UnsupportedError(
            "np.dot of more than two dimensions is not traced", source=where(), hint="use @"
        )
    return left @ right


def outer(a: Any, b: Any) -> Tensor:
    """``np.outer``."""
    return tensor_of(a).ravel().reshape(-1, 1) * tensor_of(b).ravel()


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """``np.split``: equal parts, or at the given positions."""
    found = tensor_of(ary)
    (along,) = axes("split", (axis,), found.ndim)
    size = found.shape[along]
    if isinstance(indices_or_sections, int | np.integer):
        parts = int(indices_or_sections)
        if parts < 1 or size % parts:
            raise ShapeError(
                f"split: {size} elements do not make {parts} equal parts", source=where()
            )
        cuts = [size // parts * i for i in range(1, parts)]
    else:
        cuts = [int(each) for each in indices_or_sections]
    lead = (slice(None),) * along
    ends = zip([None, *cuts], [*cuts, None], strict=True)
    return [found[(*lead, slice(start, stop))] for start, stop in ends]


def vstack(tup: Sequence[Any]) -> Tensor:
    """``np.vstack``."""
    parts = [tensor_of(each) for each in tup]
    return _call("concatenate", *(p if p.ndim > 1 else p.reshape(1, -1) for p in parts), axis=0)


def hstack(tup: Sequence[Any]) -> Tensor:
    """``np.hstack``."""
    parts = [tensor_of(each) for each in tup]
    parts = [p if p.ndim else p.reshape(1) for p in parts]
    return _call("concatenate", *parts, axis=0 if parts[0].ndim == 1 else 1)


def take(a: Any, indices: Any, axis: int | None = None) -> Tensor:
    """``np.take`` with indices in range."""
    found = tensor_of(a)
    if axis is None:
        found, axis = found.ravel(), 0
    (along,) = axes("take", (axis,), found.ndim)
    return found[(*(slice(None),) * along, indices)]


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """``np.linalg.norm`` of vectors and Frobenius (``ord`` None or 2 over one axis)."""
    if ord not in (None, "fro") and not (ord == 2 and isinstance(axis, int)):
        raise UnsupportedError(f"np.linalg.norm with ord={ord!r} is not traced", source=where())
    return np.sqrt(np.sum(np.square(tensor_of(x)), axis=axis, keepdims=keepdims))  # type: ignore[no-any-return]


def _full_like(a: Any, fill_value: Any) -> Tensor:
    return make(np.full_like(tensor_of(a).data, fill_value), kind="constant")


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function whose answer is no tensor, on the arrays themselves."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*(a.data if isinstance(a, Tensor) else a for a in args), **kwargs)

    return call


NUMPY: dict[Any, Callable[..., Any]] = {
    np.clip: clip, np.ravel: ravel, np.swapaxes: swapaxes, np.moveaxis: moveaxis, np.dot: dot,
    np.outer: outer, np.split: split, np.vstack: vstack, np.hstack: hstack, np.take: take,
    np.linalg.norm: norm, np.full_like: _full_like,
    np.shape: _plain(np.shape), np.ndim: _plain(np.ndim), np.size: _plain(np.size),
    np.allclose: _plain(np.allclose), np.array_equal: _plain(np.array_equal),
    np.result_type: _plain(np.result_type), np.array_repr: repr, np.array_str: repr,
}  # fmt: skip


# The field's usual functions


def _elementwise(name: str) -> Callable[[Any], Tensor]:
    def function(x: Any) -> Tensor:
        return apply(ops.get(name), (tensor_of(x),), NO_ATTRS)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The op ``{name}``, element by element."
    return function


relu, sigmoid, softplus, silu = map(_elementwise, ("relu", "sigmoid", "softplus", "silu"))


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """``x`` times the normal distribution function; ``approximate="tanh"`` is the quicker form.

    Raises:
        UsageError: ``approximate`` is something else.
    """
    if approximate not in ("none", "tanh"):
        raise UsageError(
            f"gelu: approximate={approximate!r}", source=where(), hint="use 'none' or 'tanh'"
        )
    return _call("gelu", tensor_of(x), **({} if approximate == "none" else {"approximate": "tanh"}))


def softmax(x: Any, axis: int = -1) -> Tensor:
    """``exp(x)`` over its sum along ``axis``; any finite input is fine."""
    return _call("softmax", tensor_of(x), axis=axis)


def log_softmax(x: Any, axis: int = -1) -> Tensor:
    """The logarithm of `softmax`, without computing it."""
    return _call("log_softmax", tensor_of(x), axis=axis)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """``log(sum(exp(x)))`` along ``axis``; any finite input is fine."""
    return _call("logsumexp", tensor_of(x), axis=axis, keepdims=keepdims)


def cross_entropy(
    logits: Any,
    labels: Any,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of labels under ``softmax(logits)``; classes are on axis 1.

    Args:
        logits: (batch, classes, …), floating point, unnormalised.
        labels: (batch, …), class numbers from 0; or probabilities in the shape of the logits.
        label_smoothing: Share of each label that is spread over all classes.
        ignore_index: Rows with this label do not count.
        reduction: ``mean`` over the rows that count, ``sum``, or ``none`` for the loss of each.

    Raises:
        ShapeError, DtypeError: They do not fit together, or a label is no class.
    """
    attrs: dict[str, Any] = {}
    if label_smoothing:
        attrs["label_smoothing"] = float(label_smoothing)
    if ignore_index is not None:
        attrs["ignore_index"] = int(ignore_index)
    if reduction != "mean":
        attrs["reduction"] = reduction
    return _call("cross_entropy", tensor_of(logits), tensor_of(labels), **attrs)


def mse(prediction: Any, target: Any) -> Tensor:
    """Mean squared difference; the two broadcast."""
    return _call("mse", tensor_of(prediction), tensor_of(target))

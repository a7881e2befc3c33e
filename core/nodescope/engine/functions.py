"""Common machine-learning functions on tensors.

Invariant: built only from ops and other functions, so they are traced and differentiated as such.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodescope import ops
from nodescope.engine.numpy_functions.base import call, tensor_of
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.tensor import NO_ATTRS, Tensor
from nodescope.errors import UsageError

__all__ = [
    "cross_entropy", "gelu", "log_softmax", "logsumexp", "mse", "relu", "sigmoid", "silu",
    "softmax", "softplus", "tensor_of",
]  # fmt: skip


def _elementwise(name: str) -> Callable[[Any], Tensor]:
    def function(x: Any) -> Tensor:
        return apply(ops.get(name), (tensor_of(x),), NO_ATTRS)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The op ``{name}``, element by element."
    return function


relu, sigmoid, softplus, silu = map(_elementwise, ("relu", "sigmoid", "softplus", "silu"))


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """``x`` times the normal distribution function; ``approximate="tanh"`` is a faster form.

    Raises:
        UsageError: ``approximate`` is neither ``"none"`` nor ``"tanh"``.
    """
    if approximate not in ("none", "tanh"):
        raise UsageError(
            f"gelu: approximate={approximate!r}", source=where(), hint="use 'none' or 'tanh'"
        )
    return call("gelu", tensor_of(x), **({} if approximate == "none" else {"approximate": "tanh"}))


def softmax(x: Any, axis: int = -1) -> Tensor:
    """``exp(x)`` over its sum along ``axis``; does not overflow for finite ``x``."""
    return call("softmax", tensor_of(x), axis=axis)


def log_softmax(x: Any, axis: int = -1) -> Tensor:
    """The logarithm of `softmax`, computed directly."""
    return call("log_softmax", tensor_of(x), axis=axis)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """``log(sum(exp(x)))`` along ``axis``; does not overflow for finite ``x``."""
    return call("logsumexp", tensor_of(x), axis=axis, keepdims=keepdims)


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
        labels: (batch, …), class indices from 0; or probabilities in the shape of the logits.
        label_smoothing: Fraction of each label that is spread evenly over all classes.
        ignore_index: Rows with this label are ignored.
        reduction: ``mean`` over the rows that are not ignored, ``sum``, or ``none`` for each loss.

    Raises:
        ShapeError, DtypeError: Logits and labels do not match, or a label is not a class.
    """
    attrs: dict[str, Any] = {}
    if label_smoothing:
        attrs["label_smoothing"] = float(label_smoothing)
    if ignore_index is not None:
        attrs["ignore_index"] = int(ignore_index)
    if reduction != "mean":
        attrs["reduction"] = reduction
    return call("cross_entropy", tensor_of(logits), tensor_of(labels), **attrs)


def mse(prediction: Any, target: Any) -> Tensor:
    """Mean squared difference of two tensors, which may broadcast."""
    return call("mse", tensor_of(prediction), tensor_of(target))

"""Losses as functions, with PyTorch's names and arguments.

Invariant: ``reduction`` is ``mean``, ``sum`` or ``none``; predictions come first, targets second.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope import ops
from nodescope.emit.scopes import name_scope
from nodescope.engine.functions import cross_entropy, mse, tensor_of
from nodescope.engine.run import apply
from nodescope.engine.source import where
from nodescope.engine.tensor import NO_ATTRS, Tensor, operand
from nodescope.errors import DomainError, UsageError

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_similarity",
    "cross_entropy", "huber_loss", "kl_div", "l1_loss", "mse_loss", "nll_loss", "smooth_l1_loss",
]  # fmt: skip


def _reduced(name: str, losses: Any, reduction: str) -> Tensor:
    if reduction == "none":
        return losses  # type: ignore[no-any-return]
    if reduction == "mean":
        return losses.mean()  # type: ignore[no-any-return]
    if reduction == "sum":
        return losses.sum()  # type: ignore[no-any-return]
    raise UsageError(
        f"{name}: reduction {reduction!r}", source=where(), hint="use 'mean', 'sum' or 'none'"
    )


def _pointwise(op: str, prediction: Any, target: Any, reduction: str, **attrs: Any) -> Tensor:
    pair = (tensor_of(prediction), operand(target))
    return _reduced(op, apply(ops.get(op), pair, attrs or NO_ATTRS), reduction)


def nll_loss(
    log_probabilities: Any,
    labels: Any,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-probability of labels; classes are on axis 1, as for `cross_entropy`."""
    attrs: dict[str, Any] = {} if reduction == "mean" else {"reduction": reduction}
    if ignore_index is not None:
        attrs["ignore_index"] = int(ignore_index)
    inputs = (tensor_of(log_probabilities), tensor_of(labels))
    return apply(ops.get("nll_loss"), inputs, attrs)


def mse_loss(prediction: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Squared differences; the two broadcast."""
    if reduction == "mean":
        return mse(prediction, target)
    return _reduced("mse_loss", np.square(tensor_of(prediction) - target), reduction)


def l1_loss(prediction: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Absolute differences."""
    return _reduced("l1_loss", np.abs(tensor_of(prediction) - target), reduction)


def huber_loss(prediction: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Half the squared difference up to ``delta``, linear beyond it."""
    if not delta > 0:
        raise DomainError(f"huber_loss: delta must be positive, got {delta}", source=where())
    return _pointwise("huber", prediction, target, reduction, delta=float(delta))


def smooth_l1_loss(
    prediction: Any, target: Any, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """`huber_loss` divided by ``beta``; `l1_loss` if ``beta`` is 0."""
    if not beta:
        return l1_loss(prediction, target, reduction)
    return huber_loss(prediction, target, reduction, beta) * (1.0 / beta)


def binary_cross_entropy(prediction: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Negative log-likelihood of targets from 0 to 1 under probabilities.

    Raises:
        DomainError: A prediction is not a probability.
    """
    return _pointwise("bce", prediction, target, reduction)


def binary_cross_entropy_with_logits(logits: Any, target: Any, reduction: str = "mean") -> Tensor:
    """`binary_cross_entropy` of ``sigmoid(logits)``; accurate for all finite logits."""
    return _pointwise("bce_with_logits", logits, target, reduction)


def kl_div(
    log_probabilities: Any, target: Any, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """Kullback-Leibler divergence of ``target`` from the prediction, element by element.

    Args:
        log_probabilities: The prediction, as logarithms.
        target: Probabilities, or with ``log_target`` their logarithms.
        reduction: As for other losses, or ``batchmean``: the sum divided by the batch size.
        log_target: Whether ``target`` holds logarithms.
    """
    log_probabilities = tensor_of(log_probabilities)
    if log_target:
        target = np.exp(tensor_of(target))
    if reduction == "batchmean":
        total = _pointwise("kl_div", log_probabilities, target, "sum")
        mean: Tensor = total * (1.0 / max(log_probabilities.shape[0], 1))
        return mean
    return _pointwise("kl_div", log_probabilities, target, reduction)


def cosine_similarity(a: Any, b: Any, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along ``axis``; lengths count as at least ``eps``."""
    a, b = tensor_of(a), tensor_of(b)
    with name_scope("cosine_similarity"):
        lengths = [
            np.maximum(np.sqrt(np.sum(np.square(vector), axis=axis)), eps) for vector in (a, b)
        ]
        return np.sum(a * b, axis=axis) / (lengths[0] * lengths[1])  # type: ignore[no-any-return]

"""Losses: cross-entropy and negative log-likelihood of labels, and elementwise losses.

Invariant: results have the dtype of the predictions; nothing overflows on finite predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nodescope.errors import BoundsError, DomainError, DtypeError, ShapeError, UsageError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Rule, Sample, one_per_input, one_per_output
from nodescope.ops.rules import unbroadcast
from nodescope.ops.shapes import broadcast, like_ufunc, resolve, shape_of
from nodescope.ops.windows import specs_of

REDUCTIONS = ("mean", "sum", "none")


# Losses of classes. Axis 1 is the class axis; labels are class numbers, or probabilities for
# cross_entropy.


def _classes_infer(name: str, specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    scores, labels = specs
    assert isinstance(scores, TensorSpec)
    assert isinstance(labels, TensorSpec)
    shape, reduction = scores.shape, attrs.get("reduction", "mean")
    kind = as_dtype(labels.dtype).kind
    soft = kind == "f" and name == "cross_entropy"
    if reduction not in REDUCTIONS:
        raise UsageError(f"{name}: reduction {reduction!r}", hint="use 'mean', 'sum' or 'none'")
    if not 0.0 <= attrs.get("label_smoothing", 0.0) <= 1.0:
        raise UsageError(f"{name}: label_smoothing must be from 0 to 1: {attrs}")
    if as_dtype(scores.dtype).kind != "f":
        raise DtypeError(f"{name}: logits must be floating point, not {scores.dtype}")
    if not soft and kind not in "iu":
        raise DtypeError(
            f"{name}: labels must be integers, not {labels.dtype}",
            hint="convert class indices with .astype(np.int64)",
        )
    expected = shape if soft else (*shape[:1], *shape[2:])
    if len(shape) < 2 or labels.shape != expected:
        raise ShapeError(
            f"{name}: logits {shape} and labels {labels.shape} do not fit",
            hint="logits are (batch, classes), labels are (batch,)",
        )
    if shape[1] == 0:
        raise ShapeError(f"{name}: no classes in logits {shape}")
    if soft and attrs.get("ignore_index") is not None:
        raise UsageError(f"{name}: ignore_index needs labels that are class indices")
    return TensorSpec((*shape[:1], *shape[2:]) if reduction == "none" else (), scores.dtype)


def _in_range(name: str, labels: Array, valid: Array | None, classes: int) -> None:
    used = labels if valid is None else labels[valid]
    if used.size and not 0 <= used.min() <= used.max() < classes:
        raise BoundsError(
            f"{name}: labels run from {used.min()} to {used.max()}, "
            f"but there are {classes} classes",
            hint="labels are class indices from 0",
        )


def _logs(x: Array) -> Array:
    shifted = x - np.max(x, axis=1, keepdims=True)
    logs: Array = np.subtract(shifted, np.log(np.sum(np.exp(shifted), axis=1, keepdims=True)))
    return logs


def _classes(
    name: str,
    scores: Array,
    labels: Array,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Any:
    attrs = {"label_smoothing": label_smoothing, "ignore_index": ignore_index,
             "reduction": reduction}  # fmt: skip
    _classes_infer(name, specs_of(scores, labels), attrs)
    logs = _logs(scores) if name == "cross_entropy" else scores
    classes = scores.shape[1]
    valid = None
    if labels.dtype.kind == "f":
        weights = labels * (1.0 - label_smoothing) + label_smoothing / classes
        losses = -np.sum(weights * logs, axis=1)
    else:
        if ignore_index is not None:
            valid = labels != ignore_index
        _in_range(name, labels, valid, classes)
        index = labels if valid is None else np.where(valid, labels, 0)
        picked = np.take_along_axis(logs, index[:, None], axis=1)[:, 0]
        losses = -picked
        if label_smoothing:
            even = np.mean(logs, axis=1)
            losses = -(picked * (1.0 - label_smoothing) + even * label_smoothing)
        if valid is not None:
            losses = np.where(valid, losses, 0.0)
    losses = losses.astype(scores.dtype, copy=False)
    if reduction == "none":
        return losses
    total = np.sum(losses)
    if reduction == "sum":
        return total
    # The mean of no elements is NaN, as everywhere.
    with np.errstate(invalid="ignore"):
        count = losses.size if valid is None else np.count_nonzero(valid)
        return np.divide(total, scores.dtype.type(count))


def _shares(F: Any, ct: Any, labels: Any, rows: tuple[int, ...], attrs: dict[str, Any]) -> Any:
    """The cotangent of each row's loss, with a dimension for the classes."""
    ignored, reduction = attrs.get("ignore_index"), attrs.get("reduction", "mean")
    valid = None if ignored is None else F.not_equal(labels, ignored)
    if reduction == "mean":
        if valid is None:
            ct = F.divide(ct, float(max(int(np.prod(rows)), 1)))
        else:
            counted = F.sum(F.astype(valid, dtype=ct.dtype.name), axis=None, keepdims=False)
            ct = F.divide(ct, F.maximum(counted, 1.0))
    if valid is not None:
        ct = F.where(valid, ct, 0.0)
    elif ct.shape != rows:
        ct = F.broadcast_to(ct, shape=rows)
    return F.reshape(ct, shape=(*rows[:1], 1, *rows[1:]))


def _classes_vjp(
    name: str, F: Any, ct: Any, out: Any, scores: Any, labels: Any, **attrs: Any
) -> Any:
    shape = scores.shape
    rows = (*shape[:1], *shape[2:])
    share = _shares(F, ct, labels, rows, attrs)
    smoothing = attrs.get("label_smoothing", 0.0)
    # -sum(target * (scores - logsumexp)): the sum of a row's targets, times the softmax.
    if labels.dtype.kind == "f":
        target = F.multiply(labels, 1.0 - smoothing)
        if smoothing:
            target = F.add(target, smoothing / shape[1])
        hits = F.multiply(target, share)
        mass = F.sum(hits, axis=1, keepdims=True)
    else:
        ignored = attrs.get("ignore_index")
        index = labels if ignored is None else F.where(F.not_equal(labels, ignored), labels, 0)
        index = F.reshape(index, shape=share.shape)
        once = F.multiply(share, 1.0 - smoothing) if smoothing else share
        hits = F.add_along_axis(once, index, axis=1, shape=shape)
        if smoothing:
            hits = F.add(hits, F.multiply(share, smoothing / shape[1]))
        mass = share
    if name == "nll_loss":
        return F.negative(hits)
    return F.subtract(F.multiply(F.softmax(scores, axis=1), mass), hits)


def _soft_labels_vjp(F: Any, ct: Any, out: Any, scores: Any, labels: Any, **attrs: Any) -> Any:
    shape = scores.shape
    share = _shares(F, ct, labels, (*shape[:1], *shape[2:]), attrs)
    kept = F.multiply(share, attrs.get("label_smoothing", 0.0) - 1.0)
    return F.multiply(F.log_softmax(scores, axis=1), kept)


def _classes_samples(name: str, rng: np.random.Generator) -> list[Sample]:
    labels = np.array([0, 2, 1, 1, 0])
    x, image = rng.standard_normal((5, 3)), rng.standard_normal((2, 3, 2))
    samples = [
        Sample((x, labels)),
        Sample((rng.standard_normal((1, 2)), np.array([1]))),
        Sample((x, labels), {"ignore_index": 1, "reduction": "mean"}),
        Sample((image, np.array([[0, 2], [-100, 1]])), {"ignore_index": -100, "reduction": "none"}),
        Sample((rng.standard_normal((0, 3)), np.zeros(0, np.int64)), {"reduction": "sum"}),
    ]
    if name == "cross_entropy":
        soft = rng.dirichlet(np.ones(3), 5)
        samples += [
            Sample((x, labels), {"label_smoothing": 0.1, "reduction": "sum"}),
            Sample((x, soft)),
            Sample((x, soft), {"label_smoothing": 0.2, "reduction": "none"}),
        ]
    return samples


for _name in ("cross_entropy", "nll_loss"):
    register(
        Op(
            name=_name,
            family="loss",
            infer=partial(_classes_infer, _name),
            impl=partial(_classes, _name),
            vjp=(
                partial(_classes_vjp, _name),
                _soft_labels_vjp if _name == "cross_entropy" else None,
            ),
            bind=lambda logits, labels: ((logits, labels), {}),
            ports=("logits" if _name == "cross_entropy" else "log_probabilities", "labels"),
            samples=partial(_classes_samples, _name),
            flops=one_per_input,
        )
    )


# Mean squared error as a single op


def _mse_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    broadcast("mse", specs)
    dtype = resolve("mse", np.subtract, specs)
    if dtype.kind == "c":
        raise DtypeError("mse: not defined for complex numbers", hint="average np.abs(a - b) ** 2")
    return TensorSpec((), "float64" if dtype.kind in "biu" else dtype.name)


def _mse(a: Array, b: Array) -> Any:
    _mse_infer(specs_of(a, b), {})
    return np.mean(np.square(np.subtract(a, b)))


def _mse_pull(F: Any, ct: Any, a: Any, b: Any) -> Any:
    difference = F.subtract(a, b)
    size = max(int(np.prod(np.broadcast_shapes(shape_of_array(a), shape_of_array(b)))), 1)
    return F.multiply(difference, F.multiply(ct, 2.0 / size))


def shape_of_array(x: Any) -> tuple[int, ...]:
    """The shape of an array, a tensor or a Python scalar."""
    return x.shape if hasattr(x, "shape") else shape_of(x)


register(
    Op(
        name="mse",
        family="loss",
        infer=_mse_infer,
        impl=_mse,
        vjp=(
            lambda F, ct, out, a, b: unbroadcast(F, _mse_pull(F, ct, a, b), a),
            lambda F, ct, out, a, b: unbroadcast(F, F.negative(_mse_pull(F, ct, a, b)), b),
        ),
        bind=lambda prediction, target: ((prediction, target), {}),
        ports=("prediction", "target"),
        samples=lambda rng: [
            Sample((rng.standard_normal((3, 4)), rng.standard_normal((3, 4)))),
            Sample((rng.standard_normal((3, 1)), rng.standard_normal(4))),
            Sample((rng.standard_normal(3), 0.5)),
        ],
        flops=one_per_input,
    )
)


# Elementwise; integers become the same float as in np.logaddexp.


def _pointwise(
    name: str,
    impl: Callable[..., Any],
    left: Rule,
    right: Rule,
    *,
    domain: tuple[float, float] = (-2.0, 2.0),
    smooth: bool = True,
) -> None:
    infer = like_ufunc(name, np.logaddexp)

    def checked(prediction: Any, target: Any, **attrs: Any) -> Any:
        spec = infer(specs_of(prediction, target), attrs)
        assert isinstance(spec, TensorSpec)
        a, b = (np.asarray(array, spec.dtype) for array in (prediction, target))
        return impl(a, b, **attrs)

    register(
        Op(
            name=name,
            family="loss",
            infer=infer,
            impl=checked,
            vjp=(left, right),
            ports=("prediction", "target"),
            elementwise=True,
            domain=domain,
            smooth=smooth,
            flops=one_per_output,
        )
    )


def _huber(a: Array, b: Array, delta: float = 1.0) -> Any:
    size = np.abs(np.subtract(a, b))
    return np.where(size <= delta, 0.5 * np.square(size), delta * (size - 0.5 * delta))


def _huber_slope(F: Any, ct: Any, a: Any, b: Any, delta: float) -> Any:
    return F.multiply(ct, F.clip(F.subtract(a, b), low=-delta, high=delta))


_pointwise(
    "huber",
    _huber,
    lambda F, ct, out, a, b, delta=1.0: _huber_slope(F, ct, a, b, delta),
    lambda F, ct, out, a, b, delta=1.0: _huber_slope(F, ct, b, a, delta),
    domain=(-0.45, 0.45),
    smooth=False,
)
_pointwise(
    "bce_with_logits",
    lambda x, t: np.subtract(np.logaddexp(x, 0.0), np.multiply(x, t)),
    lambda F, ct, out, x, t: F.multiply(ct, F.subtract(F.sigmoid(x), t)),
    lambda F, ct, out, x, t: F.negative(F.multiply(ct, x)),
)


def _bce(p: Array, t: Array) -> Any:
    if p.size and not (np.min(p) >= 0 and np.max(p) <= 1):
        raise DomainError(
            f"bce: probabilities run from {np.min(p):.4g} to {np.max(p):.4g}",
            hint="apply nodescope.sigmoid first, or use binary_cross_entropy_with_logits",
        )
    # Logarithms are bounded below by -100, as in PyTorch, so that a prediction of exactly 0 or 1
    # that is wrong gives a large but finite loss.
    with np.errstate(divide="ignore"):
        yes, no = np.maximum(np.log(p), -100.0), np.maximum(np.log1p(-p), -100.0)
    return -(t * yes + (1.0 - t) * no)


def _bce_left(F: Any, ct: Any, out: Any, p: Any, t: Any) -> Any:
    spread = F.maximum(F.multiply(p, F.subtract(1.0, p)), 1e-12)
    return F.multiply(ct, F.divide(F.subtract(p, t), spread))


def _bce_right(F: Any, ct: Any, out: Any, p: Any, t: Any) -> Any:
    inside = F.clip(p, low=1e-44, high=1.0 - 1e-16)
    return F.multiply(ct, F.subtract(F.log1p(F.negative(inside)), F.log(inside)))


_pointwise("bce", _bce, _bce_left, _bce_right, domain=(0.1, 0.9))


def _kl(x: Array, t: Array) -> Any:
    return np.multiply(t, np.log(np.where(t > 0, t, 1.0)) - x)


def _kl_right(F: Any, ct: Any, out: Any, x: Any, t: Any) -> Any:
    safe = F.where(F.greater(t, 0), t, 1.0)
    return F.multiply(ct, F.subtract(F.add(F.log(safe), 1.0), x))


_pointwise(
    "kl_div",
    _kl,
    lambda F, ct, out, x, t: F.negative(F.multiply(ct, t)),
    _kl_right,
    domain=(0.1, 0.9),
)

"""Losses, averaged over the batch.

Invariant: the result is a scalar in the dtype of the predictions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import DtypeError, ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample, one_per_input
from nodescope.ops.rules import unbroadcast
from nodescope.ops.shapes import broadcast, resolve, shape_of


def _cross_entropy(logits: Array, labels: Array) -> Any:
    if logits.shape[0] and not 0 <= labels.min() <= labels.max() < logits.shape[1]:
        raise ShapeError(
            f"cross_entropy: labels run from {labels.min()} to {labels.max()}, "
            f"but there are {logits.shape[1]} classes",
            hint="labels are class numbers from 0",
        )
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    totals = np.log(np.sum(np.exp(shifted), axis=1))
    return np.mean(totals - shifted[np.arange(len(labels)), labels])


def _cross_entropy_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    logits, labels = specs
    assert isinstance(logits, TensorSpec)
    assert isinstance(labels, TensorSpec)
    if len(logits.shape) != 2 or labels.shape != logits.shape[:1]:
        raise ShapeError(
            f"cross_entropy: logits {logits.shape} and labels {labels.shape} do not fit",
            hint="logits are (batch, classes), labels are (batch,)",
        )
    if logits.shape[1] == 0:
        raise ShapeError(f"cross_entropy: no classes in logits {logits.shape}")
    if np.dtype(logits.dtype).kind != "f":
        raise DtypeError(f"cross_entropy: logits must be floating point, not {logits.dtype}")
    if np.dtype(labels.dtype).kind not in "iu":
        raise DtypeError(f"cross_entropy: labels must be integers, not {labels.dtype}")
    return TensorSpec((), logits.dtype)


def _cross_entropy_vjp(F: Any, ct: Any, out: Any, logits: Any, labels: Any) -> Any:
    from nodescope.ops.index import Port

    batch = logits.shape[0]
    share = F.divide(ct, float(max(batch, 1)))
    rows = np.arange(batch)
    hits = F.index_add(
        F.broadcast_to(share, shape=(batch,)), rows, labels,
        index=(Port(0), Port(1)), shape=logits.shape,
    )  # fmt: skip
    return F.subtract(F.multiply(F.softmax(logits, axis=1), share), hits)


register(
    Op(
        name="cross_entropy",
        family="loss",
        infer=_cross_entropy_infer,
        impl=_cross_entropy,
        vjp=(_cross_entropy_vjp, None),
        bind=lambda logits, labels: ((logits, labels), {}),
        ports=("logits", "labels"),
        samples=lambda rng: [
            Sample((rng.standard_normal((5, 3)), np.array([0, 2, 1, 1, 0]))),
            Sample((rng.standard_normal((1, 2)), np.array([1]))),
        ],
        flops=one_per_input,
    )
)


def _mse_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    broadcast("mse", specs)
    dtype = resolve("mse", np.subtract, specs)
    return TensorSpec((), "float64" if dtype.kind in "biu" else dtype.name)


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
        impl=lambda a, b: np.mean(np.square(np.subtract(a, b))),
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

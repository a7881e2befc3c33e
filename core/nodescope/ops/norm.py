"""Normalisations over one axis: softmax and its logarithm.

Invariant: inputs are shifted by their maximum, so no finite input overflows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.errors import DtypeError, ShapeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Sample
from nodescope.ops.shapes import axes


def _check(dtype: Any) -> None:
    if np.dtype(dtype).kind != "f":
        raise DtypeError(f"softmax: not defined for {dtype}", hint="convert with .astype")


def _softmax(x: Array, axis: int) -> Any:
    _check(x.dtype)
    raised = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return np.divide(raised, np.sum(raised, axis=axis, keepdims=True))


def _log_softmax(x: Array, axis: int) -> Any:
    _check(x.dtype)
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return np.subtract(shifted, np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True)))


def _softmax_vjp(F: Any, ct: Any, out: Any, x: Any, axis: int) -> Any:
    weighted = F.multiply(ct, out)
    return F.subtract(weighted, F.multiply(out, F.sum(weighted, axis=axis, keepdims=True)))


def _log_softmax_vjp(F: Any, ct: Any, out: Any, x: Any, axis: int) -> Any:
    return F.subtract(ct, F.multiply(F.exp(out), F.sum(ct, axis=axis, keepdims=True)))


def _infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    (x,) = specs
    assert isinstance(x, TensorSpec)
    (axis,) = axes("softmax", (attrs["axis"],), len(x.shape))
    _check(x.dtype)
    if x.shape[axis] == 0:
        raise ShapeError(f"softmax: nothing to normalise over in shape {x.shape}, axis {axis}")
    return x


def _flops(inputs: tuple[Operand, ...], out: TensorSpec, attrs: dict[str, Any]) -> int:
    """Per element: maximum, difference, exponential, sum, quotient."""
    return 5 * int(np.prod(out.shape))


for _name, _impl, _rule in (
    ("softmax", _softmax, _softmax_vjp),
    ("log_softmax", _log_softmax, _log_softmax_vjp),
):
    register(
        Op(
            name=_name,
            family="norm",
            infer=_infer,
            impl=_impl,
            vjp=(_rule,),
            bind=lambda x, axis=-1: ((x,), {"axis": int(axis)}),
            samples=lambda rng: [
                Sample((rng.standard_normal(shape),), {"axis": axis})
                for shape, axis in [((3, 4), -1), ((3, 4), 0), ((1,), 0), ((2, 3, 1), 1)]
            ],
            flops=_flops,
        )
    )

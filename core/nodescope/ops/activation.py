"""Activations: smooth and piecewise functions of one element.

Invariant: none overflows on finite input, and each keeps NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nodescope.ops import register
from nodescope.ops.op import Array, Op, Rule, one_per_output
from nodescope.ops.shapes import like_ufunc


def _activation(
    name: str,
    impl: Any,
    rule: Rule,
    *,
    like: np.ufunc = np.tanh,
    numpy: tuple[Any, ...] = (),
    domain: tuple[float, float] = (-2.0, 2.0),
    smooth: bool = True,
) -> None:
    register(
        Op(
            name=name,
            family="activation",
            infer=like_ufunc(name, like),
            impl=impl,
            vjp=(rule,),
            numpy=numpy,
            elementwise=True,
            domain=domain,
            smooth=smooth,
            flops=one_per_output,
        )
    )


def _sigmoid(x: Array) -> Array:
    # By tanh: no overflow on either side, and one transcendental per element.
    return np.add(np.multiply(np.tanh(np.multiply(x, 0.5)), 0.5), 0.5)


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, 0.0)


def _silu(x: Array) -> Array:
    return np.multiply(x, _sigmoid(x))


_GELU = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715


def _gelu(x: Array) -> Array:
    # The tanh form: NumPy has no erf, and every framework offers this one.
    inner = np.multiply(np.add(x, np.multiply(np.multiply(np.multiply(x, x), x), _CUBIC)), _GELU)
    return np.multiply(np.multiply(x, 0.5), np.add(np.tanh(inner), 1.0))


def _gelu_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    square = F.multiply(x, x)
    inner = F.multiply(F.add(x, F.multiply(F.multiply(square, x), _CUBIC)), _GELU)
    t = F.tanh(inner)
    slope = F.multiply(F.add(F.multiply(square, 3 * _CUBIC), 1.0), _GELU)
    bend = F.multiply(F.multiply(x, 0.5), F.multiply(F.subtract(1.0, F.square(t)), slope))
    return F.multiply(ct, F.add(F.multiply(F.add(t, 1.0), 0.5), bend))


def _silu_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    s = F.sigmoid(x)
    return F.multiply(ct, F.add(s, F.multiply(out, F.subtract(1.0, s))))


_activation(
    "tanh",
    np.tanh,
    lambda F, ct, out, x: F.multiply(ct, F.subtract(1.0, F.square(out))),
    numpy=(np.tanh,),
)
_activation(
    "relu",
    lambda x: np.maximum(x, 0),
    lambda F, ct, out, x: F.where(F.greater(x, 0), ct, 0.0),
    like=np.positive,
    domain=(0.2, 2.0),
    smooth=False,
)
_activation(
    "sigmoid",
    _sigmoid,
    lambda F, ct, out, x: F.multiply(ct, F.multiply(out, F.subtract(1.0, out))),
)
_activation("softplus", _softplus, lambda F, ct, out, x: F.multiply(ct, F.sigmoid(x)))
_activation("silu", _silu, _silu_vjp)
_activation("gelu", _gelu, _gelu_vjp)

"""Activations: smooth and piecewise functions of one element.

At a kink of a piecewise function, the slope is PyTorch's.

Invariant: no activation overflows on finite input, and each keeps NaN; integers are converted to
the same float as by ``np.tanh``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.errors import DtypeError, ShapeError
from nodescope.ir.dtypes import as_dtype
from nodescope.ir.graph import TensorSpec
from nodescope.ops import RAW, register
from nodescope.ops.erf import erf
from nodescope.ops.op import Array, Op, Operand, Rule, Sample, one_per_output
from nodescope.ops.shapes import like_ufunc, resolve, shape_of
from nodescope.ops.windows import floating, specs_of

_ON_COMPLEX = {"tanh", "sigmoid", "silu"}


def _activation(
    name: str,
    impl: Callable[..., Any],
    rule: Rule,
    *,
    like: np.ufunc = np.tanh,
    numpy: tuple[Any, ...] = (),
    domain: tuple[float, float] = (-2.0, 2.0),
    smooth: bool = True,
    c: str = "",
) -> None:
    by_dtype = like_ufunc(name, like)

    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
        spec = by_dtype(specs, attrs)
        assert isinstance(spec, TensorSpec)
        if name not in _ON_COMPLEX and as_dtype(spec.dtype).kind == "c":
            raise DtypeError(
                f"{name}: not defined for {spec.dtype}", hint="use its real or absolute part"
            )
        return spec

    def checked(x: Array, **attrs: Any) -> Any:
        kind = x.dtype.kind
        if kind in "biuc":
            dtype = infer(specs_of(x), attrs).dtype
            return impl(x.astype(dtype, copy=False), **attrs)
        return impl(x, **attrs)

    register(
        Op(
            name=name,
            family="activation",
            infer=infer,
            impl=impl if impl is np.tanh else checked,
            vjp=(rule,),
            numpy=numpy,
            elementwise=True,
            domain=domain,
            smooth=smooth,
            flops=one_per_output,
            c=c,
        )
    )


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), by tanh: no overflow, and one transcendental function per element."""
    return np.add(np.multiply(np.tanh(np.multiply(x, 0.5)), 0.5), 0.5)


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, 0.0)


# Gaussian error linear unit, exact and in the tanh form (Hendrycks and Gimpel, 2016)

GELU = math.sqrt(2.0 / math.pi)
GELU_CUBIC = 0.044715
_HALF_ROOT = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


_BLOCK = 1 << 14  # number of elements that stay in the first caches during a dozen passes


def _gelu(x: Array, approximate: str = "none") -> Any:
    if approximate == "none":
        return np.multiply(np.multiply(x, 0.5), np.add(erf(np.multiply(x, _HALF_ROOT)), 1.0))
    return _blockwise(_gelu_tanh, x)


def _gelu_tanh(x: Array) -> Array:
    inner: Array = np.multiply(x, x)
    inner *= GELU * GELU_CUBIC
    inner += GELU
    inner *= x
    np.tanh(inner, out=inner)
    inner += 1.0
    inner *= x
    inner *= 0.5
    return inner


def _blockwise(function: Callable[..., Any], *arrays: Array) -> Array:
    """Apply an elementwise function block by block; arrays of one shape and dtype."""
    flat = [np.ascontiguousarray(array).reshape(-1) for array in arrays]
    out = np.empty_like(flat[0])
    for start in range(0, out.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        out[part] = function(*(values[part] for values in flat))
    return out.reshape(arrays[0].shape)


def _slope_tanh(ct: Array, x: Array) -> Array:
    square = np.multiply(x, x)
    t = np.multiply(square, GELU * GELU_CUBIC)
    t += GELU
    t *= x
    np.tanh(t, out=t)
    square *= 1.5 * GELU * GELU_CUBIC
    square += 0.5 * GELU
    square *= x  # x / 2 times the slope of the argument of tanh
    bend = np.multiply(t, t)
    np.subtract(1.0, bend, out=bend)
    bend *= square
    t *= 0.5
    t += 0.5
    bend += t
    bend *= ct
    return bend


def _slope_exact(ct: Array, x: Array) -> Any:
    share = np.asarray(erf(np.multiply(x, _HALF_ROOT)))
    share += 1.0
    share *= 0.5
    density = np.exp(np.multiply(np.multiply(x, x), -0.5))
    return np.multiply(ct, np.add(share, np.multiply(np.multiply(density, _DENSITY), x)))


def _gelu_grad_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    ct, x = specs
    assert isinstance(ct, TensorSpec)
    if shape_of(x) != ct.shape:
        raise ShapeError(f"gelu_grad: {ct.shape} for an input of shape {shape_of(x)}")
    dtype = floating("gelu_grad", ct, x)
    if dtype.kind == "c":
        raise DtypeError("gelu_grad: not defined for complex numbers")
    return TensorSpec(ct.shape, dtype.name)


def _gelu_grad(ct: Array, x: Array, approximate: str = "none") -> Array:
    dtype = as_dtype(_gelu_grad_infer(specs_of(ct, x), {}).dtype)
    slope = _slope_exact if approximate == "none" else _slope_tanh
    return _blockwise(slope, np.asarray(ct, dtype), np.asarray(x, dtype))


def _gelu_bend(F: Any, ct: Any, out: Any, g: Any, x: Any, approximate: str = "none") -> Any:
    """The second derivative."""
    square = F.square(x)
    if approximate == "none":
        density = F.multiply(F.exp(F.multiply(square, -0.5)), _DENSITY)
        bend = F.multiply(density, F.subtract(2.0, square))
    else:
        t = F.tanh(F.multiply(x, F.add(F.multiply(square, GELU * GELU_CUBIC), GELU)))
        first = F.add(F.multiply(square, 3 * GELU * GELU_CUBIC), GELU)
        second = F.multiply(x, 6 * GELU * GELU_CUBIC)
        inside = F.subtract(
            F.add(first, F.multiply(F.multiply(x, 0.5), second)),
            F.multiply(F.multiply(x, F.square(first)), t),
        )
        bend = F.multiply(F.subtract(1.0, F.square(t)), inside)
    return F.multiply(ct, F.multiply(g, bend))


def _silu_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    s = F.sigmoid(x)
    return F.multiply(ct, F.add(s, F.multiply(out, F.subtract(1.0, s))))


def _mish_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    t = F.tanh(F.softplus(x))
    bend = F.multiply(F.multiply(x, F.sigmoid(x)), F.subtract(1.0, F.square(t)))
    return F.multiply(ct, F.add(t, bend))


def _between(F: Any, ct: Any, x: Any, low: float, high: float) -> Any:
    """The cotangent where ``x`` is strictly inside, else 0."""
    return F.keep(ct, F.logical_and(F.greater(x, low), F.less(x, high)))


def _elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, np.multiply(np.expm1(np.minimum(x, 0.0)), alpha))


def _elu_vjp(F: Any, ct: Any, out: Any, x: Any, alpha: float = 1.0) -> Any:
    below = F.multiply(ct, F.multiply(F.exp(F.minimum(x, 0.0)), alpha))
    return F.where(F.greater(x, 0.0), ct, below)


def _celu(x: Array, alpha: float = 1.0) -> Array:
    below = np.expm1(np.multiply(np.minimum(x, 0.0), 1.0 / alpha))
    return np.where(x > 0, x, np.multiply(below, alpha))


def _celu_vjp(F: Any, ct: Any, out: Any, x: Any, alpha: float = 1.0) -> Any:
    below = F.multiply(ct, F.exp(F.multiply(F.minimum(x, 0.0), 1.0 / alpha)))
    return F.where(F.greater(x, 0.0), ct, below)


# Chosen so that layers keep mean 0 and variance 1 (Klambauer et al., 2017).
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def _selu_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    below = F.multiply(F.exp(F.minimum(x, 0.0)), _SELU_ALPHA * _SELU_SCALE)
    return F.multiply(ct, F.where(F.greater(x, 0.0), _SELU_SCALE, below))


def _hardswish_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    bent = F.multiply(ct, F.add(F.multiply(x, 1 / 3), 0.5))
    return F.where(F.greater(x, -3.0), F.where(F.less(x, 3.0), bent, ct), 0.0)


def _logsigmoid(x: Array) -> Array:
    return np.subtract(np.minimum(x, 0.0), np.log1p(np.exp(-np.abs(x))))


def _hardsigmoid(x: Array) -> Any:
    return np.multiply(np.clip(np.add(x, 3.0), 0.0, 6.0), 1 / 6)


_activation(
    "tanh",
    np.tanh,
    lambda F, ct, out, x: F.multiply(ct, F.subtract(1.0, F.square(out))),
    numpy=(np.tanh,),
    c="ns_tanh_{T}({0})",
)
_activation(
    "relu",
    lambda x: np.maximum(x, 0),
    lambda F, ct, out, x: F.keep(ct, F.greater(x, 0)),
    like=np.positive,
    domain=(0.2, 2.0),
    smooth=False,
    c="ns_maximum_{T}({0}, 0)",
)
_activation(
    "sigmoid",
    sigmoid,
    lambda F, ct, out, x: F.multiply(ct, F.multiply(out, F.subtract(1.0, out))),
    c="ns_sigmoid_{T}({0})",
)
_activation(
    "softplus",
    _softplus,
    lambda F, ct, out, x: F.multiply(ct, F.sigmoid(x)),
    c="ns_logaddexp_{T}({0}, 0)",
)
_activation("silu", lambda x: np.multiply(x, sigmoid(x)), _silu_vjp, c="{0} * ns_sigmoid_{T}({0})")
_activation(
    "gelu",
    _gelu,
    lambda F, ct, out, x, approximate="none": F.gelu_grad(ct, x, approximate=approximate),
    c="ns_gelu_{approximate|none}_{T}({0})",
)
_activation(
    "mish",
    lambda x: np.multiply(x, np.tanh(_softplus(x))),
    _mish_vjp,
    c="{0} * ns_tanh_{T}(ns_logaddexp_{T}({0}, 0))",
)
_activation(
    "erf",
    erf,
    lambda F, ct, out, x: F.multiply(
        ct, F.multiply(F.exp(F.negative(F.square(x))), 2.0 / math.sqrt(math.pi))
    ),
    c="ns_erf_{T}({0})",
)
_activation(
    "relu6",
    lambda x: np.clip(x, 0.0, 6.0),
    lambda F, ct, out, x: _between(F, ct, x, 0.0, 6.0),
    domain=(0.2, 2.0),
    smooth=False,
    c="ns_clip_{T}({0}, 0, 6)",
)
_activation(
    "leaky_relu",
    lambda x, slope=0.01: np.where(x > 0, x, np.multiply(x, slope)),
    lambda F, ct, out, x, slope=0.01: F.where(F.greater(x, 0.0), ct, F.multiply(ct, slope)),
    domain=(-2.0, -0.2),
    smooth=False,
    c="ns_where_{T}({0} > 0, {0}, {0} * ({T}){slope|0.01})",
)
_activation("elu", _elu, _elu_vjp, domain=(-2.0, -0.2), c="ns_elu_{T}({0}, ({T}){alpha|1}, 1)")
_activation(
    "celu",
    _celu,
    _celu_vjp,
    domain=(-2.0, -0.2),
    c="ns_elu_{T}({0}, ({T}){alpha|1}, ({T})(1.0 / {alpha|1}))",
)
_activation(
    "selu",
    lambda x: np.multiply(_elu(x, _SELU_ALPHA), _SELU_SCALE),
    _selu_vjp,
    domain=(-2.0, -0.2),
    c="ns_elu_{T}({0}, ({T})1.6732632423543772, 1) * ({T})1.0507009873554805",
)
_activation(
    "hardtanh",
    lambda x, low=-1.0, high=1.0: np.clip(x, low, high),
    lambda F, ct, out, x, low=-1.0, high=1.0: _between(F, ct, x, low, high),
    domain=(-0.9, 0.9),
    smooth=False,
    c="ns_clip_{T}({0}, ({T}){low|-1}, ({T}){high|1})",
)
_activation(
    "hardsigmoid",
    _hardsigmoid,
    lambda F, ct, out, x: _between(F, F.multiply(ct, 1 / 6), x, -3.0, 3.0),
    c="ns_clip_{T}({0} + 3, 0, 6) * ({T})(1.0 / 6)",
)
_activation(
    "hardswish",
    lambda x: np.multiply(x, _hardsigmoid(x)),
    _hardswish_vjp,
    c="{0} * (ns_clip_{T}({0} + 3, 0, 6) * ({T})(1.0 / 6))",
)
_activation(
    "softsign",
    lambda x: np.divide(x, np.add(np.abs(x), 1.0)),
    lambda F, ct, out, x: F.divide(ct, F.square(F.add(F.abs(x), 1.0))),
    domain=(0.2, 2.0),
    c="{0} / (ns_abs_{T}({0}) + 1)",
)
_activation(
    "logsigmoid",
    _logsigmoid,
    lambda F, ct, out, x: F.multiply(ct, F.sigmoid(F.negative(x))),
    c="ns_minimum_{T}({0}, 0) - ns_log1p_{T}(ns_exp_{T}(-ns_abs_{T}({0})))",
)


register(
    Op(
        name="gelu_grad",
        family="activation",
        infer=_gelu_grad_infer,
        impl=_gelu_grad,
        c="ns_gelu_grad_{approximate|none}_{T}({0}, {1})",
        vjp=(
            lambda F, ct, out, g, x, approximate="none": F.gelu_grad(
                ct, x, approximate=approximate
            ),
            _gelu_bend,
        ),
        ports=("ct", "x"),
        samples=lambda rng: [
            Sample((rng.standard_normal(shape), rng.standard_normal(shape)),
                   {"approximate": approximate})
            for shape in ((3, 4), (0, 2), (1,)) for approximate in ("tanh", "none")
        ],
        flops=one_per_output,
    )
)  # fmt: skip


# A learned slope (He et al., 2015)


def _slopes(F: Any, x: Any, weight: Any) -> Any:
    """The weight, along the channels of ``x``."""
    if len(weight.shape) == 0 or weight.shape == (1,):
        return F.reshape(weight, shape=()) if len(weight.shape) else weight
    return F.reshape(weight, shape=(weight.shape[0],) + (1,) * (len(x.shape) - 2))


def _prelu_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    shape, weight = shape_of(specs[0]), shape_of(specs[1])
    channels = shape[1] if len(shape) > 1 else 1
    if weight not in ((), (1,), (channels,)):
        raise ShapeError(
            f"prelu: slopes of shape {weight} for an input of shape {shape}",
            hint=f"give one slope, or one for each of the {channels} channels",
        )
    dtype = resolve("prelu", np.multiply, specs)
    if dtype.kind == "c":
        raise DtypeError("prelu: complex numbers have no order")
    return TensorSpec(shape, dtype.name)


def _prelu(x: Array, weight: Array) -> Array:
    _prelu_infer(specs_of(x, weight), {})
    return np.where(x > 0, x, np.multiply(x, _slopes(RAW, x, np.asarray(weight))))


def _prelu_left(F: Any, ct: Any, out: Any, x: Any, weight: Any) -> Any:
    return F.where(F.greater(x, 0), ct, F.multiply(ct, _slopes(F, x, weight)))


def _prelu_right(F: Any, ct: Any, out: Any, x: Any, weight: Any) -> Any:
    below = F.where(F.greater(x, 0), 0.0, F.multiply(ct, x))
    if weight.shape in ((), (1,)):
        return F.reshape(F.sum(below, axis=None, keepdims=False), shape=weight.shape)
    return F.sum(below, axis=(0, *range(2, len(x.shape))), keepdims=False)


register(
    Op(
        name="prelu",
        family="activation",
        infer=_prelu_infer,
        impl=_prelu,
        vjp=(_prelu_left, _prelu_right),
        ports=("x", "weight"),
        samples=lambda rng: [
            Sample((rng.uniform(-2.0, -0.2, shape), rng.standard_normal(weight)))
            for shape, weight in [((2, 3, 4), (3,)), ((2, 3), ()), ((4,), (1,)), ((0, 2), (2,))]
        ],
        flops=one_per_output,
    )
)

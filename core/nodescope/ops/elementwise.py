"""Elementwise arithmetic, comparison and logic.

Invariant: broadcasting, promotion and special values are NumPy's own; each impl is its ufunc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Op, Operand, Rule, Sample, one_per_output
from nodescope.ops.rules import same, times_left, times_right, zeros
from nodescope.ops.shapes import broadcast, dtype_of, like_ufunc


def _unary(
    name: str,
    ufunc: np.ufunc,
    rule: Rule | None = None,
    domain: tuple[float, float] = (-2.0, 2.0),
    *,
    smooth: bool = True,
) -> None:
    register(
        Op(
            name=name,
            family="elementwise",
            infer=like_ufunc(name, ufunc),
            impl=ufunc,
            vjp=None if rule is None else (rule,),
            numpy=(ufunc,),
            elementwise=True,
            domain=domain,
            smooth=smooth,
            flops=one_per_output,
        )
    )


def _binary(
    name: str,
    ufunc: np.ufunc,
    left: Rule | None = None,
    right: Rule | None = None,
    domain: tuple[float, float] = (-2.0, 2.0),
    *,
    smooth: bool = True,
) -> None:
    rules = None if left is None and right is None else (left, right)
    register(
        Op(
            name=name,
            family="elementwise",
            infer=like_ufunc(name, ufunc),
            impl=ufunc,
            vjp=rules,
            numpy=(ufunc,),
            ports=("x1", "x2"),
            elementwise=True,
            domain=domain,
            smooth=smooth,
            flops=one_per_output,
        )
    )


_unary("negative", np.negative, lambda F, ct, out, x: F.negative(ct))
_unary("positive", np.positive, same)
_unary("abs", np.absolute, lambda F, ct, out, x: F.multiply(ct, F.sign(x)), (0.2, 2.0))
_unary("square", np.square, lambda F, ct, out, x: F.multiply(ct, F.multiply(x, 2.0)))
_unary("sqrt", np.sqrt, lambda F, ct, out, x: F.divide(ct, F.multiply(out, 2.0)), (0.3, 3.0))
_unary(
    "reciprocal",
    np.reciprocal,
    lambda F, ct, out, x: F.negative(F.multiply(ct, F.square(out))),
    (0.4, 2.0),
)
_unary("exp", np.exp, lambda F, ct, out, x: F.multiply(ct, out))
_unary(
    "exp2",
    np.exp2,
    lambda F, ct, out, x: F.multiply(ct, F.multiply(out, 0.6931471805599453)),
)
_unary("expm1", np.expm1, lambda F, ct, out, x: F.multiply(ct, F.add(out, 1.0)))
_unary("log", np.log, lambda F, ct, out, x: F.divide(ct, x), (0.3, 3.0))
_unary(
    "log2",
    np.log2,
    lambda F, ct, out, x: F.divide(ct, F.multiply(x, 0.6931471805599453)),
    (0.3, 3.0),
)
_unary(
    "log10",
    np.log10,
    lambda F, ct, out, x: F.divide(ct, F.multiply(x, 2.302585092994046)),
    (0.3, 3.0),
)
_unary("log1p", np.log1p, lambda F, ct, out, x: F.divide(ct, F.add(x, 1.0)), (-0.5, 2.0))
_unary("sin", np.sin, lambda F, ct, out, x: F.multiply(ct, F.cos(x)))
_unary("cos", np.cos, lambda F, ct, out, x: F.negative(F.multiply(ct, F.sin(x))))
_unary("tan", np.tan, lambda F, ct, out, x: F.multiply(ct, F.add(F.square(out), 1.0)), (-1.0, 1.0))
_unary("arctan", np.arctan, lambda F, ct, out, x: F.divide(ct, F.add(F.square(x), 1.0)))
_unary("sinh", np.sinh, lambda F, ct, out, x: F.multiply(ct, F.cosh(x)))
_unary("cosh", np.cosh, lambda F, ct, out, x: F.multiply(ct, F.sinh(x)))
_unary("sign", np.sign, zeros, (0.2, 2.0))
_unary("floor", np.floor, zeros, (0.2, 0.8))
_unary("ceil", np.ceil, zeros, (0.2, 0.8))
_unary("trunc", np.trunc, zeros, (0.2, 0.8))
_unary("rint", np.rint, zeros, (0.1, 0.4))
_unary("isnan", np.isnan)
_unary("isinf", np.isinf)
_unary("isfinite", np.isfinite)
_unary("signbit", np.signbit)
_unary("logical_not", np.logical_not)
_unary("invert", np.invert)

_binary("add", np.add, same, same)
_binary(
    "subtract",
    np.subtract,
    same,
    lambda F, ct, out, a, b: F.negative(ct),
)
_binary("multiply", np.multiply, times_right, times_left)
_binary(
    "divide",
    np.divide,
    lambda F, ct, out, a, b: F.divide(ct, b),
    lambda F, ct, out, a, b: F.negative(F.divide(F.multiply(ct, out), b)),
    (0.5, 2.0),
)


def _power_base(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    # b * a**(b-1) would be 0 * inf where b is 0 and a is 0; the derivative there is 0.
    if not hasattr(b, "shape"):
        if b == 0:
            return F.zeros_like(F.multiply(ct, a))
        factor = F.multiply(a, b) if b == 2 else F.multiply(F.power(a, b - 1), b)
        return F.multiply(ct, factor)
    less = F.where(F.equal(b, 0), 1.0, F.subtract(b, 1))
    return F.multiply(ct, F.multiply(b, F.power(a, less)))


def _power_exponent(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    if not hasattr(a, "shape"):
        return F.multiply(ct, F.multiply(out, float(np.log(a)) if a else 0.0))
    # 0**b is flat in b > 0, where log 0 would give 0 * -inf.
    return F.multiply(ct, F.multiply(out, F.log(F.where(F.equal(a, 0), 1.0, a))))


_binary("power", np.power, _power_base, _power_exponent, (0.5, 2.0))

# At a tie the whole cotangent goes to the right operand: `np.maximum(x, 0)` is flat at 0, as relu.
_binary(
    "maximum",
    np.maximum,
    lambda F, ct, out, a, b: F.where(F.greater(a, b), ct, 0.0),
    lambda F, ct, out, a, b: F.where(F.greater(a, b), 0.0, ct),
    smooth=False,
)
_binary(
    "minimum",
    np.minimum,
    lambda F, ct, out, a, b: F.where(F.less(a, b), ct, 0.0),
    lambda F, ct, out, a, b: F.where(F.less(a, b), 0.0, ct),
    smooth=False,
)
_binary(
    "logaddexp",
    np.logaddexp,
    lambda F, ct, out, a, b: F.multiply(ct, F.exp(F.subtract(a, out))),
    lambda F, ct, out, a, b: F.multiply(ct, F.exp(F.subtract(b, out))),
)
_binary(
    "remainder",
    np.remainder,
    same,
    lambda F, ct, out, a, b: F.negative(F.multiply(ct, F.floor_divide(a, b))),
    (0.5, 2.0),
    smooth=False,
)
_binary("floor_divide", np.floor_divide, domain=(0.5, 2.0))
_binary("greater", np.greater)
_binary("greater_equal", np.greater_equal)
_binary("less", np.less)
_binary("less_equal", np.less_equal)
_binary("equal", np.equal)
_binary("not_equal", np.not_equal)
_binary("logical_and", np.logical_and)
_binary("logical_or", np.logical_or)
_binary("logical_xor", np.logical_xor)
_binary("bitwise_and", np.bitwise_and)
_binary("bitwise_or", np.bitwise_or)
_binary("bitwise_xor", np.bitwise_xor)


def _where_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    shape = broadcast("where", specs)
    kinds = [dtype_of(each) for each in specs[1:]]
    # np.result_type takes an example of a weak scalar, not its type.
    dtype = np.result_type(*(k if isinstance(k, np.dtype) else k(0) for k in kinds))
    return TensorSpec(shape, dtype.name)


def _where_left(F: Any, ct: Any, out: Any, condition: Any, a: Any, b: Any) -> Any:
    return F.where(condition, ct, 0.0)


def _where_right(F: Any, ct: Any, out: Any, condition: Any, a: Any, b: Any) -> Any:
    return F.where(condition, 0.0, ct)


def _where_samples(rng: np.random.Generator) -> list[Sample]:
    def condition(*shape: int) -> Any:
        return rng.random(shape) > 0.5

    return [
        Sample((condition(3, 4), rng.standard_normal((3, 4)), rng.standard_normal(4))),
        Sample((condition(3, 1), rng.standard_normal((1, 4)), 0.0)),
        Sample((condition(4), 1.0, rng.standard_normal((2, 4)))),
        Sample((condition(0), rng.standard_normal(0), rng.standard_normal(1))),
    ]


register(
    Op(
        name="where",
        family="elementwise",
        infer=_where_infer,
        impl=np.where,
        vjp=(None, _where_left, _where_right),
        numpy=(np.where,),
        bind=lambda condition, x, y: ((condition, x, y), {}),
        ports=("condition", "x", "y"),
        samples=_where_samples,
        elementwise=True,
        flops=one_per_output,
    )
)


def _clip_infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
    bounds = [each for each in (attrs["low"], attrs["high"]) if each is not None]
    dtype = np.dtype(specs[0].dtype)  # type: ignore[union-attr]
    return TensorSpec(specs[0].shape, np.result_type(dtype, *bounds).name)  # type: ignore[union-attr]


def _clip_vjp(F: Any, ct: Any, out: Any, x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        ct = F.where(F.less(x, low), 0.0, ct)
    return ct if high is None else F.where(F.greater(x, high), 0.0, ct)


register(
    Op(
        name="clip",
        family="elementwise",
        infer=_clip_infer,
        impl=lambda x, low, high: np.clip(x, low, high),
        vjp=(_clip_vjp,),
        samples=lambda rng: [
            Sample((rng.standard_normal((3, 4)),), {"low": low, "high": high})
            for low, high in [(-0.5, 0.5), (None, 0.3), (0.0, None)]
        ],
        smooth=False,
        flops=one_per_output,
    )
)


def _filled(name: str, function: Any) -> None:
    register(
        Op(
            name=name,
            family="elementwise",
            infer=lambda specs, attrs: specs[0],  # type: ignore[arg-type, return-value]
            impl=function,
            vjp=(zeros,),
            numpy=(function,),
            bind=lambda a: ((a,), {}),
            elementwise=True,
        )
    )


_filled("zeros_like", np.zeros_like)
_filled("ones_like", np.ones_like)

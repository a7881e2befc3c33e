"""Elementwise arithmetic, comparison and logic.

Invariant: broadcasting, promotion and special values are NumPy's own; each impl is its ufunc.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nodescope.ops.op import Rule
from nodescope.ops.rules import same, times_left, times_right, zeros
from nodescope.ops.ufunc import LN2, LN10, binary, unary


def _abs_rule(F: Any, ct: Any, out: Any, x: Any) -> Any:
    # d|z| = Re(conj(z) / |z| dz); at 0 the sign is 0, halfway between the two slopes.
    sign = F.sign(x)
    return F.multiply(ct, F.conjugate(sign) if x.dtype.kind == "c" else sign)


def _sign_rule(F: Any, ct: Any, out: Any, x: Any) -> Any:
    if x.dtype.kind != "c":
        return F.zeros_like(x)
    # z / |z| only changes its angle with z, so only the part of the cotangent across z remains.
    size = F.abs(x)
    safe = F.where(F.equal(size, 0), 1.0, size)
    across = F.subtract(ct, F.multiply(F.real(F.multiply(ct, out)), F.conjugate(out)))
    return F.where(F.equal(size, 0), 0.0, F.divide(across, safe))


unary("negative", np.negative, lambda F, ct, out, x: F.negative(ct), c="-{0}")
unary("positive", np.positive, same, c="{0}")
unary("abs", np.absolute, _abs_rule, (0.2, 2.0), c="ns_abs_{T}({0})")
unary("fabs", np.fabs, _abs_rule, (0.2, 2.0), c="ns_abs_{T}({0})")
unary("square", np.square, lambda F, ct, out, x: F.multiply(ct, F.multiply(x, 2.0)), c="{0} * {0}")
unary(
    "sqrt",
    np.sqrt,
    lambda F, ct, out, x: F.divide(ct, F.multiply(out, 2.0)),
    (0.3, 3.0),
    c="ns_sqrt_{T}({0})",
)
unary(
    "reciprocal",
    np.reciprocal,
    lambda F, ct, out, x: F.negative(F.multiply(ct, F.square(out))),
    (0.4, 2.0),
    c="ns_reciprocal_{T}({0})",
)
unary("exp", np.exp, lambda F, ct, out, x: F.multiply(ct, out), c="ns_exp_{T}({0})")
unary(
    "exp2",
    np.exp2,
    lambda F, ct, out, x: F.multiply(ct, F.multiply(out, LN2)),
    c="ns_exp2_{T}({0})",
)
unary(
    "expm1", np.expm1, lambda F, ct, out, x: F.multiply(ct, F.add(out, 1.0)), c="ns_expm1_{T}({0})"
)
unary(
    "cbrt",
    np.cbrt,
    lambda F, ct, out, x: F.divide(ct, F.multiply(F.square(out), 3.0)),
    (0.3, 3.0),
    c="ns_cbrt_{T}({0})",
)
unary("log", np.log, lambda F, ct, out, x: F.divide(ct, x), (0.3, 3.0), c="ns_log_{T}({0})")
unary(
    "log2",
    np.log2,
    lambda F, ct, out, x: F.divide(ct, F.multiply(x, LN2)),
    (0.3, 3.0),
    c="ns_log2_{T}({0})",
)
unary(
    "log10",
    np.log10,
    lambda F, ct, out, x: F.divide(ct, F.multiply(x, LN10)),
    (0.3, 3.0),
    c="ns_log10_{T}({0})",
)
unary(
    "log1p",
    np.log1p,
    lambda F, ct, out, x: F.divide(ct, F.add(x, 1.0)),
    (-0.5, 2.0),
    c="ns_log1p_{T}({0})",
)
unary("sign", np.sign, _sign_rule, (0.2, 2.0), c="ns_sign_{T}({0})")
unary("floor", np.floor, zeros, (0.2, 0.8), c="ns_floor_{T}({0})")
unary("ceil", np.ceil, zeros, (0.2, 0.8), c="ns_ceil_{T}({0})")
unary("rint", np.rint, zeros, (0.1, 0.4), c="ns_rint_{T}({0})")
unary("isnan", np.isnan, c="ns_isnan_{T}({0})")
unary("isinf", np.isinf, c="ns_isinf_{T}({0})")
unary("isfinite", np.isfinite, c="ns_isfinite_{T}({0})")
unary("signbit", np.signbit, c="ns_signbit_{T}({0})")
unary("logical_not", np.logical_not, c="{0} == 0")

binary("add", np.add, same, same, c="{0} + {1}")
binary(
    "subtract",
    np.subtract,
    same,
    lambda F, ct, out, a, b: F.negative(ct),
    c="{0} - {1}",
)
binary("multiply", np.multiply, times_right, times_left, c="{0} * {1}")
binary(
    "divide",
    np.divide,
    lambda F, ct, out, a, b: F.divide(ct, b),
    lambda F, ct, out, a, b: F.negative(F.divide(F.multiply(ct, out), b)),
    (0.5, 2.0),
    c="{0} / {1}",
)


def _power_base(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    if not hasattr(b, "shape"):
        if b == 0:
            return F.zeros_like(F.multiply(ct, a))
        factor = F.multiply(a, b) if b == 2 else F.multiply(F.power(a, b - 1), b)
        return F.multiply(ct, factor)
    # b * a**(b-1) would be 0 * inf where both are 0; the derivative there is 0.
    both = F.logical_and(F.equal(a, 0), F.equal(b, 0))
    less = F.where(both, 1.0, F.subtract(b, 1))
    return F.multiply(ct, F.multiply(b, F.power(a, less)))


def _power_exponent(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    if not hasattr(a, "shape"):
        if isinstance(a, complex):
            return F.multiply(ct, F.multiply(out, complex(np.log(a)) if a else 0.0))
        # A negative base has no real slope in its exponent.
        log = math.nan if a < 0 else math.log(a) if a else 0.0
        if b.dtype.kind == "c" and a < 0:
            log = complex(np.log(complex(a)))  # type: ignore[assignment]
        return F.multiply(ct, F.multiply(out, log))
    if b.dtype.kind == "c" and a.dtype.kind != "c":
        a = F.astype(a, dtype=b.dtype.name)
    # 0**b is flat in b > 0, where log 0 would give 0 * -inf.
    return F.multiply(ct, F.multiply(out, F.log(F.where(F.equal(a, 0), 1.0, a))))


binary("power", np.power, _power_base, _power_exponent, (0.5, 2.0), c="ns_power_{T}({0}, {1})")


def _float_power_base(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    return _power_base(F, ct, out, F.astype(a, dtype=out.dtype.name), b)


def _float_power_exponent(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    return _power_exponent(F, ct, out, a, F.astype(b, dtype=out.dtype.name))


binary(
    "float_power",
    np.float_power,
    _float_power_base,
    _float_power_exponent,
    (0.5, 2.0),
    c="ns_power_{T}({0}, {1})",
)


def _chooses(wins: str, *, ignoring_nan: bool) -> tuple[Rule, Rule]:
    """The rules of maximum and similar ops: the operand that won gets the whole cotangent.

    At a tie, the right operand wins, so ``np.maximum(x, 0)`` is flat at 0, as relu is.
    """

    def left_wins(F: Any, a: Any, b: Any) -> Any:
        won = getattr(F, wins)(a, b)
        return F.logical_or(won, F.isnan(b if ignoring_nan else a))

    def left(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
        return F.where(left_wins(F, a, b), ct, 0.0)

    def right(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
        return F.where(left_wins(F, a, b), 0.0, ct)

    return left, right


binary(
    "maximum",
    np.maximum,
    *_chooses("greater", ignoring_nan=False),
    smooth=False,
    c="ns_maximum_{T}({0}, {1})",
)
binary(
    "minimum",
    np.minimum,
    *_chooses("less", ignoring_nan=False),
    smooth=False,
    c="ns_minimum_{T}({0}, {1})",
)
binary(
    "fmax",
    np.fmax,
    *_chooses("greater", ignoring_nan=True),
    smooth=False,
    c="ns_fmax_{T}({0}, {1})",
)
binary(
    "fmin", np.fmin, *_chooses("less", ignoring_nan=True), smooth=False, c="ns_fmin_{T}({0}, {1})"
)
binary(
    "logaddexp",
    np.logaddexp,
    lambda F, ct, out, a, b: F.multiply(ct, F.exp(F.subtract(a, out))),
    lambda F, ct, out, a, b: F.multiply(ct, F.exp(F.subtract(b, out))),
    c="ns_logaddexp_{T}({0}, {1})",
)
binary(
    "logaddexp2",
    np.logaddexp2,
    lambda F, ct, out, a, b: F.multiply(ct, F.exp2(F.subtract(a, out))),
    lambda F, ct, out, a, b: F.multiply(ct, F.exp2(F.subtract(b, out))),
    c="ns_logaddexp2_{T}({0}, {1})",
)
binary(
    "fmod",
    np.fmod,
    same,
    lambda F, ct, out, a, b: F.negative(F.multiply(ct, F.trunc(F.divide(a, b)))),
    (0.5, 2.0),
    smooth=False,
    c="ns_fmod_{T}({0}, {1})",
)


def _divmod_left(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    return ct[1]


def _divmod_right(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    return F.negative(F.multiply(ct[1], out[0]))


binary("divmod", np.divmod, _divmod_left, _divmod_right, (0.5, 2.0), smooth=False)
binary(
    "remainder",
    np.remainder,
    same,
    lambda F, ct, out, a, b: F.negative(F.multiply(ct, F.floor_divide(a, b))),
    (0.5, 2.0),
    smooth=False,
    c="ns_remainder_{T}({0}, {1})",
)
binary("floor_divide", np.floor_divide, domain=(0.5, 2.0), c="ns_floor_divide_{T}({0}, {1})")
binary("greater", np.greater, c="{0} > {1}")
binary("greater_equal", np.greater_equal, c="{0} >= {1}")
binary("less", np.less, c="{0} < {1}")
binary("less_equal", np.less_equal, c="{0} <= {1}")
binary("equal", np.equal, c="{0} == {1}")
binary("not_equal", np.not_equal, c="{0} != {1}")
binary("logical_and", np.logical_and, c="({0} != 0) & ({1} != 0)")
binary("logical_or", np.logical_or, c="({0} != 0) | ({1} != 0)")
binary("logical_xor", np.logical_xor, c="({0} != 0) ^ ({1} != 0)")

"""Bits of integers, and the components of floating-point numbers.

Invariant: as in NumPy; piecewise constant and integer results have no gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.ops.rules import same, zeros
from nodescope.ops.ufunc import binary, unary

unary("invert", np.invert, c="ns_invert_{T}({0})")
unary("bitwise_count", np.bitwise_count, c="ns_bitwise_count_{T}({0})")
binary("bitwise_and", np.bitwise_and, c="{0} & {1}")
binary("bitwise_or", np.bitwise_or, c="{0} | {1}")
binary("bitwise_xor", np.bitwise_xor, c="{0} ^ {1}")
binary("left_shift", np.left_shift, c="ns_left_shift_{T}({0}, {1})")
binary("right_shift", np.right_shift, c="ns_right_shift_{T}({0}, {1})")
binary("gcd", np.gcd, c="ns_gcd_{T}({0}, {1})")
binary("lcm", np.lcm, c="ns_lcm_{T}({0}, {1})")


def _copysign_left(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    turned = F.not_equal(F.signbit(a), F.signbit(b))
    return F.where(turned, F.negative(ct), ct)


def _flat_right(F: Any, ct: Any, out: Any, a: Any, b: Any) -> Any:
    return F.zeros_like(b)


binary(
    "copysign", np.copysign, _copysign_left, _flat_right, (0.2, 2.0), c="ns_copysign_{T}({0}, {1})"
)
binary(
    "heaviside",
    np.heaviside,
    lambda F, ct, out, a, b: F.zeros_like(a),
    lambda F, ct, out, a, b: F.where(F.equal(a, 0), ct, 0.0),
    (0.2, 2.0),
    c="ns_heaviside_{T}({0}, {1})",
)
binary("nextafter", np.nextafter, same, _flat_right, (0.2, 2.0))
unary("spacing", np.spacing)
binary("ldexp", np.ldexp, lambda F, ct, out, a, b: F.ldexp(ct, b), None)


def _frexp_rule(F: Any, ct: Any, out: Any, x: Any) -> Any:
    return F.ldexp(ct[0], F.negative(out[1]))


unary("frexp", np.frexp, _frexp_rule, (0.55, 0.95))
unary("modf", np.modf, lambda F, ct, out, x: ct[0], (0.2, 0.8), smooth=False)
unary("trunc", np.trunc, zeros, (0.2, 0.8), c="ns_trunc_{T}({0})")

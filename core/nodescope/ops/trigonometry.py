"""Circular and hyperbolic functions, their inverses, angles, and a few special functions.

Invariant: rules that divide by a possible 0 define the result there, including second derivatives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nodescope.errors import DtypeError
from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.op import Array, Op, Operand, Rule, Sample, one_per_output
from nodescope.ops.shapes import tensor_spec
from nodescope.ops.ufunc import binary, unary


def _root(F: Any, x: Any) -> Any:
    return F.sqrt(F.subtract(1.0, F.square(x)))


def _wide_root(F: Any, x: Any) -> Any:
    # Two roots: for complex x, the root of the product lies on another branch.
    return F.multiply(F.sqrt(F.subtract(x, 1.0)), F.sqrt(F.add(x, 1.0)))


unary("sin", np.sin, lambda F, ct, out, x: F.multiply(ct, F.cos(x)), c="ns_sin_{T}({0})")
unary(
    "cos", np.cos, lambda F, ct, out, x: F.negative(F.multiply(ct, F.sin(x))), c="ns_cos_{T}({0})"
)
unary(
    "tan",
    np.tan,
    lambda F, ct, out, x: F.multiply(ct, F.add(F.square(out), 1.0)),
    (-1.0, 1.0),
    c="ns_tan_{T}({0})",
)
unary(
    "arcsin",
    np.arcsin,
    lambda F, ct, out, x: F.divide(ct, _root(F, x)),
    (-0.8, 0.8),
    c="ns_arcsin_{T}({0})",
)
unary(
    "arccos",
    np.arccos,
    lambda F, ct, out, x: F.negative(F.divide(ct, _root(F, x))),
    (-0.8, 0.8),
    c="ns_arccos_{T}({0})",
)
unary(
    "arctan",
    np.arctan,
    lambda F, ct, out, x: F.divide(ct, F.add(F.square(x), 1.0)),
    c="ns_arctan_{T}({0})",
)
unary("sinh", np.sinh, lambda F, ct, out, x: F.multiply(ct, F.cosh(x)), c="ns_sinh_{T}({0})")
unary("cosh", np.cosh, lambda F, ct, out, x: F.multiply(ct, F.sinh(x)), c="ns_cosh_{T}({0})")
unary(
    "arcsinh",
    np.arcsinh,
    lambda F, ct, out, x: F.divide(ct, F.sqrt(F.add(F.square(x), 1.0))),
    c="ns_arcsinh_{T}({0})",
)
unary(
    "arccosh",
    np.arccosh,
    lambda F, ct, out, x: F.divide(ct, _wide_root(F, x)),
    (1.2, 3.0),
    c="ns_arccosh_{T}({0})",
)
unary(
    "arctanh",
    np.arctanh,
    lambda F, ct, out, x: F.divide(ct, F.subtract(1.0, F.square(x))),
    (-0.8, 0.8),
    c="ns_arctanh_{T}({0})",
)
for _name, _ufunc, _factor in (
    ("deg2rad", np.deg2rad, math.pi / 180), ("radians", np.radians, math.pi / 180),
    ("rad2deg", np.rad2deg, 180 / math.pi), ("degrees", np.degrees, 180 / math.pi),
):  # fmt: skip
    unary(_name, _ufunc, lambda F, ct, out, x, _by=_factor: F.multiply(ct, _by))


def _hypot_rule(port: int) -> Rule:
    def rule(F: Any, ct: Any, out: Any, *sides: Any) -> Any:
        # The slope is undefined at the origin; 0 is its mean over all directions.
        safe = F.where(F.equal(out, 0), 1.0, out)
        return F.multiply(ct, F.divide(sides[port], safe))

    return rule


binary("hypot", np.hypot, _hypot_rule(0), _hypot_rule(1), (0.3, 2.0), c="ns_hypot_{T}({0}, {1})")


def _turn(F: Any, ct: Any, y: Any, x: Any) -> Any:
    size = F.add(F.square(y), F.square(x))
    return F.divide(ct, F.where(F.equal(size, 0), 1.0, size))


binary(
    "arctan2",
    np.arctan2,
    lambda F, ct, out, y, x: F.multiply(_turn(F, ct, y, x), x),
    lambda F, ct, out, y, x: F.negative(F.multiply(_turn(F, ct, y, x), y)),
    (0.3, 2.0),
    c="ns_arctan2_{T}({0}, {1})",
)

# sinc and the modified Bessel functions


def _small(F: Any, x: Any, bound: float) -> tuple[Any, Any]:
    """Where x is near 0, and a safe divisor x elsewhere."""
    near = F.less(F.abs(x), bound)
    return near, F.where(near, 1.0, x)


def _sinc_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    near, safe = _small(F, x, 0.05)
    far = F.divide(F.subtract(F.cos(F.multiply(x, math.pi)), out), safe)
    # (cos y - sin y / y) / x cancels near 0: its series is used there, which can also be
    # differentiated.
    terms = (-1 / 3, math.pi**2 / 30, -(math.pi**4) / 840, math.pi**6 / 45360)
    square = F.square(x)
    series: Any = terms[-1]
    for term in terms[-2::-1]:
        series = F.add(F.multiply(square, series), term)
    series = F.multiply(F.multiply(series, x), math.pi**2)
    return F.multiply(ct, F.where(near, series, far))


_NODES = np.cos((np.arange(128) + 0.5) * (math.pi / 128))


def _i1(x: Array) -> Array:
    """The modified Bessel function of order 1.

    Its integral over cosines by the midpoint rule, which converges faster than any power: 128 nodes
    give full precision wherever the result is finite.
    """
    if x.dtype.kind == "c":
        raise DtypeError("i1: not defined for complex numbers", hint="take .real")
    wide = x.astype(np.float64)
    size = np.abs(wide)
    total = np.zeros_like(wide)
    for node in _NODES:
        total += node * np.exp(size * (node - 1.0))
    bessel = np.sign(wide) * np.exp(size) * total / len(_NODES)
    return np.asarray(bessel.astype(x.dtype if x.dtype.kind == "f" else np.float64))


def _i1_vjp(F: Any, ct: Any, out: Any, x: Any) -> Any:
    near, safe = _small(F, x, 1e-2)
    square = F.square(x)
    series = F.add(F.multiply(F.add(F.multiply(square, 1 / 384), 1 / 16), square), 0.5)
    return F.multiply(ct, F.subtract(F.i0(x), F.where(near, series, F.divide(out, safe))))


def _floating(name: str, *, complex_too: bool) -> Any:
    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> TensorSpec:
        x = tensor_spec(specs[0])
        kind = np.dtype(x.dtype).kind
        if kind == "c" and not complex_too:
            raise DtypeError(f"{name}: not defined for {x.dtype}", hint="take .real")
        return TensorSpec(x.shape, x.dtype if kind in "fc" else "float64")

    return infer


def _special(name: str, impl: Any, rule: Rule, numpy: Any, *, complex_too: bool = False) -> None:
    register(
        Op(
            name=name,
            family="elementwise",
            infer=_floating(name, complex_too=complex_too),
            impl=lambda x: impl(np.asarray(x)),
            vjp=(rule,),
            numpy=numpy,
            bind=lambda x: ((x,), {}),
            samples=lambda rng: (
                [Sample((rng.uniform(-3, 3, shape),)) for shape in [(3, 4), (), (1,), (0, 2)]]
                + [Sample((np.array([0.0, 1e-3, -2.5]),))]
            ),
            elementwise=True,
            flops=one_per_output,
        )
    )


def _i0(x: Array) -> Array:
    if x.dtype.kind == "c":
        raise DtypeError("i0: not defined for complex numbers", hint="take .real")
    return np.asarray(np.i0(x))


_special("sinc", np.sinc, _sinc_vjp, (np.sinc,), complex_too=True)
_special("i0", _i0, lambda F, ct, out, x: F.multiply(ct, F.i1(x)), (np.i0,))
_special("i1", _i1, _i1_vjp, ())

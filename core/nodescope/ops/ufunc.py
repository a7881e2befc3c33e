"""Ops made from ufuncs.

Invariant: broadcasting, promotion and special values are NumPy's own; the impl is the ufunc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodescope.ir.graph import TensorSpec
from nodescope.ops import register
from nodescope.ops.dtypes import name_of
from nodescope.ops.op import Op, Operand, Rule, one_per_output
from nodescope.ops.shapes import broadcast, dtype_of, like_ufunc, named

Domain = tuple[float, float]
LN2, LN10 = 0.6931471805599453, 2.302585092994046


def unary(
    name: str, ufunc: np.ufunc, rule: Rule | None = None, domain: Domain = (-2.0, 2.0), *,
    smooth: bool = True, c: str = "",
) -> None:  # fmt: skip
    """Register a ufunc of one input; ``c`` is its `Op.c`."""
    _register(name, ufunc, None if rule is None else (rule,), ("x",), domain, smooth, c)


def binary(
    name: str, ufunc: np.ufunc, left: Rule | None = None, right: Rule | None = None,
    domain: Domain = (-2.0, 2.0), *, smooth: bool = True, c: str = "",
) -> None:  # fmt: skip
    """Register a ufunc of two inputs; ``c`` is its `Op.c`."""
    rules = None if left is None and right is None else (left, right)
    _register(name, ufunc, rules, ("x1", "x2"), domain, smooth, c)


def _register(
    name: str, ufunc: np.ufunc, rules: Any, ports: tuple[str, ...], domain: Domain, smooth: bool,
    c: str,
) -> None:  # fmt: skip
    register(
        Op(
            name=name,
            family="elementwise",
            infer=like_ufunc(name, ufunc) if ufunc.nout == 1 else _several(name, ufunc),
            impl=ufunc,
            vjp=rules,
            numpy=(ufunc,),
            ports=ports,
            elementwise=True,
            outputs=ufunc.nout,
            domain=domain,
            smooth=smooth,
            flops=one_per_output,
            c=c,
        )
    )


def _several(name: str, ufunc: np.ufunc) -> Any:
    def infer(specs: tuple[Operand, ...], attrs: dict[str, Any]) -> tuple[TensorSpec, ...]:
        shape = broadcast(name, specs)
        dtypes = tuple(dtype_of(spec) for spec in specs)
        try:
            result_dtypes = ufunc.resolve_dtypes((*dtypes, *(None,) * ufunc.nout))
        except TypeError:
            raise named(name, dtypes) from None
        return tuple(TensorSpec(shape, name_of(dtype)) for dtype in result_dtypes[ufunc.nin :])

    return infer

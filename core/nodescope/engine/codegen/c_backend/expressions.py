"""Ops as C expressions for one element: `Op.c` filled in for given dtypes and attributes.

The computing dtypes are those of the loop that NumPy would choose. A generator stores each
expression's value in a variable of the expression's own dtype before using it again; that
assignment wraps small integers and makes bool 0 or 1.

Invariant: an expression gives the bits of the op's ``impl``, except for the functions in
`prelude.ULPS`, which stay within the bounds given there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope.engine.codegen.c_backend.prelude import FUNCTIONS, ULPS, needs
from nodescope.ir.graph import TensorSpec
from nodescope.ops.op import Op, Operand
from nodescope.ops.shapes import dtype_of

CTYPES: dict[str, str] = {
    "bool": "b8", "float32": "f32", "float64": "f64",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""C types for computing, by dtype. In memory, bool is ``u8``: load it with ``!= 0``."""

_FIELD = re.compile(r"\{(\w+)(?:\|([^{}]*))?\}")
_CALL = re.compile(r"\bns_\w+")


@dataclass(frozen=True, slots=True)
class OpExpression:
    """An op on elements.

    Attributes:
        text: C text, with ``{0}``, ``{1}`` … for the operands.
        operands: The dtype to which each operand is converted first.
        dtype: The dtype of the variable that holds the value.
        functions: The functions of the prelude that it calls.
        exact: Whether it gives the bits of the op's ``impl``.
    """

    text: str
    operands: tuple[str, ...]
    dtype: str
    functions: tuple[str, ...]
    exact: bool = True

    def fill(self, *operands: str) -> str:
        """The C text for operands given as expressions of the right types."""
        return _FIELD.sub(lambda slot: f"({operands[int(slot[1])]})", self.text)


def expression(
    op: Op, operands: Sequence[Operand], attrs: Mapping[str, Any]
) -> OpExpression | None:
    """The C expression for one element of an op, or None if there is none.

    Args:
        op: The op.
        operands: A spec per tensor, and Python scalars themselves, which promote weakly.
        attrs: The op's own attributes.
    """
    if not op.c:
        return None
    out = op.infer(tuple(operands), dict(attrs))
    if not isinstance(out, TensorSpec) or out.dtype not in CTYPES:
        return None
    dtypes = _operand_dtypes(op, operands, out)
    if dtypes is None or any(dtype not in CTYPES for dtype in dtypes):
        return None
    for operand, dtype in zip(operands, dtypes, strict=True):
        if isinstance(operand, TensorSpec):
            if operand.dtype not in CTYPES or not castable(operand.dtype, dtype):
                return None
        elif literal(operand, dtype) is None:
            return None
    if op.name in ("astype", "assign") and not castable(dtypes[-1], out.dtype):
        return None
    computing = out.dtype if op.name in _BY_OUTPUT else dtypes[-1 if op.name == "where" else 0]
    template = _template(op, operands, np.dtype(computing).kind)
    if op.name == "astype" and dtypes[0] == "bool":
        template = "ns_where_{T}({0}, 1, 0)"  # vectorizable, unlike a conversion
    text = _rendered(template, attrs, computing)
    if text is None:
        return None
    functions = tuple(dict.fromkeys(_CALL.findall(text)))
    if any(function not in FUNCTIONS for function in functions):
        return None
    called = {name for function in functions for name in needs(function)}
    bounded = op.name in _POWER or any(_stem(name) in ULPS for name in called)
    exact = not bounded or np.dtype(out.dtype).kind != "f"
    return OpExpression(text, dtypes, out.dtype, functions, exact)


def _stem(function: str) -> str:
    return function[len("ns_") :].rsplit("_", 1)[0]


_POWER = ("power", "float_power")
_POWERS: dict[float, str] = {
    2: "{0} * {0}", 3: "{0} * {0} * {0}", 4: "({0} * {0}) * ({0} * {0})", 1: "{0}", 0: "1",
    -1: "1 / {0}",
}  # fmt: skip
"""Cheap powers, by exponent."""


def _root(ufunc: Any) -> str:
    """The exponent 1/2: newer NumPy loops take the square root, which differs for -inf and -0.0."""
    with np.errstate(invalid="ignore"):
        root = ufunc(np.array([-math.inf]), 0.5)[0]
    return "ns_root_{T}({0})" if root > 0 else "ns_sqrt_{T}({0})"


_ROOTS: dict[str, str] = {ufunc.__name__: _root(ufunc) for ufunc in (np.power, np.float_power)}


def _template(op: Op, operands: Sequence[Operand], kind: str) -> str:
    exponent = operands[1] if op.name in _POWER else None
    if not isinstance(exponent, int | float):
        return op.c
    if exponent == 0.5:
        return _ROOTS[op.name]
    # NumPy refuses negative powers of integers.
    usual = kind == "f" or exponent in (0, 1, 2, 3, 4)
    return _POWERS.get(exponent, op.c) if usual else op.c


_BY_OUTPUT = {"astype"}
_SAME = {"assign", "copy", "astype", "zeros_like", "ones_like"}  # use the operands as given


def _operand_dtypes(op: Op, operands: Sequence[Operand], out: TensorSpec) -> tuple[str, ...] | None:
    """The dtypes to which NumPy converts the operands before computing."""
    if isinstance(op.impl, np.ufunc):
        dtypes = tuple(dtype_of(operand) for operand in operands)
        if any(isinstance(dtype, np.dtype) and dtype.name not in CTYPES for dtype in dtypes):
            return None
        loop = op.impl.resolve_dtypes((*dtypes, *(None,) * op.impl.nout))[: len(dtypes)]
        # Comparisons of signed with unsigned numbers are by value, unlike in C.
        mixed = {dtype.kind for dtype in loop} >= {"i", "u"}
        return None if mixed else tuple(dtype.name for dtype in loop)
    if op.name == "where":
        return ("bool", out.dtype, out.dtype)
    if op.name == "keep":
        return (out.dtype, "bool")
    if op.name == "dropout":
        return (out.dtype, "bool")
    if op.name in _SAME:
        return tuple(
            operand.dtype if isinstance(operand, TensorSpec) else np.result_type(operand).name
            for operand in operands
        )
    return (out.dtype,) * len(operands)


def castable(source: str, target: str) -> bool:
    """Whether C converts as NumPy does, bit by bit, for every value.

    The conversion of an out-of-range float to a small or unsigned integer is up to the compiler.
    """
    kinds = np.dtype(source).kind + np.dtype(target).kind
    return kinds not in ("fi", "fu") or target in ("int32", "int64")


def literal(value: Any, dtype: str) -> str | None:
    """A Python scalar as C of that dtype, to the bit; None if it does not fit."""
    kind = np.dtype(dtype).kind
    if isinstance(value, complex | np.complexfloating):
        return None
    if kind == "b":
        return "1" if value else "0"
    if kind in "iu":
        if not isinstance(value, int | np.integer):
            return None
        whole, info = int(value), np.iinfo(dtype)
        if not info.min <= whole <= info.max:
            return None
        if whole == -(1 << 63):
            return "INT64_MIN"
        suffix = {"int64": "LL", "uint64": "ULL", "uint32": "U"}.get(dtype, "")
        return f"({whole}{suffix})" if whole < 0 else f"{whole}{suffix}"
    try:
        with np.errstate(over="ignore"):
            number = float(np.dtype(dtype).type(value))
    except OverflowError:
        return None
    if math.isnan(number):
        return f"(({CTYPES[dtype]})NAN)"
    if math.isinf(number):
        return f"(({CTYPES[dtype]}){'-' if number < 0 else ''}INFINITY)"
    text = repr(number) if _short(number, dtype) else number.hex()
    text += "f" if dtype == "float32" else ""
    return f"({text})" if text.startswith("-") else text


def _short(number: float, dtype: str) -> bool:
    """Whether a number's decimal text is short, and denotes this number in C as well."""
    text = repr(number)
    return len(text) < 12 and float(np.dtype(dtype).type(text)) == number


_UNBOUND = {"low": "NS_LEAST_{T}", "high": "NS_MOST_{T}"}  # bounds that are None


def _attribute(value: Any, dtype: str) -> str | None:
    """An attribute in C: numbers in full precision, so that templates compute with them as Python
    does.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | np.integer | np.bool):
        return literal(int(value), dtype if np.dtype(dtype).kind in "iu" else "float64")
    if isinstance(value, float | np.floating):
        usual = np.dtype(dtype).kind == "f" and not math.isnan(value)
        return literal(float(value), "float64") if usual else None
    return None


def _rendered(template: str, attrs: Mapping[str, Any], dtype: str) -> str | None:
    """The template with dtype and attributes filled in, the operands left open."""
    missing = False

    def fill(placeholder: re.Match[str]) -> str:
        nonlocal missing
        name, default = placeholder[1], placeholder[2]
        if name.isdigit():
            return placeholder[0]
        if name == "T":
            return CTYPES[dtype]
        if name not in attrs and default is not None:
            return default
        value = attrs.get(name)
        text = _UNBOUND.get(name) if value is None else _attribute(value, dtype)
        missing = missing or text is None
        return (text or "").replace("{T}", CTYPES[dtype])

    text = _FIELD.sub(fill, template)
    return None if missing else text

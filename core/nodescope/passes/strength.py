"""Strength reduction: the same numbers by cheaper ops.

Each rule is bit-exact and measurably faster with NumPy. If that depends on how NumPy computes a
power, the rule checks NumPy first, once per dtype and exponent.

Invariant: results stay bit-identical; rules that are not exact are off by default.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np

from nodescope.ir.graph import Node
from nodescope.ops.calls import Scalar, call_of
from nodescope.passes import Rule, graph_pass
from nodescope.passes.draft import Draft, same_number
from nodescope.passes.layouts import Layouts, layouts_of
from nodescope.passes.patterns import Operand, call, feeds_weakly, full_of, result
from nodescope.passes.simplify import np_kind, replace

_FLOATS: Final = ("float16", "float32", "float64")
_LARGEST: Final = 1 << 30
Args = tuple[Operand, ...]


def _become(draft: Draft, rule: str, node: Node, op: str, args: list[Operand]) -> bool:
    """Replace a node by another op on the same operands."""
    operands = [
        argument.value if isinstance(argument, Scalar) else draft.spec(argument)
        for argument in args
    ]
    if result(op, operands) != draft.spec(node.outputs[0]):
        return False
    replacement = call(draft, op, args, node)
    draft.rewrite(
        rule, "rewritten", [node], [replacement], {node.outputs[0]: replacement.outputs[0]}
    )
    return True


def _number(args: Args, port: int) -> float | None:
    """A real Python scalar."""
    operand = args[port]
    value = operand.value if isinstance(operand, Scalar) else None
    return value if type(value) in (int, float) else None


def _power(draft: Draft, layouts: Layouts, node: Node, args: Args) -> None:
    x, exponent = args[0], _number(args, 1)
    spec = draft.spec(node.outputs[0])
    if not isinstance(x, int):
        if _number(args, 0) == 2 and spec.dtype in _FLOATS:
            other = args[1]
            if isinstance(other, int) and draft.spec(other) == spec:
                _unsafe(draft, "power_of_two", node, "exp2", [other])
        return
    if exponent is None or draft.spec(x) != spec or np_kind(spec.dtype) not in "iuf":
        return
    if exponent == 1 and _agrees("power_one", spec.dtype):
        if layouts.of(x) in ("rows", "dense") or layouts.harmless(node.outputs[0], "any"):
            replace(draft, "power_one", node, x)
    elif exponent == 2 and _agrees("power_square", spec.dtype):
        _become(draft, "power_square", node, "square", [x])
    elif np_kind(spec.dtype) != "f":
        return
    elif exponent == 0.5:
        if _agrees("power_sqrt", spec.dtype):
            _become(draft, "power_sqrt", node, "sqrt", [x])
        else:
            _unsafe(draft, "power_half", node, "sqrt", [x])
    elif exponent == -1 and _agrees("power_reciprocal", spec.dtype):
        _become(draft, "power_reciprocal", node, "divide", [Scalar(1.0), x])
    elif exponent == 0 and _agrees("power_zero", spec.dtype) and layouts.of(x) == "rows":
        _become(draft, "power_zero", node, "ones_like", [x])
    elif exponent == 3 and draft.options.allows("power_cube"):
        square = call(draft, "square", [x], node)
        cube = call(draft, "multiply", [square.outputs[0], x], node)
        draft.rewrite(
            "power_cube", "rewritten", [node], [square, cube], {node.outputs[0]: cube.outputs[0]}
        )


def _unsafe(draft: Draft, rule: str, node: Node, op: str, args: list[Operand]) -> None:
    if draft.options.allows(rule):
        _become(draft, rule, node, op, args)


_PROBES: Final[dict[str, tuple[float, Any]]] = {
    "power_one": (1.0, np.positive),
    "power_square": (2.0, np.square),
    "power_sqrt": (0.5, np.sqrt),
    "power_reciprocal": (-1.0, lambda x: np.divide(1.0, x)),
    "power_zero": (0.0, np.ones_like),
}


@functools.cache
def _agrees(rule: str, dtype: str) -> bool:
    """Whether this NumPy computes the power as the rule does, in every memory layout."""
    if dtype not in _FLOATS:
        return rule in ("power_one", "power_square")  # integers wrap alike
    exponent, other = _PROBES[rule]
    kind = np.finfo(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, kind.tiny, -kind.tiny, kind.max,
               -kind.max, kind.smallest_subnormal, -kind.smallest_subnormal]  # fmt: skip
    with np.errstate(all="ignore"):
        spread = np.geomspace(float(kind.tiny), float(kind.max), 997).astype(dtype)
    x = np.concatenate([np.array(special, dtype), spread, -spread[::7]])
    apart = np.repeat(x, 3)[::3]
    with np.errstate(all="ignore"):
        return all(
            _same_bits(first, two)
            for sample in (x, apart, x[:1], x[1:2], x[3:4], x[1:2].reshape(()), x[3:4].reshape(()))
            for first, two in [(np.power(sample, exponent), other(sample))]
        )


def _same_bits(first: Any, second: Any) -> bool:
    alike = (first == second) & (np.signbit(first) == np.signbit(second))
    return bool(np.all(alike | ((first != first) & (second != second))))


def _reciprocal(draft: Draft, layouts: Layouts, node: Node, args: Args) -> None:
    if draft.spec(node.outputs[0]).dtype in _FLOATS[1:]:
        _become(draft, "reciprocal", node, "divide", [Scalar(1.0), args[0]])


def _multiply(draft: Draft, layouts: Layouts, node: Node, args: Args) -> None:
    x = args[0]
    if isinstance(x, int) and x == args[1] and np_kind(draft.spec(x).dtype) in "iuf":
        _become(draft, "multiply_self", node, "square", [x])


def _divide(draft: Draft, layouts: Layouts, node: Node, args: Args) -> None:
    x, number = args[0], _number(args, 1)
    dtype = draft.spec(node.outputs[0]).dtype
    if not isinstance(x, int) or not number or draft.spec(x).dtype != dtype or dtype not in _FLOATS:
        return
    if exact_reciprocal(number, dtype):
        _become(draft, "divide_power_of_two", node, "multiply", [x, Scalar(1.0 / number)])
    elif draft.options.allows("divide_any") and math.isfinite(number):
        _become(draft, "divide_any", node, "multiply", [x, Scalar(1.0 / number)])


def exact_reciprocal(number: float, dtype: str) -> bool:
    """Whether a number and its reciprocal are both powers of two and normal in a dtype.

    Quotient and product are then the same real number, rounded once.
    """
    if not math.isfinite(number) or abs(math.frexp(number)[0]) != 0.5:
        return False
    kind = np.finfo(dtype)
    return all(
        float(kind.tiny) <= abs(factor) <= float(kind.max) for factor in (number, 1 / number)
    )


def _power_of_two(draft: Draft, node: Node, args: Args) -> int | None:
    x, number = args[0], _number(args, 1)
    spec = draft.spec(node.outputs[0])
    if not isinstance(x, int) or type(number) is not int or draft.spec(x) != spec:
        return None
    if np_kind(spec.dtype) not in "iu" or not 0 < number <= _LARGEST or number & (number - 1):
        return None
    return number


def _floor_divide(draft: Draft, layouts: Layouts, node: Node, args: Args) -> None:
    number = _power_of_two(draft, node, args)
    if number is not None and number > 1:
        _become(draft, "shift", node, "right_shift", [args[0], Scalar(number.bit_length() - 1)])


def _remainder(draft: Draft, layouts: Layouts, node: Node, args: Args) -> None:
    number = _power_of_two(draft, node, args)
    if number is not None:
        _become(draft, "mask", node, "bitwise_and", [args[0], Scalar(number - 1)])


def _where(draft: Draft, layouts: Layouts, node: Node, args: Args) -> None:
    z, x, zero = args
    if not isinstance(z, int) or not isinstance(x, int) or not full_of(draft, zero, 0.0):
        return
    if isinstance(zero, Scalar) and not same_number(float(zero.value), 0.0):
        return
    spec, out = draft.spec(x), node.outputs[0]
    if spec != draft.spec(out) or spec.dtype not in _FLOATS or not spec.shape:
        return
    if draft.spec(z).shape != spec.shape or draft.spec(z).dtype != "bool":
        return
    if layouts.of(x) == layouts.of(z) == "rows" or layouts.harmless(out, "any"):
        _become(draft, "keep", node, "keep", [x, z])


_RULES: Final[dict[str, Any]] = {
    "power": _power, "reciprocal": _reciprocal, "multiply": _multiply, "divide": _divide,
    "floor_divide": _floor_divide, "remainder": _remainder, "where": _where,
}  # fmt: skip


@graph_pass(
    "strength",
    stage=45,
    help="cheaper ops for the same numbers",
    again=True,
    rules=(
        Rule("power_one", "power(x, 1) -> x"),
        Rule("power_square", "power(x, 2) -> square(x)"),
        Rule("power_sqrt", "power(x, 0.5) -> sqrt(x), where NumPy's power does that itself"),
        Rule("power_reciprocal", "power(x, -1) -> 1 / x"),
        Rule("power_zero", "power(x, 0) -> ones_like(x)"),
        Rule("reciprocal", "reciprocal(x) -> 1 / x"),
        Rule("multiply_self", "x * x -> square(x)"),
        Rule("divide_power_of_two", "x / c -> x * (1 / c) for powers of two"),
        Rule("shift", "x // c -> x >> log2(c) for integers and powers of two"),
        Rule("mask", "x % c -> x & (c - 1) for integers and powers of two"),
        Rule("keep", "where(z, x, 0) -> keep(x, z)"),
        Rule("divide_any", "x / c -> x * (1 / c)", exact=False),
        Rule("power_half", "power(x, 0.5) -> sqrt(x)", exact=False),
        Rule("power_cube", "power(x, 3) -> x * x * x", exact=False),
        Rule("power_of_two", "power(2, x) -> exp2(x)", exact=False),
    ),
)
def reduce_strength(draft: Draft) -> None:
    """Consider each node whose op has a rule, in order."""
    layouts = layouts_of(draft)
    for node in draft:
        rule = _RULES.get(node.op)
        if rule is not None and not node.control_inputs and not feeds_weakly(draft, node.inputs):
            rule(draft, layouts, node, call_of(node).args)

"""Makers of node groups that passes look for, and of similar groups that passes must not match.

Invariant: as in `makers`, nodes that do not fit are left out.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from nodescope.ops.calls import Scalar, call_of
from tests.conformance.graphs.makers import (
    SCALARS,
    axis_of,
    fitting,
    fresh,
    partner,
    pick,
)
from tests.conformance.graphs.making import Making

INVERSES = (("negative", "negative"), ("exp", "log"), ("sqrt", "square"), ("square", "sqrt"),
            ("reciprocal", "reciprocal"), ("logical_not", "logical_not"), ("abs", "abs"),
            ("relu", "relu"), ("positive", "copy"))  # fmt: skip


def _floating(spec: Any) -> bool:
    return np.dtype(spec.dtype).kind == "f"


def again(m: Making) -> Any:
    """An existing node once more, the same or with one difference."""
    able = [n for n in m.nodes if n.family not in ("leaf", "control", "update") and n.inputs]
    if not able:
        return None
    node = m.choices.one_of(able)
    call = call_of(node)
    operands: list[Any] = list(call.args)
    attrs = dict(call.attrs)
    how = m.choices.integer(0, 5)
    if how == 1:
        operands.reverse()
    elif how == 2:
        for i, value in enumerate(operands):
            if isinstance(value, Scalar):
                operands[i] = Scalar(_near(value.value))
    elif how == 3 and "axis" in attrs and isinstance(attrs["axis"], int):
        attrs["axis"] = -attrs["axis"] - 1
    elif how == 4 and "keepdims" in attrs:
        attrs["keepdims"] = not attrs["keepdims"]
    elif how == 5 and "dtype" in attrs:
        attrs["dtype"] = m.choices.one_of(("float32", "float64"))
    return m.node(node.op, operands, attrs)


def _near(value: Any) -> Any:
    """An operand that Python calls equal but is not: zero of the other sign, or another type."""
    if value == 0 and isinstance(value, float):
        return -value
    if isinstance(value, float) and value == value and abs(value) != np.inf and value % 1 == 0:
        return int(value)
    return float(value)


def twice(m: Making) -> Any:
    """Two operations that undo each other, or nearly do."""
    x = pick(m)
    if x is None:
        return None
    first, two = m.choices.one_of(INVERSES)
    middle = m.one(first, (x,))
    return middle and m.one(two, (middle,))


def layouts(m: Making) -> Any:
    """Chains of reshapes and transposes."""
    x = pick(m, lambda spec: len(spec.shape) > 1)
    if x is None:
        return None
    shape = m.spec(x).shape
    now: int | None = x
    for _ in range(m.choices.integer(2, 4)):
        if now is None:
            return None
        current = m.spec(now).shape
        how = m.choices.integer(0, 3)
        if how == 0:
            now = m.one("reshape", (now,), shape=shape)
        elif how == 1:
            now = m.one("reshape", (now,), shape=(-1,) if current else ())
        elif current:
            now = m.one("transpose", (now,), axes=tuple(m.choices.shuffled(range(len(current)))))
    return now


def neutral(m: Making) -> Any:
    """An operation with a number such as 0 or 1, which may seem to change nothing."""
    x = pick(m)
    if x is None:
        return None
    op = m.choices.one_of(("add", "subtract", "multiply", "divide", "power", "maximum", "minimum",
                           "logical_and", "logical_or", "floor_divide"))  # fmt: skip
    number = m.choices.one_of((0.0, -0.0, 1.0, 1, 0, -1.0, 2, 2.0, 0.5, True, False, float("inf"),
                               float("nan"), 4.0, 0.25, 3.0))  # fmt: skip
    other: Any = Scalar(number)
    if m.choices.chance(40):
        spec = m.spec(x)
        dtype = spec.dtype if m.choices.chance(70) else m.choices.one_of(("float64", "float32"))
        shape = m.choices.one_of(((), spec.shape, (1,), (1, *spec.shape)))
        with np.errstate(all="ignore"):
            if not (np.isfinite(number) or np.dtype(dtype).kind == "f"):
                return None
            other = m.constant(np.full(shape, number).astype(dtype))
    return m.node(op, (other, x) if m.choices.chance(40) else (x, other))


def with_itself(m: Making) -> Any:
    """x - x, x / x, x * x, max(x, x) …"""
    x = pick(m)
    op = m.choices.one_of(("subtract", "divide", "multiply", "add", "maximum", "equal", "power",
                           "logical_xor", "less_equal"))  # fmt: skip
    return x and m.node(op, (x, x))


def softmax(m: Making) -> Any:
    """A softmax written out, one of whose axes may differ."""
    x = pick(m, lambda spec: _floating(spec) and len(spec.shape) > 0 and 0 not in spec.shape)
    if x is None:
        return None
    ndim = len(m.spec(x).shape)
    axis = m.choices.integer(-ndim, ndim - 1)
    other = axis if m.choices.chance(80) else m.choices.integer(-ndim, ndim - 1)
    top = m.one("max", (x,), axis=axis, keepdims=True)
    shifted = top and m.one("subtract", (x, top))
    raised = shifted and m.one("exp", (shifted,))
    total = raised and m.one("sum", (raised,), axis=other, keepdims=True)
    if total is None:
        return None
    if m.choices.chance(40):
        log = m.one("log", (total,))
        return log and m.one("subtract", (shifted, log))
    return m.one("divide", (raised, total))


def layer_norm(m: Making) -> Any:
    """A layer norm written out, in one of the usual ways."""
    x = pick(m, lambda spec: _floating(spec) and len(spec.shape) > 0 and 0 not in spec.shape)
    if x is None:
        return None
    spec = m.spec(x)
    mean = m.one("mean", (x,), axis=-1, keepdims=True)
    centred = m.one("subtract", (x, mean))
    if m.choices.chance(50):
        square = m.one("square", (centred,))
        variance = square and m.one("mean", (square,), axis=-1, keepdims=True)
    else:
        variance = m.node("var", (x,), {"axis": -1, "keepdims": True, "ddof": 0})
        variance = variance and variance[0]  # type: ignore[assignment]
    safe = variance and m.one("add", (variance, Scalar(1e-5)))
    root = safe and m.one("sqrt", (safe,))
    scaled = root and m.one("divide", (centred, root))
    if scaled and m.choices.chance(60):
        weight = fresh(m, spec.shape[-1:], spec.dtype)
        scaled = m.one("multiply", (scaled, weight))
        bias = fresh(m, spec.shape[-1:], spec.dtype)
        scaled = scaled and m.one("add", (scaled, bias))
    return scaled


def gelu(m: Making) -> Any:
    x = pick(m, _floating)
    if x is None:
        return None
    cube = m.one("power", (x, Scalar(3)))
    inner = m.one("add", (x, m.one("multiply", (cube, Scalar(0.044715)))))
    bent = m.one("tanh", (m.one("multiply", (inner, Scalar(0.7978845608028654))),))
    return m.one("multiply", (m.one("multiply", (x, Scalar(0.5))),
                              m.one("add", (bent, Scalar(1.0)))))  # fmt: skip


def attention(m: Making) -> Any:
    n, k, dtype = m.choices.integer(1, 4), m.choices.integer(1, 4), "float32"
    q, key, v = (fresh(m, (2, n, k), dtype) for _ in range(3))
    turned = m.one("transpose", (key,), axes=(0, 2, 1))
    scores = m.one("matmul", (q, turned))
    scores = scores and m.one("multiply", (scores, Scalar(0.5)))
    weights = scores and m.one("softmax", (scores,), axis=-1)
    return weights and m.one("matmul", (weights, v))


def chain(m: Making) -> Any:
    """A chain of elementwise nodes, with a branch that may be used elsewhere."""
    x: int | None = pick(m, _floating)
    for _ in range(m.choices.integer(3, 8)):
        if x is None:
            return None
        op = m.choices.one_of(("tanh", "add", "multiply", "relu", "subtract", "maximum", "square",
                               "negative", "where", "divide"))  # fmt: skip
        if op in ("tanh", "relu", "square", "negative"):
            x = m.one(op, (x,))
        elif op == "where":
            mask = m.one("greater", (x, Scalar(0.1)))
            x = mask and m.one("where", (mask, x, Scalar(m.choices.one_of(SCALARS[:6]))))
        else:
            other: Any = Scalar(m.choices.one_of(SCALARS))
            if m.choices.chance(50):
                spec = m.spec(x)
                near = m.choices.chance(50)
                other = partner(m, spec.shape, spec.dtype) if near else fitting(m, x)
            x = m.one(op, (other, x) if m.choices.chance(30) else (x, other))
    return x


def update(m: Making) -> Any:
    """A step of an optimizer, with a rate fed as a Python float, and an assignment."""
    dtype = m.choices.one_of(("float32", "float64"))
    shape = (m.choices.integer(1, 4), m.choices.integer(1, 4))
    p = fresh(m, shape, dtype)
    gradient = pick(m, lambda spec: spec.shape == shape and spec.dtype == dtype)
    gradient = gradient or fresh(m, shape, dtype)
    before, m.phase = m.phase, "optimizer"
    number = m.choices.one_of((0.1, 1e-3, 1.0, 0.0))
    rate = m.input(np.asarray(number, dtype), feed=number)
    step = m.node("multiply", (gradient, rate))
    new = step and m.node("subtract", (p, step[0]))
    control = [n.id for n in m.nodes if not n.is_leaf][-2:] if m.choices.chance(50) else []
    result = new and m.node("assign", (p, new[0]), control=control)
    if result and m.choices.chance(30):
        m.node("assign_add", (result[0], new[0]), control=[m.nodes[-1].id])
    m.phase = before
    return result


def waits(m: Making) -> Any:
    """A node that waits for others without taking their values."""
    able = [n.id for n in m.nodes if not n.is_leaf]
    x = pick(m)
    if x is None or not able:
        return None
    control = tuple(dict.fromkeys(m.choices.one_of(able) for _ in range(m.choices.integer(1, 2))))
    return m.node(m.choices.one_of(("negative", "copy", "abs")), (x,), control=control)


def other_phase(m: Making) -> Any:
    """Nodes of the backward pass, some of them recomputed."""
    before, m.phase = m.phase, m.choices.one_of(("backward", "recompute"))
    result = again(m)
    if m.nodes and m.nodes[-1].phase == m.phase:
        m.nodes[-1] = msgspec.structs.replace(
            m.nodes[-1], forward=m.choices.one_of(m.nodes[: len(m.nodes)]).id
        )
    m.phase = before
    return result


def sums(m: Making) -> Any:
    """A reduction of an elementwise chain, broadcast back."""
    x = pick(m, lambda spec: _floating(spec) and len(spec.shape) > 0)
    if x is None:
        return None
    op = m.choices.one_of(("sum", "mean", "max"))
    axis = axis_of(m, len(m.spec(x).shape))
    square = m.one("square", (x,))
    total = square and m.node(op, (square,), {"axis": axis, "keepdims": True})
    return total and m.node("divide", (x, total[0]))

"""How far a kernel that is not exact may be from NumPy's own: bounds, by running it many times.

The reference runs the kernel's nodes with NumPy and disturbs what each node that is not exact gives
by the bound that is stated for it, up, down and at random. What the kernel's outputs do then is the
range in which a back end's results must lie; an element that becomes NaN or infinite, or another
integer, in some of these runs and not in others stands on an edge, and says nothing.

Invariant: nodes that are exact are not disturbed, so that a kernel of such nodes alone has no room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope.ir.graph import Graph, Node
from nodescope.ops.calls import Scalar, call_of
from nodescope.ops.control import constants_of
from tests.conformance.graphs.running import quiet

Array = np.ndarray[Any, Any]

ULPS = {
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log1p", "tanh", "erf", "sin", "cos", "tan",
                     "arcsin", "arccos", "arctan", "sinh", "cosh", "arcsinh", "arccosh", "arctanh",
                     "cbrt", "log2", "log10", "arctan2", "hypot", "power", "float_power"), 8.0),
    **dict.fromkeys(("sigmoid", "softplus", "silu", "gelu", "gelu_grad", "mish", "elu", "celu",
                     "selu", "logsigmoid", "logaddexp", "logaddexp2", "i0e", "i1e", "i0", "i1",
                     "sinc", "hardsigmoid", "hardswish", "softsign", "deg2rad", "rad2deg",
                     "radians", "degrees"), 16.0),
}  # fmt: skip
"""Units in the last place of elementwise functions: NumPy's own error (up to 4) and a back end's
stated one (`prelude.ULPS`), and for compositions those of their parts."""

SUMS = {"sum", "mean", "prod", "var", "std", "logsumexp", "cumsum", "cumprod", "softmax",
        "log_softmax", "layer_norm", "rms_norm", "matmul", "vector_norm", "mse", "cross_entropy",
        "einsum", "vecdot", "matvec", "vecmat", "group_norm", "instance_norm", "nll_loss",
        *(f"conv{what}{n}d{way}" for n in (1, 2)
          for what, way in (("", ""), ("_transpose", ""), ("", "_input_grad"),
                            ("", "_weight_grad"))),
        }  # fmt: skip
"""Ops whose sums may be taken in another order."""

TRIALS = 8
_WIDER = 4.0


@dataclass(frozen=True)
class Range:
    """Where one output may lie; ``edge``: elements of which nothing is said."""

    low: Array
    high: Array
    edge: Array
    nominal: Array


def _room(node: Node, given: Sequence[Any], result: Array) -> Array | float:
    """The absolute bound of one node's result, per element."""
    if result.dtype.kind != "f":
        return 0.0
    one = np.abs(np.spacing(np.abs(result)))
    if node.op in ULPS:
        if node.op in ("sigmoid", "softplus", "logsigmoid", "elu", "celu", "selu", "mish", "silu",
                       "gelu", "gelu_grad", "logaddexp", "logaddexp2", "sinc"):  # fmt: skip
            # Made of parts that may cancel: relative to the parts.
            parts = [np.abs(np.asarray(x, result.dtype)) for x in given]
            one = np.maximum(one, np.spacing(1 + sum(parts, np.zeros((), result.dtype))) / 8)
        return ULPS[node.op] * one
    if node.op in SUMS:
        x = np.asarray(given[0])
        count = max(x.size, 1)
        eps = np.finfo(result.dtype).eps
        finite = np.abs(np.where(np.isfinite(x), x, 0)).astype(result.dtype)
        total = finite.sum() if node.op != "prod" else 0
        if node.op == "matmul" or node.op.startswith("conv"):
            other = np.abs(np.asarray(given[1]))
            return eps * count * float(np.max(np.where(np.isfinite(other), other, 0), initial=0)) \
                * float(finite.max(initial=0)) + 4 * one  # fmt: skip
        if node.op in ("sum", "mean", "cumsum", "vector_norm"):
            return eps * (4 + count) * (total / (count if node.op == "mean" else 1)) + 4 * one
        if node.op in ("var", "std", "layer_norm", "rms_norm"):
            scale = float(finite.max(initial=0))
            size = scale * scale if node.op == "var" else scale
            if node.op.endswith("norm"):
                size = 1.0 + scale / max(float(np.std(finite)), 1e-3)
            return eps * (16 + count) * (size + np.abs(result))
        return (16 + count) * one + (16 * eps if node.op.startswith("log") else 0)
    return 0.0


def ranges(body: Graph | Node, arrays: Sequence[Any]) -> list[Range]:
    """For each output of a kernel, or of a node alone."""
    rng = np.random.default_rng(0)
    with quiet():
        found = [_run(body, arrays, trial, rng) for trial in range(TRIALS + 1)]
        return [range_of([each[i] for each in found]) for i in range(len(body.outputs))]


def _run(
    body: Graph | Node, arrays: Sequence[Any], trial: int, rng: np.random.Generator
) -> list[Array]:
    """Outputs of a kernel, or of a node alone, in one trial; the one of number 0 is NumPy's own."""
    nodes = body.nodes if isinstance(body, Graph) else (body,)
    values: dict[int, Any] = constants_of(body) if isinstance(body, Graph) else {}
    values.update(zip(body.inputs, arrays, strict=True))
    for node in nodes:
        if node.is_leaf and node.op != "read":
            continue
        call = call_of(node)
        given = [a.value if isinstance(a, Scalar) else values[a] for a in call.args]
        if node.op in _LOOPS:
            results: Any = _LOOPS[node.op](node, given, trial, rng)
        else:
            data = call.op.impl(*given, **call.attrs)
            results = data if isinstance(data, tuple) else (data,)
        for value, each in zip(node.outputs, map(np.asarray, results), strict=True):
            values[value] = each if not trial else _moved(node, given, each, trial, rng)
    return [np.asarray(values[each]) for each in body.outputs]


def _scan(
    node: Node, given: Sequence[Any], trial: int, rng: np.random.Generator
) -> list[Array]:  # fmt: skip
    body, first, length = node.attrs["body"], node.attrs["carries"], node.attrs["length"]
    carry, rest = list(given[:first]), first + node.attrs["columns"]
    specs = {each.id: each.spec for each in body.values}
    stacks = [
        np.empty((length, *specs[each].shape), specs[each].dtype) for each in body.outputs[first:]
    ]
    for i in range(length - 1, -1, -1) if node.attrs["reverse"] else range(length):
        rows = [each[i] for each in given[first:rest]]
        found = _run(body, [*carry, *rows, *given[rest:]], trial, rng)
        carry = found[:first]
        for stack, row in zip(stacks, found[first:], strict=True):
            stack[i] = row
    return [*carry, *stacks]


def _while(
    node: Node, given: Sequence[Any], trial: int, rng: np.random.Generator
) -> list[Array]:  # fmt: skip
    first = node.attrs["carries"]
    carry, around = list(given[:first]), given[first:]
    while bool(_run(node.attrs["condition"], [*carry, *around], trial, rng)[0]):
        carry = _run(node.attrs["body"], [*carry, *around], trial, rng)
    return carry


def _cond(
    node: Node, given: Sequence[Any], trial: int, rng: np.random.Generator
) -> list[Array]:  # fmt: skip
    return _run(node.attrs["then" if bool(given[0]) else "otherwise"], given[1:], trial, rng)


_LOOPS = {"scan": _scan, "while_loop": _while, "cond": _cond}


def _moved(
    node: Node, given: Sequence[Any], result: Array, trial: int, rng: np.random.Generator
) -> Array:
    room = _room(node, given, result)
    if isinstance(room, float) and room == 0.0:
        return result
    if trial < 3:
        how: Any = 1.0 if trial == 1 else -1.0
    else:
        how = rng.uniform(-1.0, 1.0, result.shape)
    moved = np.asarray(result + how * room, result.dtype)
    return np.where(np.isfinite(result), moved, result)


def range_of(trials: list[Array]) -> Range:
    nominal, stacked = trials[0], np.stack(trials)
    if nominal.dtype.kind not in "f":
        edge = (stacked != nominal).any(0)
        return Range(nominal, nominal, edge, nominal)
    finite = np.isfinite(stacked)
    edge = ~(finite.all(0) | (~finite).all(0))
    low, high = stacked.min(0), stacked.max(0)
    moved = high > low
    room = np.where(moved, _WIDER * (high - low), 0).astype("float64")
    return Range(low - room, high + room, edge, nominal)


def outside(found: Array, where: Range) -> str:
    """How a result leaves its range, or ``""``."""
    nominal = where.nominal
    if found.dtype != nominal.dtype or found.shape != nominal.shape:
        return f"{found.dtype}{found.shape}, not {nominal.dtype}{nominal.shape}"
    if nominal.dtype.kind != "f":
        wrong = (found != nominal) & ~where.edge
    else:
        both = np.isnan(found) & np.isnan(nominal)
        same = (found == nominal) & (np.signbit(found) == np.signbit(nominal))
        inside = (found >= where.low) & (found <= where.high) & (where.high > where.low)
        wrong = ~(both | same | inside | where.edge)
    if not wrong.any():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.shape else ()
    return (f"{found[at]!r} at {at}, where NumPy gives {nominal[at]!r} and "
            f"[{where.low[at]!r}, {where.high[at]!r}] is allowed")  # fmt: skip

"""Bounds: how far an inexact kernel may be from NumPy, estimated by running its nodes many times.

The reference runs the kernel's nodes with NumPy and perturbs the result of each inexact node by its
stated bound: up, down and at random. A back end's results must lie in the widened range of the
outputs of these runs. An element that is NaN or infinite, or another integer, in only some of the
runs is on an edge and is not judged.

Invariant: exact nodes are not perturbed, so that a kernel of exact nodes must give NumPy's bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodescope.engine.crosscheck.values import quiet
from nodescope.ir.graph import Graph, Node
from nodescope.ops.calls import Scalar, call_of
from nodescope.ops.control import constants_of

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
        *(f"conv{kind}{n}d{way}" for n in (1, 2)
          for kind, way in (("", ""), ("_transpose", ""), ("", "_input_grad"),
                            ("", "_weight_grad"))),
        }  # fmt: skip
"""Ops whose sums may be taken in another order."""

TRIALS = 8
_WIDER = 4.0


@dataclass(frozen=True)
class Range:
    """Where one output may lie; ``edge``: elements that are not judged."""

    low: Array
    high: Array
    edge: Array
    nominal: Array


def _room(node: Node, operands: Sequence[Any], result: Array) -> Any:
    """The absolute bound of one node's result: an array, per element, or a number."""
    if result.dtype.kind != "f":
        return 0.0
    first = np.abs(np.spacing(np.abs(result)))
    if node.op in ULPS:
        if node.op in ("sigmoid", "softplus", "logsigmoid", "elu", "celu", "selu", "mish", "silu",
                       "gelu", "gelu_grad", "logaddexp", "logaddexp2", "sinc"):  # fmt: skip
            # Computed from parts that may cancel: the bound is relative to the parts.
            parts = [np.abs(np.asarray(x, result.dtype)) for x in operands]
            first = np.maximum(first, np.spacing(1 + sum(parts, np.zeros((), result.dtype))) / 8)
        return ULPS[node.op] * first
    if node.op in SUMS:
        x = np.asarray(operands[0])
        count = max(x.size, 1)
        eps = np.finfo(result.dtype).eps
        finite = np.abs(np.where(np.isfinite(x), x, 0)).astype(result.dtype)
        total = finite.sum() if node.op != "prod" else 0
        if node.op == "matmul" or node.op.startswith("conv"):
            other = np.abs(np.asarray(operands[1]))
            return eps * count * float(np.max(np.where(np.isfinite(other), other, 0), initial=0)) \
                * float(finite.max(initial=0)) + 4 * first  # fmt: skip
        if node.op in ("sum", "mean", "cumsum", "vector_norm"):
            return eps * (4 + count) * (total / (count if node.op == "mean" else 1)) + 4 * first
        if node.op in ("var", "std", "layer_norm", "rms_norm"):
            scale = float(finite.max(initial=0))
            size = scale * scale if node.op == "var" else scale
            if node.op.endswith("norm"):
                size = 1.0 + scale / max(float(np.std(finite)), 1e-3)
            return eps * (16 + count) * (size + np.abs(result))
        return (16 + count) * first + (16 * eps if node.op.startswith("log") else 0)
    return 0.0


def ranges(body: Graph | Node, arrays: Sequence[Any]) -> list[Range]:
    """The range of each output of a kernel, or of a single node."""
    rng = np.random.default_rng(0)
    with quiet():
        results = [_run(body, arrays, trial, rng) for trial in range(TRIALS + 1)]
        return [range_of([item[i] for item in results]) for i in range(len(body.outputs))]


def _run(
    body: Graph | Node, arrays: Sequence[Any], trial: int, rng: np.random.Generator
) -> list[Array]:
    """Outputs of a kernel, or of a single node, in one trial; trial 0 is NumPy's, unperturbed."""
    nodes = body.nodes if isinstance(body, Graph) else (body,)
    values: dict[int, Any] = constants_of(body) if isinstance(body, Graph) else {}
    values.update(zip(body.inputs, arrays, strict=True))
    for node in nodes:
        if node.is_leaf and node.op != "read":
            continue
        call = call_of(node)
        operands = [a.value if isinstance(a, Scalar) else values[a] for a in call.args]
        if node.op in _LOOPS:
            results: Any = _LOOPS[node.op](node, operands, trial, rng)
        else:
            data = call.op.impl(*operands, **call.attrs)
            results = data if isinstance(data, tuple) else (data,)
        for value, item in zip(node.outputs, map(np.asarray, results), strict=True):
            values[value] = item if not trial else _moved(node, operands, item, trial, rng)
    return [np.asarray(values[value]) for value in body.outputs]


def _scan(
    node: Node, operands: Sequence[Any], trial: int, rng: np.random.Generator
) -> list[Array]:  # fmt: skip
    body, first, length = node.attrs["body"], node.attrs["carries"], node.attrs["length"]
    carry, rest = list(operands[:first]), first + node.attrs["columns"]
    specs = {value.id: value.spec for value in body.values}
    stacks = [
        np.empty((length, *specs[value].shape), specs[value].dtype)
        for value in body.outputs[first:]
    ]
    for i in range(length - 1, -1, -1) if node.attrs["reverse"] else range(length):
        rows = [item[i] for item in operands[first:rest]]
        result = _run(body, [*carry, *rows, *operands[rest:]], trial, rng)
        carry = result[:first]
        for stack, row in zip(stacks, result[first:], strict=True):
            stack[i] = row
    return [*carry, *stacks]


def _while(
    node: Node, operands: Sequence[Any], trial: int, rng: np.random.Generator
) -> list[Array]:  # fmt: skip
    first = node.attrs["carries"]
    carry, around = list(operands[:first]), operands[first:]
    while bool(_run(node.attrs["condition"], [*carry, *around], trial, rng)[0]):
        carry = _run(node.attrs["body"], [*carry, *around], trial, rng)
    return carry


def _cond(
    node: Node, operands: Sequence[Any], trial: int, rng: np.random.Generator
) -> list[Array]:  # fmt: skip
    return _run(node.attrs["then" if bool(operands[0]) else "otherwise"], operands[1:], trial, rng)


_LOOPS = {"scan": _scan, "while_loop": _while, "cond": _cond}


def _moved(
    node: Node, operands: Sequence[Any], result: Array, trial: int, rng: np.random.Generator
) -> Array:
    room = _room(node, operands, result)
    if isinstance(room, float) and room == 0.0:
        return result
    if trial < 3:
        how: Any = 1.0 if trial == 1 else -1.0
    else:
        how = rng.uniform(-1.0, 1.0, result.shape)
    moved = np.asarray(result + how * room, result.dtype)
    return np.where(np.isfinite(result), moved, result)


def range_of(trials: list[Array]) -> Range:
    """The range of an output, from its values in all trials; the first trial is NumPy's."""
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


def outside(result: Array, where: Range) -> str:
    """How a result leaves its range, or ``""``."""
    nominal = where.nominal
    if result.dtype != nominal.dtype or result.shape != nominal.shape:
        return f"{result.dtype}{result.shape}, not {nominal.dtype}{nominal.shape}"
    if nominal.dtype.kind != "f":
        wrong = (result != nominal) & ~where.edge
    else:
        both = np.isnan(result) & np.isnan(nominal)
        same = (result == nominal) & (np.signbit(result) == np.signbit(nominal))
        inside = (result >= where.low) & (result <= where.high) & (where.high > where.low)
        wrong = ~(both | same | inside | where.edge)
    if not wrong.any():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.shape else ()
    return (f"{result[at]!r} at {at}, where NumPy gives {nominal[at]!r} and "
            f"[{where.low[at]!r}, {where.high[at]!r}] is allowed")  # fmt: skip

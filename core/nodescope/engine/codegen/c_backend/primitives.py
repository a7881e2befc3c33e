"""Ops as primitives: a table from the name of an op to a function that adds them to a unit.

Ops in no table but with a C expression are maps; all others run in Python.

Invariant: each function follows the op's ``impl`` step by step; where it sums in another order, the
bound that `BOUNDS` states holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from nodescope.engine.codegen.c_backend import layouts, products, windows
from nodescope.engine.codegen.c_backend.unit import (
    Arg,
    FunctionCall,
    How,
    NoKernel,
    Sizes,
    Unit,
    Val,
)
from nodescope.ir.graph import Graph, TensorSpec
from nodescope.ops.calls import Call as NodeCall
from nodescope.ops.calls import Scalar, call_of
from nodescope.ops.shapes import axes as axes_of

Lower = Callable[[Unit, tuple[Any, ...], dict[str, Any], tuple[TensorSpec, ...]], Sequence[Val]]

BOUNDS: dict[str, str] = {
    "sum": "float32: 24 eps of the sum of absolute values; float64: 22 eps of it",
    "matmul": "as NumPy's: the same BLAS; products of other layouts may be rounded differently",
    "scan": "gradients of what is from around are added up in another order: n eps for n steps",
    "softmax": "one ulp of exp, and the bound of sum",
}
"""Greatest deviation of results, beyond `prelude.ULPS`; eps: 2^-24 for float32, 2^-53 for
float64.
"""


def lower_node(
    unit: Unit, call: NodeCall, env: dict[int, Val], specs: dict[int, TensorSpec]
) -> None:
    """Add a node's work to a unit; its outputs enter ``env``.

    Raises:
        NoKernel: C cannot compute the node.
    """
    node = call.node
    args = tuple(
        argument.value if isinstance(argument, Scalar) else env[argument] for argument in call.args
    )
    outs = tuple(specs[value] for value in node.outputs)
    if call.op.name == "fused":
        inner: Sequence[Val] = lower_graph(unit, call.attrs["body"], args)
    else:
        inner = _lowered(unit, call, args, outs)
    for value, spec, result in zip(node.outputs, outs, inner, strict=True):
        if result.shape != tuple(spec.shape) or result.dtype != spec.dtype:
            raise NoKernel(f"{node.op} would give {result.spec} for {spec}")
        env[value] = result


def _lowered(
    unit: Unit, call: NodeCall, args: tuple[Any, ...], outs: tuple[TensorSpec, ...]
) -> Sequence[Val]:
    name = call.op.name
    special = TABLE.get(name)
    if special is not None:
        args = tuple(
            unit.cast(argument, argument.dtype)
            if isinstance(argument, Val) and argument.loose
            else argument
            for argument in args
        )
        return special(unit, args, call.attrs, outs)
    if not call.op.c:
        raise NoKernel(f"{name} has no form in C")
    return (unit.map(name, *args, **call.attrs),)


def lower_graph(unit: Unit, body: Graph, args: Sequence[Any]) -> list[Val]:
    """Add the nodes of a closed graph; return its outputs. Raises `NoKernel`."""
    env: dict[int, Val] = dict(zip(body.inputs, args, strict=True))
    specs = {value.id: value.tensor for value in body.values}
    for node in body.nodes:
        if node.is_leaf:
            if any(value not in env for value in node.outputs):
                raise NoKernel("a constant within a body")
            continue
        lower_node(unit, call_of(node), env, specs)
    return [env[value] for value in body.outputs]


# Reductions


def _axes(v: Val, axis: Any) -> Sizes:
    return axes_of("reduction", axis, len(v.shape))


def _reduction(how: How) -> Lower:
    def lower(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
        (x,) = args
        dtype = outs[0].dtype
        x = _numbers(unit, unit.cast(x, dtype) if how in ("sum", "prod") else x, how)
        return (unit.reduce(how, x, _axes(x, attrs["axis"]), attrs["keepdims"], dtype),)

    return lower


def _numbers(unit: Unit, x: Val, how: How) -> Val:
    if how in ("any", "all"):
        return unit.map("astype", x, dtype="bool") if x.dtype != "bool" else x
    if x.dtype == "bool":
        raise NoKernel(f"the {how} of booleans")
    return x


def _mean(unit: Unit, x: Val, axes: Sizes, keepdims: bool, dtype: str, less: float = 0) -> Val:
    count = math.prod(x.shape[i] for i in axes)
    total = unit.reduce("sum", unit.cast(x, dtype), axes, keepdims, dtype)
    return unit.map("divide", total, float(max(count - less, 0)))


def _mean_op(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
    (x,) = args
    return (_mean(unit, x, _axes(x, attrs["axis"]), attrs["keepdims"], outs[0].dtype),)


def _variance(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
    (x,), dtype = args, outs[0].dtype
    axes = _axes(x, attrs["axis"])
    x = unit.cast(x, dtype)
    centred = unit.map("subtract", x, _mean(unit, x, axes, True, dtype))
    square = unit.map("multiply", centred, centred)
    return (_mean(unit, square, axes, attrs["keepdims"], dtype, attrs["ddof"]),)


def _deviation(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
    return (unit.map("sqrt", _variance(unit, args, attrs, outs)[0]),)


def _logsumexp(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
    (x,) = args
    axes = _axes(x, attrs["axis"])
    top = unit.reduce("max", x, axes, True, x.dtype)
    safe = unit.map("where", unit.map("isfinite", top), top, 0.0)
    raised = unit.map("exp", unit.map("subtract", x, safe))
    total = unit.map("log", unit.reduce("sum", raised, axes, True, x.dtype))
    result = unit.map("add", total, safe)
    return (unit.reshape(result, tuple(outs[0].shape)),)


def _arg(name: str) -> Lower:
    def lower(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
        x = unit.dense(args[0])
        axis = attrs["axis"]
        if x.dtype not in ("float32", "float64"):
            raise NoKernel(f"{name} of {x.dtype}")
        shape = (x.size,) if axis is None else x.shape
        (at,) = axes_of(name, (-1 if axis is None else axis,), len(shape))
        before, behind = _around(shape, at)
        out = unit.fresh(outs[0].shape, "int64")
        less = "<" if name == "argmin" else ">"
        kind = x.stored
        unit.prims.append(
            FunctionCall(
                (out,),
                (x,),
                f"NS_BEST({kind}, {less}, {{o0}}, {{i0}}, {before}, {shape[at]}, {behind});",
                ("best",),
            )
        )
        return (out,)

    return lower


def _around(shape: Sizes, axis: int) -> tuple[int, int]:
    """The numbers of elements before and after an axis."""
    return math.prod(shape[:axis]), math.prod(shape[axis + 1 :])


# Normalisations


def _softmax(unit: Unit, x: Val, axis: int, *, log: bool) -> Val:
    (at,) = axes_of("softmax", (axis,), len(x.shape))
    shifted = unit.map("subtract", x, unit.reduce("max", x, (at,), True, x.dtype))
    raised = unit.map("exp", shifted)
    total = unit.reduce("sum", raised, (at,), True, x.dtype)
    if log:
        return unit.map("subtract", shifted, unit.map("log", total))
    return unit.map("divide", raised, total)


def _softmax_op(log: bool) -> Lower:
    def lower(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
        return (_softmax(unit, args[0], attrs["axis"], log=log),)

    return lower


def _norm(kind: str) -> Lower:
    def lower(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
        x, *params = args
        dtype = outs[0].dtype
        if any(argument.dtype != dtype for argument in args):
            raise NoKernel(f"{kind} of several dtypes")
        shape, rank = x.shape, len(x.shape)
        if kind == "group_norm":
            groups = attrs["groups"]
            work: Sizes = (shape[0], groups, shape[1] // groups, *shape[2:])
            axes = tuple(range(2, rank + 1))
            spread: Sizes = (*work[1:3], *(1,) * (rank - 2))
        elif kind in ("layer_norm", "rms_norm"):
            work, axes = shape, tuple(range(rank - attrs["dims"], rank))
            spread = shape[rank - attrs["dims"] :]
        else:
            work = shape
            axes = (0, *range(2, rank)) if kind == "batch_norm" else tuple(range(2, rank))
            spread = (shape[1], *(1,) * (rank - 2))
        x = unit.reshape(x, work)
        mean, centred = None, x
        if kind != "rms_norm":
            mean = _mean(unit, x, axes, True, dtype)
            centred = unit.map("subtract", x, mean)
        variance = _mean(unit, unit.map("square", centred), axes, True, dtype)
        inverse = unit.map("divide", 1.0, unit.map("sqrt", unit.map("add", variance, attrs["eps"])))
        result = unit.map("multiply", centred, inverse)
        for name, param in zip(("multiply", "add"), params, strict=False):
            result = unit.map(name, result, unit.reshape(param, spread))
        result = unit.reshape(result, shape)
        if kind != "batch_norm":
            return (result,)
        assert mean is not None
        return result, unit.reshape(mean, shape[1:2]), unit.reshape(variance, shape[1:2])

    return lower


def _norm_given(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
    x, mean, variance, *params = args
    if any(argument.dtype != outs[0].dtype for argument in args):
        raise NoKernel("batch_norm_eval of several dtypes")
    column = (mean.shape[0],) + (1,) * (len(x.shape) - 2)
    wide = unit.map("add", unit.reshape(variance, column), attrs["eps"])
    inverse = unit.map("divide", 1.0, unit.map("sqrt", wide))
    if params:
        inverse = unit.map("multiply", inverse, unit.reshape(params[0], column))
    centred = unit.map("subtract", x, unit.reshape(mean, column))
    result = unit.map("multiply", centred, inverse)
    if len(params) > 1:
        result = unit.map("add", result, unit.reshape(params[1], column))
    return (result,)


# Losses


def _mse(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
    difference = unit.map("subtract", *args)
    square = unit.map("square", difference)
    all_axes = tuple(range(len(square.shape)))
    return (_mean(unit, square, all_axes, False, outs[0].dtype),)


def _classes(name: str) -> Lower:
    def lower(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
        scores, labels = args
        dtype = scores.dtype
        smoothing = attrs.get("label_smoothing", 0.0)
        if attrs.get("ignore_index") is not None:
            raise NoKernel(f"{name} with ignored labels")
        logs = _softmax(unit, scores, 1, log=True) if name == "cross_entropy" else scores
        if labels.dtype.startswith("float"):
            if labels.dtype != dtype:
                raise NoKernel(f"{name} of several dtypes")
            kept = unit.map("multiply", labels, 1.0 - smoothing)
            weights = unit.map("add", kept, smoothing / scores.shape[1])
            along = unit.map("multiply", weights, logs)
            losses = unit.map("negative", unit.reduce("sum", along, (1,), False, dtype))
        else:
            index = unit.reshape(labels, (labels.shape[0], 1, *labels.shape[1:]))
            picked = layouts.along(unit, unit.dense(logs), index, 1, name)
            picked = unit.reshape(picked, labels.shape)
            if smoothing:
                even = _mean(unit, logs, (1,), False, dtype)
                picked = unit.map("add", unit.map("multiply", picked, 1.0 - smoothing),
                                  unit.map("multiply", even, smoothing))  # fmt: skip
            losses = unit.map("negative", picked)
        reduction = attrs.get("reduction", "mean")
        if reduction == "none":
            return (losses,)
        all_axes = tuple(range(len(losses.shape)))
        if reduction == "sum":
            return (unit.reduce("sum", losses, all_axes, False, dtype),)
        return (_mean(unit, losses, all_axes, False, dtype),)

    return lower


def _like(value: float) -> Lower:
    def lower(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
        return (unit.fill(tuple(outs[0].shape), value, outs[0].dtype),)

    return lower


def _prelu(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
    x, weight = args
    if weight.shape not in ((), (1,)):
        weight = unit.reshape(weight, (weight.shape[0],) + (1,) * (len(x.shape) - 2))
    else:
        weight = unit.reshape(weight, ())
    below = unit.map("multiply", x, weight)
    return (unit.map("where", unit.map("greater", x, 0), x, below),)


def _elements(name: str) -> Lower:
    """Elementwise losses whose formulas contain other ops."""

    def lower(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
        if any(
            not isinstance(argument, Val) or argument.dtype != outs[0].dtype for argument in args
        ):
            raise NoKernel(f"{name} of several dtypes")
        a, b = args
        m: Callable[..., Val] = unit.map
        if name == "bce_with_logits":
            return (m("subtract", m("logaddexp", a, 0.0), m("multiply", a, b)),)
        delta: Arg = attrs.get("delta", 1.0)
        size = m("abs", m("subtract", a, b))
        inside = m("multiply", m("square", size), 0.5)
        outside = m("multiply", m("subtract", size, 0.5 * delta), delta)  # type: ignore[operator]
        return (m("where", m("less_equal", size, delta), inside, outside),)

    return lower


def _same(position: int) -> Lower:
    """Ops that return their input: outputs get their own memory anyway."""

    def lower(unit: Unit, args: Any, attrs: Any, outs: Any) -> Sequence[Val]:
        return (unit.cast(args[position], outs[0].dtype),)

    return lower


TABLE: dict[str, Lower] = {
    "assign": _same(1),
    "copy": _same(0),
    "read": _same(0),
    **{name: _reduction(name) for name in ("sum", "prod", "max", "min", "any", "all")},
    "mean": _mean_op,
    "var": _variance,
    "std": _deviation,
    "logsumexp": _logsumexp,
    "argmax": _arg("argmax"),
    "argmin": _arg("argmin"),
    "softmax": _softmax_op(False),
    "log_softmax": _softmax_op(True),
    **{name: _norm(name) for name in ("layer_norm", "rms_norm", "batch_norm", "group_norm",
                                      "instance_norm")},
    "batch_norm_eval": _norm_given,
    "mse": _mse,
    "cross_entropy": _classes("cross_entropy"),
    "nll_loss": _classes("nll_loss"),
    "huber": _elements("huber"),
    "bce_with_logits": _elements("bce_with_logits"),
    "prelu": _prelu,
    "zeros_like": _like(0),
    "ones_like": _like(1),
    **layouts.TABLE,
    **products.TABLE,
    **windows.TABLE,
}  # fmt: skip

"""Makers of random graphs: one function per kind of node, in a table with weights.

Invariant: a maker adds nodes that fit the graph, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nodescope import ops
from nodescope.ops.calls import Scalar
from nodescope.ops.index import Port
from nodescope.ops.op import Op
from tests.conformance.graphs.arrays import DTYPES, FLOATS, content, laid_out
from tests.conformance.graphs.making import Making

Maker = Callable[[Making], Any]

SCALARS: tuple[Any, ...] = (
    0.0, -0.0, 1.0, 1, 2.0, 2, 0.5, -1.0, 0, 3, True, float("inf"), float("nan"), -0.7, 1e-30, 1e20,
)  # fmt: skip
_ATTRS = {"clip", "round", "nan_to_num", "isclose", "choose", "keep", "gelu", "where"}
_REAL = {"real", "imag", "conjugate"}


def _elementwise(ports: int) -> tuple[str, ...]:
    return tuple(
        op.name
        for op in ops.all_ops()
        if op.elementwise
        and op.family in ("elementwise", "activation")
        and len(op.ports) == ports
        and op.name not in _ATTRS
        and op.name not in _REAL
    )


UNARY = _elementwise(1)
BINARY = _elementwise(2)
USUAL_UNARY = (
    "negative", "tanh", "relu", "exp", "square", "sqrt", "abs", "sigmoid", "log", "reciprocal",
    "sin", "isnan", "logical_not", "sign", "floor", "positive", "copy",
)  # fmt: skip
USUAL_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "greater",
                "equal", "logical_and", "less_equal", "not_equal")  # fmt: skip


def pick(m: Making, able: Callable[[Any], bool] = lambda spec: True) -> int | None:
    """A value whose spec fulfils a condition, mostly a recent one."""
    results = [item for item in m.pool if able(m.spec(item))]
    if not results:
        return None
    if m.choices.chance(50):
        return results[-1 - m.choices.integer(0, min(2, len(results) - 1))]
    return m.choices.one_of(results)


def _floating(spec: Any) -> bool:
    return np.dtype(spec.dtype).kind == "f"


def _with_axes(spec: Any) -> bool:
    return len(spec.shape) > 0


def fitting(m: Making, value: int) -> int:
    """A value that broadcasts with another, possibly that value itself."""
    shape = m.spec(value).shape

    def broadcasts(spec: Any) -> bool:
        try:
            np.broadcast_shapes(shape, spec.shape)
        except ValueError:
            return False
        return True

    result = pick(m, broadcasts)
    return value if result is None else result


def fresh(m: Making, shape: Sequence[int], dtype: str) -> int:
    """A new input or constant of some shape, in some layout."""
    array = content(tuple(shape), dtype, m.choices, wild=m.wild)
    if m.choices.chance(35):
        return m.constant(np.ascontiguousarray(array).reshape(array.shape))
    op = m.choices.one_of(("placeholder", "parameter", "tensor"))
    return m.input(laid_out(array, m.choices), op=op)


def partner(m: Making, shape: tuple[int, ...], dtype: str) -> int:
    """A new value that broadcasts with a shape, in a random way."""
    kept = list(shape[m.choices.integer(0, len(shape)) :]) if m.choices.chance(40) else list(shape)
    new = [1 if m.choices.chance(25) else n for n in kept]
    if m.choices.chance(5):
        new = [m.choices.integer(1, 2), *([1] * (len(shape) - len(new))), *new]
    return fresh(m, new, dtype)


def unary(m: Making) -> Any:
    x = pick(m)
    table = USUAL_UNARY if m.choices.chance(60) else UNARY
    return x and m.node(m.choices.one_of(table), (x,))


def binary(m: Making) -> Any:
    x = pick(m)
    if x is None:
        return None
    how = m.choices.integer(0, 9)
    other: Any
    if how < 4:
        other = fitting(m, x)
    elif how < 7:
        other = Scalar(m.choices.one_of(SCALARS))
    else:
        dtype = m.spec(x).dtype if m.choices.chance(70) else m.choices.one_of(DTYPES)
        other = partner(m, m.spec(x).shape, dtype)
    operands = (other, x) if m.choices.chance(35) else (x, other)
    table = USUAL_BINARY if m.choices.chance(70) else BINARY
    return m.node(m.choices.one_of(table), operands)


def choose(m: Making) -> Any:
    x = pick(m)
    if x is None:
        return None
    condition = pick(m, lambda spec: spec.dtype == "bool")
    if condition is None or m.choices.chance(30):
        condition = m.one("greater", (x, Scalar(0.0)))
    other: Any = Scalar(m.choices.one_of(SCALARS)) if m.choices.chance(50) else fitting(m, x)
    operands = (x, other) if m.choices.chance(50) else (other, x)
    return condition and m.node("where", (condition, *operands))


def clip(m: Making) -> Any:
    x = pick(m)
    low, high = m.choices.one_of(((-0.5, 0.5), (None, 0.3), (0.0, None), (0, 3), (-0.0, 1)))
    return x and m.one("clip", (x,), low=low, high=high)


def axis_of(m: Making, ndim: int) -> Any:
    """None, one axis or several axes, counted from the front or the back."""
    how = m.choices.integer(0, 4)
    if not ndim or how == 0:
        return None
    if how < 3:
        return m.choices.integer(-ndim, ndim - 1)
    axes = m.choices.shuffled(range(ndim))[: m.choices.integer(1, ndim)]
    return tuple(axis - ndim if m.choices.chance(30) else axis for axis in axes)


def reduce(m: Making) -> Any:
    x = pick(m)
    if x is None:
        return None
    op = m.choices.one_of(("sum", "mean", "max", "min", "sum", "max", "prod", "var", "std", "any",
                           "all", "logsumexp"))  # fmt: skip
    attrs = {"axis": axis_of(m, len(m.spec(x).shape)), "keepdims": m.choices.chance(50)}
    if op in ("var", "std"):
        attrs["ddof"] = m.choices.integer(0, 1)
    return m.node(op, (x,), attrs)


def arg_extreme(m: Making) -> Any:
    x = pick(m, _with_axes)
    if x is None:
        return None
    axis = axis_of(m, len(m.spec(x).shape))
    axis = axis if isinstance(axis, int) else None
    op = m.choices.one_of(("argmax", "argmin"))
    return m.one(op, (x,), axis=axis, keepdims=m.choices.chance(30))


def cumulative(m: Making) -> Any:
    x = pick(m, _with_axes)
    axis = x and m.choices.integer(-len(m.spec(x).shape), len(m.spec(x).shape) - 1)
    op = m.choices.one_of(("cumsum", "cumprod", "cummax", "cummin"))
    return x and m.one(op, (x,), axis=axis)


def normalise(m: Making) -> Any:
    x = pick(m, lambda spec: _with_axes(spec) and _floating(spec))
    if x is None:
        return None
    spec = m.spec(x)
    if m.choices.chance(60):
        axis = m.choices.integer(-len(spec.shape), len(spec.shape) - 1)
        return m.one(m.choices.one_of(("softmax", "log_softmax")), (x,), axis=axis)
    dims = m.choices.integer(1, len(spec.shape))
    parameters = [fresh(m, spec.shape[-dims:], spec.dtype) for _ in range(m.choices.integer(0, 2))]
    return m.one(
        m.choices.one_of(("layer_norm", "rms_norm")), (x, *parameters[:2]), eps=1e-5, dims=dims
    )


def gelu(m: Making) -> Any:
    x = pick(m, _floating)
    return x and m.one("gelu", (x,), approximate=m.choices.one_of(("tanh", "none")))


def reshape(m: Making) -> Any:
    x = pick(m)
    if x is None:
        return None
    size = int(np.prod(m.spec(x).shape))
    parts = [size]
    for divisor in (2, 3, 4):
        if parts[-1] and parts[-1] % divisor == 0 and m.choices.chance(50):
            parts[-1:] = [parts[-1] // divisor, divisor]
    parts = m.choices.shuffled(parts)
    if m.choices.chance(30):
        parts.insert(m.choices.integer(0, len(parts)), 1)
    if size and m.choices.chance(30):
        parts[m.choices.integer(0, len(parts) - 1)] = -1
    if size == 1 and m.choices.chance(50):
        parts = []
    return m.one("reshape", (x,), shape=tuple(parts))


def transpose(m: Making) -> Any:
    x = pick(m, _with_axes)
    if x is None:
        return None
    ndim = len(m.spec(x).shape)
    axes = m.choices.shuffled(range(ndim))
    axes = [axis - ndim if m.choices.chance(20) else axis for axis in axes]
    return m.one("transpose", (x,), axes=None if m.choices.chance(30) else tuple(axes))


def spread(m: Making) -> Any:
    x = pick(m, lambda spec: len(spec.shape) < 4)
    if x is None:
        return None
    shape = m.spec(x).shape
    how = m.choices.integer(0, 3)
    if how == 0:
        return m.one("expand_dims", (x,), axis=m.choices.integer(-len(shape) - 1, len(shape)))
    if how == 1:
        return m.one("squeeze", (x,), axis=None)
    wide = [m.choices.integer(0, 3) if n == 1 and m.choices.chance(70) else n for n in shape]
    lead = [m.choices.integer(1, 3)] * m.choices.integer(0, 1)
    return m.one("broadcast_to", (x,), shape=(*lead, *wide))


def shuffle(m: Making) -> Any:
    x = pick(m, _with_axes)
    if x is None:
        return None
    axis = m.choices.integer(0, len(m.spec(x).shape) - 1)
    how = m.choices.integer(0, 3)
    if how == 0:
        return m.one("flip", (x,), axis=axis if m.choices.chance(70) else None)
    if how == 1:
        return m.node("concatenate", (x, x, x)[: m.choices.integer(1, 3)], {"axis": axis})
    if how == 2:
        return m.node("stack", (x, fitting(m, x)), {"axis": axis})
    pair = fitting(m, x)
    return m.node("concatenate", (x, pair), {"axis": axis - len(m.spec(x).shape)})


def convert(m: Making) -> Any:
    x = pick(m)
    if x is None:
        return None
    result = m.one("astype", (x,), dtype=m.choices.one_of((*DTYPES, "float16", "int8")))
    if result and m.choices.chance(50):
        return m.one("astype", (result,), dtype=m.choices.one_of((m.spec(x).dtype, *FLOATS)))
    return result


def _basic_index(m: Making, shape: tuple[int, ...]) -> tuple[Any, ...]:
    index: list[Any] = []
    for n in shape[: m.choices.integer(1, len(shape))]:
        how = m.choices.integer(0, 3)
        if how == 0 and n:
            index.append(m.choices.integer(-n, n - 1))
        elif how == 1:
            index.append(slice(None))
        else:
            step = m.choices.one_of((None, 1, 2, -1, -2))
            ends = [None, m.choices.integer(-n - 1, n + 1)]
            index.append(slice(m.choices.one_of(ends), m.choices.one_of(ends), step))
    if m.choices.chance(15):
        index.append(...)
    if m.choices.chance(15):
        index.insert(m.choices.integer(0, len(index)), None)
    return tuple(index)


def take(m: Making) -> Any:
    x = pick(m, lambda spec: _with_axes(spec) and 0 not in spec.shape)
    if x is None:
        return None
    shape = m.spec(x).shape
    if m.choices.chance(55):
        return m.node("getitem", (x,), {"index": _basic_index(m, shape)})
    rng = m.choices.numbers()
    size = tuple(m.choices.integer(1, 3) for _ in range(m.choices.integer(1, 2)))
    axis = m.choices.integer(0, len(shape) - 1)
    if m.choices.chance(25):
        at = m.constant(rng.integers(0, shape[axis], (*shape[:axis], 2, *shape[axis + 1 :])))
        return m.one("take_along_axis", (x, at), axis=axis)
    numbers = rng.integers(-shape[axis], shape[axis], size)
    at = m.constant(numbers) if m.choices.chance(50) else m.input(numbers)
    index = (*(slice(None),) * axis, Port(0))
    result = m.node("getitem", (x, at), {"index": index})
    if result and m.choices.chance(50):
        return m.node("index_add", (result[0], at), {"index": index, "shape": shape})
    return result


def put(m: Making) -> Any:
    x = pick(m, _floating)
    if x is None:
        return None
    shape = m.spec(x).shape
    after = m.choices.integer(0, 2)
    index = (*(slice(None),) * len(shape), slice(0, 1)) if after == 0 else None
    if index is not None:
        column = m.one("expand_dims", (x,), axis=len(shape))
        return column and m.node(
            "index_add", (column,), {"index": index, "shape": (*shape, 1 + m.choices.integer(0, 1))}
        )
    return m.node("index_add", (x,), {"index": (after - 1,), "shape": (after, *shape)})


def product(m: Making) -> Any:
    x = pick(m, lambda spec: _with_axes(spec) and np.dtype(spec.dtype).kind in "fi")
    if x is None:
        return None
    spec = m.spec(x)
    inner, rows = spec.shape[-1], m.choices.integer(1, 5)
    how = m.choices.integer(0, 6)
    y: Any
    if how == 0:
        y = fresh(m, (inner,), spec.dtype)
    elif how == 1 and len(spec.shape) > 1:
        y = m.one("transpose", (x,), axes=(*range(len(spec.shape) - 2), -1, -2))
    elif how == 2:
        y = m.one("transpose", (fresh(m, (rows, inner), spec.dtype),), axes=None)
    elif how == 3 and len(spec.shape) > 2:
        y = fresh(m, (*spec.shape[:-2], inner, rows), spec.dtype)
    elif how == 4:
        y = fresh(m, (2, inner, rows), m.choices.one_of(FLOATS))
    else:
        y = fresh(m, (inner, rows), spec.dtype)
    result = y and m.one("matmul", (x, y))
    if result and m.choices.chance(40):
        shape = m.spec(result).shape
        result = m.one("add", (result, fresh(m, shape[-1:], spec.dtype)))
        if result and m.choices.chance(60):
            result = m.one("relu", (result,))
    return result


_NOT_SAMPLED = ("leaf", "kernel", "random")
_NO = {"send", "receive", "no_op", "signbit", "copysign", "nextafter", "spacing", "frexp"}
SAMPLED: tuple[Op, ...] = tuple(
    op for op in ops.all_ops() if op.family not in _NOT_SAMPLED and op.name not in _NO
)


def sampled(m: Making) -> Any:
    """Any op on one of its samples: convolutions, loops, branches, factorisations and so on."""
    op = m.choices.one_of(SAMPLED)
    calls = list(op.samples(m.choices.numbers()))
    if not calls:
        return None
    call = m.choices.one_of(calls)
    if any(isinstance(x, np.ndarray) and x.size > 512 for x in call.inputs):
        return None
    small = m.choices.chance(40) and op.family not in ("control", "update")
    parameters: list[Any] = []
    for x in call.inputs:
        if not isinstance(x, np.ndarray | np.generic):
            parameters.append(Scalar(x))
            continue
        array = np.asarray(x)
        array = array.astype("float32") if small and array.dtype == "float64" else array
        constant = m.choices.chance(30)
        parameters.append(m.constant(array) if constant else m.input(laid_out(array, m.choices)))
    control = () if m.choices.chance(80) or not m.nodes else (m.choices.one_of(m.nodes).id,)
    return m.node(op.name, parameters, call.attrs, control=control)

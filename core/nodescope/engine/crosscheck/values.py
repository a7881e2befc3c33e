"""Every value of a graph, and whether two are the same.

Invariant: NumPy's floating-point warnings are suppressed; feeds are not changed.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nodescope.ir.graph import Graph
from nodescope.ops.calls import Scalar
from nodescope.ops.fused import run_body
from nodescope.ops.op import Array
from nodescope.ops.plan import Plan


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress NumPy's warnings about NaN, overflow and division by zero."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def every_value(
    graph: Graph,
    arrays: Mapping[int, Array],
    feeds: Sequence[Any],
    moved: Callable[[int, Array], Array] = lambda value, array: array,
) -> tuple[list[Any], dict[int, Any]]:
    """The outputs, and every value by id: of all nodes, needed or not, and inside kernels.

    Args:
        graph: The graph to run.
        arrays: Its constants.
        feeds: Its inputs.
        moved: Returns a replacement for a node's result, given the value's id.
    """
    plan = Plan(graph, arrays, also=[node.id for node in graph.nodes])
    values: dict[int, Any] = dict(plan.constants)
    values.update(zip(graph.inputs, feeds, strict=True))
    inside: dict[int, Any] = {}
    with quiet():
        for call in plan.calls:
            operands = [a.value if isinstance(a, Scalar) else values[a] for a in call.args]
            if call.node.op == "fused":
                result: Any = run_body(call.attrs["body"], tuple(operands), inside.__setitem__)
            else:
                result = call.op.impl(*operands, **call.attrs)
            result = result if isinstance(result, tuple) else (result,)
            for value, item in zip(call.node.outputs, map(np.asarray, result), strict=True):
                values[value] = moved(value, item)
    outputs = [values[v] for v in graph.outputs]
    return outputs, {**inside, **values}


def same(result: Any, expected: Any) -> bool:
    """Whether two arrays have one dtype, one shape and the same bits.

    The sign of a zero counts; of a NaN, neither sign nor payload do.
    """
    return (
        isinstance(result, np.ndarray)
        and result.dtype == expected.dtype
        and result.shape == expected.shape
        and np.array_equal(_bits(result), _bits(expected))
    )


def _bits(x: Any) -> Any:
    """Numbers that are equal if the bits are; all NaN are equal."""
    if x.dtype.kind == "c":
        return _bits(np.ascontiguousarray(x).reshape(-1).view(x.real.dtype))
    if x.dtype.kind == "V" and x.dtype.fields is None:  # bfloat16 and its like
        return _bits(x.astype(np.float32))
    if x.dtype.kind != "f":
        return x
    if x.dtype.itemsize > 8:
        return np.stack([np.where(np.isnan(x), 0, x), np.where(np.isnan(x), 2, np.signbit(x))])
    flat = np.ascontiguousarray(x)
    integers = flat.view(f"i{x.dtype.itemsize}")
    return np.where(np.isnan(flat), -1, integers)  # -1 is a NaN, too

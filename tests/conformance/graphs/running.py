"""Running a graph node by node, keeping every value.

Invariant: what NumPy warns of is as it may be; feeds are not changed.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nodescope.ir.graph import Graph
from nodescope.ops.calls import Scalar
from nodescope.ops.fused import run_body
from nodescope.ops.plan import Plan
from tests.conformance.graphs.making import Case

Array = np.ndarray[Any, Any]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without NumPy's warnings about NaN, overflow and division by zero."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def every_value(
    graph: Graph,
    arrays: Mapping[int, Array],
    feeds: Sequence[Any],
    moved: Callable[[int, Array], Array] = lambda value, array: array,
) -> tuple[list[Any], dict[int, Any]]:
    """The outputs, and each value by id: of every node, needed or not, and inside of kernels.

    Args:
        graph: What is run.
        arrays: Its constants.
        feeds: For its inputs.
        moved: Gives another array for what a node gave, by the value's id.
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


class Traced:
    """What a case gives as it was traced: computed once, when first asked for."""

    def __init__(self, case: Case) -> None:
        self.case = case
        before = [np.array(feed, copy=True) for feed in case.feeds]
        with quiet():
            self.outputs = Plan(case.graph, case.arrays).run(case.feeds)
        self.before = before

    @functools.cached_property
    def values(self) -> dict[int, Any]:
        return every_value(self.case.graph, self.case.arrays, self.case.feeds)[1]

"""The op ``scan``: a body run along the leading dimension, and its derivative.

Inputs are the carries, the columns (iterated over), and values that the body takes from outside.
Outputs are the last carries, the stacked results, and stacked values that only the derivative
needs.

Invariant: the derivative runs in the opposite direction over the same values; nothing in it is
computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from nodescope.emit.scopes import name_scope
from nodescope.engine import dispatch_mode
from nodescope.engine.autodiff.tape import TRACED
from nodescope.engine.building import Builder
from nodescope.engine.control.body import evaluate, finished, graph_of
from nodescope.engine.control.derivative import pullback
from nodescope.engine.run import apply
from nodescope.engine.state import current
from nodescope.engine.tensor import SMOOTH, Tensor
from nodescope.errors import GradientError
from nodescope.ir.attrs import Attribute, named, unpack_graph
from nodescope.ir.graph import Graph
from nodescope.ops.control import Rules, give_rules
from nodescope.ops.op import Sample


@named
class Reverse(Attribute, frozen=True, eq=False):
    """The derivative of a scan.

    Attributes:
        body: A body to scan in the opposite direction. Carries: cotangents of the smooth carries,
            sums for the reached inputs from outside. Columns: cotangents of the smooth results, the
            columns used, the kept values. Results: cotangents of the reached columns.
        carries: Positions of the smooth carries.
        sums: Positions, among all inputs, of the reached ones from outside.
        results: Positions, among all outputs, of the smooth results.
        columns: Positions, among all inputs, of the columns used.
        around: Positions, among all inputs, of the used ones from outside.
        reached: Positions, among all inputs, of the columns that get a cotangent.
    """

    body: Graph
    carries: tuple[int, ...]
    sums: tuple[int, ...]
    results: tuple[int, ...]
    columns: tuple[int, ...]
    around: tuple[int, ...]
    reached: tuple[int, ...]

    def value(self) -> Reverse:
        """Convert the attributes of the body's nodes to the form that their ops expect; return the
        derivative.
        """
        unpack_graph(self.body)
        return self


def record_scan(
    body: Graph, inputs: Sequence[Any], *, carries: int, columns: int, length: int, reverse: bool
) -> tuple[Tensor, ...]:
    """Apply ``scan``; if a gradient may be needed, keep the values that it needs."""
    attrs: dict[str, Any] = {
        "body": body, "carries": carries, "columns": columns, "length": length, "reverse": reverse,
        "kept": 0, "derivative": None,
    }  # fmt: skip
    tracked = [value.__class__ is Tensor and value.edge is not None for value in inputs]
    if any(tracked) and current().recording:
        try:
            attrs = _keeping(attrs, inputs)
        except GradientError:
            pass  # its body has no derivative, which matters only if one is requested
    return apply(SCAN, tuple(inputs), attrs)  # type: ignore[return-value]


def _keeping(attrs: dict[str, Any], inputs: Sequence[Any]) -> dict[str, Any]:
    """The attributes of a scan that also returns the values that its derivative needs."""
    body: Graph = attrs["body"]
    carries, columns = attrs["carries"], attrs["columns"]
    differentiable = [
        value.dtype.kind in SMOOTH and (i < carries or getattr(value, "edge", True) is not None)
        for i, value in enumerate(inputs)
    ]
    split = pullback(body, differentiable)
    position = {value: i for i, value in enumerate(split.forward.inputs)}
    kept_positions = {
        value: position[value] for value in split.handed if position.get(value, -1) >= carries
    }
    kept = tuple(value for value in split.handed if value not in kept_positions)
    along = tuple(p for p in kept_positions.values() if p < carries + columns)
    around = tuple(p for p in kept_positions.values() if p >= carries + columns)
    smooth_carries = tuple(i for i in split.smooth if i < carries)
    results = tuple(i for i in split.smooth if i >= carries)
    sums = tuple(i for i in split.reached if i >= carries + columns)
    reached = tuple(i for i in split.reached if carries <= i < carries + columns)

    specs = {value.id: value.tensor for value in split.forward.values}
    outputs, ins = split.forward.outputs, split.forward.inputs
    builder = Builder("static")
    with dispatch_mode.building(builder):
        cts = {i: builder.placeholder(specs[outputs[i]], "cotangent") for i in smooth_carries}
        totals = {i: builder.placeholder(specs[ins[i]], "sum") for i in sums}
        cts |= {i: builder.placeholder(specs[outputs[i]], "cotangent") for i in results}
        values = {ins[i]: builder.placeholder(specs[ins[i]], "column") for i in along}
        values |= {value: builder.placeholder(specs[value], "kept") for value in kept}
        values |= {ins[i]: builder.placeholder(specs[ins[i]], "around") for i in around}
        gradients = dict(zip(
            split.reached,
            evaluate(split.backward,
                     [*(values[value] for value in split.handed), *(cts[i] for i in split.smooth)]),
            strict=True,
        ))  # fmt: skip
        after = [
            gradients[i] if i in gradients else TRACED.zeros_like(cts[i]) for i in smooth_carries
        ]
        after += [TRACED.add(totals[i], gradients[i]) for i in sums]
        after += [gradients[i] for i in reached]
        ends = [builder.value_of(tensor) for tensor in after]
    derivative = Reverse(
        finished(builder, ends), smooth_carries, sums, results, along, around, reached
    )
    forward = msgspec.structs.replace(split.forward, outputs=(*outputs, *kept))
    return {**attrs, "body": forward, "kept": len(kept), "derivative": derivative}


def _inline(inputs: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Tensor, ...]:
    if dispatch_mode.builder() is not None or attrs["length"] == 0:
        return apply(SCAN, inputs, attrs)  # type: ignore[return-value]
    carries, columns, length = attrs["carries"], attrs["columns"], attrs["length"]
    carry = list(inputs[:carries])
    along, around = inputs[carries : carries + columns], inputs[carries + columns :]
    rows = []
    for i in reversed(range(length)) if attrs["reverse"] else range(length):
        with name_scope("scan"):
            x = [column[i] for column in along]
            results = evaluate(attrs["body"], (*carry, *x, *around))
        carry = results[:carries]
        rows.append(results[carries:])
    if attrs["reverse"]:
        rows.reverse()
    with name_scope("scan"):
        return (*carry, *(np.stack(rows_of_output) for rows_of_output in zip(*rows, strict=True)))


def _vjp(F: Any, ct: Any, out: Any, *inputs: Any, **attrs: Any) -> list[Any]:
    known = attrs["derivative"] is not None
    attrs = attrs if known else _keeping(attrs, inputs)
    if not known or (F is TRACED and current().recording):
        # Run the scan again: to keep values that were not kept or, for a second derivative, with
        # the kept values as ordinary results, through which gradients flow.
        out = F.scan(*inputs, **{**attrs, "kept": 0, "derivative": None})
    how: Reverse = attrs["derivative"]
    first = len(out) - attrs["kept"]
    gradients = F.scan(
        *(ct[i] for i in how.carries),
        *(F.zeros_like(inputs[i]) for i in how.sums),
        *(ct[i] for i in how.results),
        *(inputs[i] for i in how.columns),
        *out[first:],
        *(inputs[i] for i in how.around),
        body=how.body,
        carries=len(how.carries) + len(how.sums),
        columns=len(how.results) + len(how.columns) + attrs["kept"],
        length=attrs["length"],
        reverse=not attrs["reverse"],
        kept=0,
        derivative=None,
    )
    cts: list[Any] = [None] * len(inputs)
    for i, gradient in zip((*how.carries, *how.sums, *how.reached), gradients, strict=True):
        cts[i] = gradient
    return cts


def _samples(rng: np.random.Generator) -> list[Sample]:
    h, x, w = rng.standard_normal(3), rng.standard_normal((4, 3)), rng.standard_normal((3, 3))
    body = graph_of(lambda h, x, w: ((new := np.tanh(h @ w + x)), new * x), h, x[0], w)
    attrs = {
        "body": body, "carries": 1, "columns": 1, "length": 4, "reverse": False, "kept": 0,
        "derivative": None,
    }  # fmt: skip
    backwards = {**attrs, "reverse": True}
    return [
        Sample((h, x, w), attrs),
        Sample((h, x, w), backwards),
        Sample((h, x[:0], w), {**attrs, "length": 0}),
    ]


SCAN = give_rules("scan", Rules(_vjp, _inline, _samples))

"""Updates that are too small for the dtype: a + b equals a although b is not zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import MissingData, ObservedContent, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Need,
    Rule,
    Settings,
    count,
    needs_steps,
    per_value,
)
from nodescope.events import Array
from nodescope.ir.graph import Node
from nodescope.record.summary import TensorSummary

_WRITES: Final = frozenset({"assign", "assign_add", "assign_sub"})
_OPS: Final = frozenset({"add", "subtract"}) | _WRITES
_NEEDS: Final[frozenset[Need]] = frozenset({"summary", "inputs", "history"})
_BITS: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


# Below this share of an optimizer's largest change, a change is rounding noise.
_NOISE: Final = 1e-5
_ONE_WAY: Final = 0.8  # least ratio of the sum of means to the sum of their magnitudes


def _begin(settings: Settings) -> Look:
    """Each value has its own state; the optimizer's largest change is shared."""
    largest = [0.0]
    return per_value(lambda settings: _begin_value(settings, largest))(settings)


def _begin_value(settings: Settings, largest: list[float]) -> Look:
    first, later = settings["first"], settings["later"]
    seen = lost = 0
    moved = wide = False
    way = [0.0, 0.0]  # over lost updates: sum of their means, and of the means' magnitudes

    def look(sight: Sight) -> Finding | None:
        nonlocal seen, lost, moved, wide
        if moved and wide:
            return None  # later lost updates are a sign of convergence
        bits = _BITS.get(sight.spec.dtype, 0)
        wide = bits > _BITS["float16"]
        if not bits:
            return None
        change = _change(sight)
        if not change:
            return None  # the update is zero, as in the first step of a warm-up
        if sight.phase == "optimizer":
            largest[0] = max(largest[0], change)
            if change <= _NOISE * largest[0]:
                return None  # the gradient's terms cancel, as for a bias before a norm
        seen += 1
        absorbed = _same(sight.summary, sight.inputs[0].summary)
        lost = lost + 1 if absorbed else 0
        mean = _mean(sight)
        way[:] = (way[0] + mean, way[1] + abs(mean)) if absorbed else (0.0, 0.0)
        moved = moved or not absorbed
        if moved and (wide or lost < later):
            return None
        if moved and abs(way[0]) < _ONE_WAY * way[1]:
            return None  # updates that cancel belong to a weight that has converged
        if not moved and lost < first:
            raise needs_steps(first, seen)
        size = sight.summary.max or 0.0
        low = max(abs(size), abs(sight.summary.min or 0.0))
        return Finding(
            f"{lost} updates in a row changed no element, although they are not zero: the last is "
            f"at most {change:.3g}, and {sight.spec.dtype} numbers near {low:.3g} are "
            f"{_spacing(low, bits):.3g} apart; use a wider dtype, or make larger steps",
            {"updates": lost, "largest": change},
        )

    return look


def _mean(sight: Sight) -> float:
    """The mean of the update; 0 if unknown."""
    inputs = sight.inputs
    mean = inputs[1].summary.mean if len(inputs) > 1 and sight.node.op != "assign" else 0.0
    return mean if mean is not None and math.isfinite(mean) else 0.0


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node's result is kept for the next step."""
    if node.phase == "backward":
        return False
    held = graph.maker(graph.held_in(node.outputs[0])) if node.writes else None
    writes = node.op in _WRITES or (held is not None and held.role in ("parameter", "buffer"))
    return writes or graph.updates(node)


def _change(sight: Sight) -> float:
    """The largest magnitude of the update, or of the change by an ``assign``; else 0."""
    inputs = sight.inputs
    if sight.node.op == "assign":
        return _difference(inputs) if len(inputs) > 1 else 0.0
    if not inputs or inputs[0].summary.nan_count or inputs[0].summary.inf_count:
        return 0.0
    if len(inputs) > 1:
        other = inputs[1].summary
        if other.nan_count or other.inf_count or other.max is None or other.min is None:
            return 0.0
        return max(abs(other.max), abs(other.min))
    number = sight.attrs.get("x2", 0.0)
    return abs(float(number)) if isinstance(number, int | float | np.number) else 0.0


def _spacing(size: float, bits: int) -> float:
    """The spacing of a dtype's numbers near ``size``, by the bits of its significand."""
    return math.ldexp(1.0, math.frexp(size)[1] - bits)


def _difference(inputs: tuple[ObservedContent, ...]) -> float:
    old, new = inputs[0].summary, inputs[1].summary
    if old.spec.dtype == new.spec.dtype or _same(old, new):
        return 0.0  # nothing is rounded
    try:
        apart = np.abs(inputs[0].array.astype(np.float64) - inputs[1].array.astype(np.float64))
    except (MissingData, ValueError):
        return 0.0
    return float(apart.max(initial=0.0))


def _same(one: TensorSummary, other: TensorSummary) -> bool:
    """Whether the statistics of two values are equal, so that their elements almost surely are."""
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("min", "max", "mean", "std", "norm", "zero_count", "preview")
    )


def _half(*numbers: float) -> Array:
    return np.array(numbers, np.float16)


_STUCK = (_half(1.0, 2.0), _half(1.0, 2.0), [1.0001, 2.0001])
_MOVED = (_half(1.0, 2.002), _half(1.0, 2.0), [1.0001, 2.002])


def _suits(nodes: Sequence[Node]) -> str:
    updates = [node for node in nodes if node.phase != "backward"]
    writes = [node.name for node in updates if node.writes]
    if writes:
        return f"{writes[0]} writes updates, which may be too small for the dtype"
    carried = [
        node.name for node in updates if node.op in _OPS and {*node.inputs} & {*node.outputs}
    ]
    return (
        f"{carried[0]} adds to its result of the previous step, perhaps too little for the dtype"
        if carried
        else ""
    )


register(
    Rule(
        "update_without_effect",
        "updates in a row change no element although they are not zero: too small for the dtype",
        _begin,
        ops=_OPS,
        needs=_NEEDS,
        parameters=(
            count("first", 5, "consecutive updates from the first one on", low=1, unit="steps"),
            count("later", 40, 
                "consecutive updates later on, in 16-bit dtypes", low=1, unit="steps"),
        ),
        suits=_suits,
        concerns=_concerns,
        examples=(
            Example([_STUCK] * 6, (5, 6), ops={"x": "assign"}),
            Example([_MOVED, *[_STUCK] * 6], (5, 6, 7), {"later": 4}, {"x": "assign"}),
            Example([_MOVED, *[_STUCK] * 6], (), ops={"x": "assign"}),
            Example([([1.0], [1.0], [1.0])] * 8, (), ops={"x": "assign"},
                    about="it is written as it was"),
        ),
    )
)  # fmt: skip

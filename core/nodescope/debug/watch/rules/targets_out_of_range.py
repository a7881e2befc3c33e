"""Targets that no prediction can reach: negative ones under a ReLU, above 1 under a sigmoid.

The part of the loss that cannot be removed follows from the targets: the squares of their distances
from the range. Nothing is reported if that is a small share of the targets' variance or of the
loss, for example if noise carries some targets across.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, ObservedContent, Sight
from nodescope.debug.watch.output_ranges import OutputRange, bounds_of, output_range
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import (
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    percent,
)
from nodescope.debug.watch.target_comparisons import (
    becomes_loss,
    comparing,
    takes_two_forward,
    target_port,
)
from nodescope.ir.graph import Node

_SQUARES: Final = frozenset({"subtract", "mse", "huber"})
_CHANCES: Final = frozenset({"bce", "bce_with_logits"})
_OPS: Final = _SQUARES | _CHANCES
_OF_LOSS: Final = 0.4  # least share of the loss that the range causes
_OUTSIDE: Final = 1e-3  # tolerance relative to the size of targets, for rounding


class _Beyond(NamedTuple):
    """Targets outside a range.

    Attributes:
        share: The share of targets outside.
        square: The mean square of the distances from the range, over all targets.
        variance: The variance of all targets; the squared mean if they are all equal.
    """

    share: float
    square: float
    variance: float


def _begin(settings: Settings) -> Look:
    steps, least = settings["num_steps"], settings["of_variance"] / 100
    seen: dict[int, int] = {}
    beyond: dict[int, int] = {}
    blamed: dict[int, Finding] = {}  # by id of the node that bounds an output

    def look(sight: Sight) -> Finding | None:
        node, graph = sight.node, sight.graph
        if node.op not in _OPS:
            if node.id not in blamed:
                raise Inapplicable("no bounded output is compared with targets")
            return blamed[node.id]
        port = target_port(graph, node)
        bounds = None if port is None else _bounds(graph, node, 1 - port)
        if port is None or bounds is None or len(sight.inputs) != 2:
            raise Inapplicable("no bounded output is compared with targets")
        value = sight.value
        seen[value] = seen.get(value, 0) + 1
        if seen[value] > 1 and not becomes_loss(graph, node):
            return None  # it does not become a loss, which its first step has shown
        outside = _beyond(sight.inputs[port], bounds)
        out = outside is not None and _is_to_blame(outside, sight, least)
        beyond[value] = beyond.get(value, 0) + 1 if out else 0
        blamed.pop(bounds.node.id, None)
        if beyond[value] < steps or outside is None:
            if seen[value] < steps:
                raise needs_steps(steps, seen[value])
            return None
        finding = _finding(sight, port, bounds, outside)
        if bounds.node is node:
            return finding
        blamed[bounds.node.id] = finding  # reported on the node that bounds the output
        return None

    return look


def _finding(sight: Sight, port: int, bounds: OutputRange, outside: _Beyond) -> Finding:
    graph, node = sight.graph, sight.node
    given = graph.given(node.inputs[port])
    name = given.name if given is not None else "its target"
    summary = sight.inputs[port].summary
    if node.op in _CHANCES:
        what = f"{node.op} needs targets from 0 to 1"
        mend = "pass it labels of 0 and 1"
    else:
        what = f"{bounds.node.name} makes no predictions outside {_words(bounds)}"
        mend = f"remove {bounds.node.op} after the last layer, or scale the targets"
    return Finding(
        f"{100 * outside.share:.3g}% of {name}, in [{summary.min:.4g}, {summary.max:.4g}], are "
        f"outside the output's range: {what}; {mend}",
        {"outside": 100 * outside.share, "low": bounds.low, "high": bounds.high},
    )


def _words(bounds: OutputRange) -> str:
    if math.isinf(bounds.high):
        return f"{bounds.low:g} and above"
    return f"{bounds.high:g} and below" if math.isinf(bounds.low) else (
        f"[{bounds.low:g}, {bounds.high:g}]"
    )  # fmt: skip


def _bounds(graph: ProgramGraph, node: Node, prediction: int) -> OutputRange | None:
    if node.op in _CHANCES:
        return OutputRange(0.0, 1.0, node)
    return output_range(graph, node.inputs[prediction])


def _beyond(targets: ObservedContent, bounds: OutputRange) -> _Beyond | None:
    """The targets outside a range; None if there are none, or if that is unknown."""
    summary = targets.summary
    if summary.min is None or summary.max is None or summary.std is None or summary.mean is None:
        return None
    size = max(abs(summary.min), abs(summary.max))
    if bounds.low - summary.min <= _OUTSIDE * size and summary.max - bounds.high <= _OUTSIDE * size:
        return None
    array = targets.array_or_none
    if array is not None and array.dtype.kind in "iuf":
        values = array.astype(np.float64).reshape(-1)
        values = values[np.isfinite(values)]
        weights = np.ones(len(values))
    elif summary.histogram:
        counts = len(summary.histogram)
        values = summary.min + (np.arange(counts) + 0.5) * (summary.max - summary.min) / counts
        weights = np.array(summary.histogram, np.float64)
    else:
        return None
    distance = np.maximum(np.maximum(bounds.low - values, values - bounds.high), 0.0)
    total = float(weights.sum())
    variance = summary.std**2 or summary.mean**2
    return _Beyond(
        float(weights[distance > _OUTSIDE * size].sum()) / total,
        float((weights * distance**2).sum()) / total,
        variance,
    )


def _is_to_blame(outside: _Beyond, sight: Sight, least: float) -> bool:
    """Whether the range explains much of the targets' variance and of the loss."""
    if sight.node.op in _CHANCES:
        return outside.share > 0
    if outside.square < least * outside.variance:
        return False
    squares = _mean_square(sight)
    return squares is None or outside.square >= _OF_LOSS * squares


def _mean_square(sight: Sight) -> float | None:
    """The mean square of predictions minus targets; None if the node does not show it."""
    summary = sight.summary
    if summary.nan_count or summary.inf_count or not sight.size:
        return None
    if sight.node.op == "subtract" and summary.norm is not None:
        return summary.norm**2 / sight.size
    return summary.mean if sight.node.op == "mse" else None


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node may compare with targets, or bound an output."""
    if node.op in _OPS:
        return takes_two_forward(node, graph)
    return node.phase == "forward" and bounds_of(node) is not None


def _suits(nodes: Sequence[Node]) -> str:
    return comparing(
        nodes,
        _OPS,
        "compares predictions with targets, which must be within the range of the predictions",
    )


register(
    Rule(
        "targets_out_of_range",
        "targets are outside the range of the output that predicts them",
        _begin,
        needs=frozenset({"summary", "inputs", "history"}),
        parameters=(
            count("num_steps", 20, "number of consecutive steps", unit="steps", low=1),
            percent(
                "of_variance",
                5,
                "hit if at least this share of the targets' variance is out of range",
            ),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)

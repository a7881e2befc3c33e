"""A gradient that is lost on its way to a weight, while other weights receive theirs.

A gradient's size is that of its terms, not of their sum: for a bias before a norm or a softmax, the
terms cancel, which is not a fault. Sizes are compared with those of other weights in the same step,
so that a network that has converged is not reported.
"""

from __future__ import annotations

import math
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    number,
)
from nodescope.debug.watch.suiting import computes_gradients
from nodescope.ir.graph import Node
from nodescope.ops.traits import traits_of

_OTHER: Final = "it computes no gradients of weights"
_BACKWARD: Final = ("backward", "recompute")
# Ops that only add, move or convert their inputs: terms can cancel in them.
_HANDS_ON: Final = frozenset((
    "add", "subtract", "sum", "mean", "reshape", "transpose", "squeeze", "expand_dims", "swapaxes",
    "moveaxis", "broadcast_to", "concatenate", "stack", "astype", "negative", "copy", "getitem",
))  # fmt: skip


class _Weight:
    """The gradients that a weight received."""

    __slots__ = ("arrived", "ever", "lost", "seen", "step")

    def __init__(self) -> None:
        self.arrived = 0.0
        self.ever = False
        self.lost = self.seen = 0
        self.step = -1


def _begin(settings: Settings) -> Look:
    steps, share = settings["num_steps"], settings["share_lt"]
    sizes: dict[int, float] = {}  # by value of a backward pass: the size of its terms
    largest: dict[int, float] = {}  # by step: the largest size that arrived at a weight
    weights: dict[int, _Weight] = {}

    def look(sight: Sight) -> Finding | None:
        node = sight.node
        if node.phase not in _BACKWARD:
            raise Inapplicable(_OTHER)
        summary = sight.summary
        size = 0.0
        if summary.nan_count or summary.inf_count:
            size = math.inf
        elif summary.min is not None and summary.max is not None:
            size = max(abs(summary.min), abs(summary.max))
        incoming = max((sizes[value] for value in node.inputs if value in sizes), default=None)
        begins = node.is_leaf or "begins" in traits_of(node.op).effects
        if incoming is None and not begins and "gradients" not in sight.roles:
            raise Inapplicable(_OTHER)  # computed from forward values alone
        summed = node.op in _HANDS_ON and incoming is not None
        sizes[sight.value] = max(size, incoming) if summed and incoming is not None else size
        if "weight_gradients" not in sight.roles:
            raise Inapplicable(_OTHER)
        arrived = size if incoming is None else max(incoming, size)
        weight = weights.setdefault(sight.value, _Weight())
        return judge(weight, sight.step, arrived, sight.graph, sight.value)

    def judge(
        weight: _Weight, step: int, arrived: float, graph: ProgramGraph, value: int
    ) -> Finding | None:
        if step != weight.step:
            weight.seen += 1
            # Judge the previous step: the gradients of all weights are known at its end.
            most = largest.get(weight.step, 0.0)
            if weight.arrived > share * most or most == math.inf:
                weight.lost = 0
            elif most or not weight.ever:
                weight.lost += 1
            weight.step, weight.arrived = step, 0.0
            if step not in largest:
                for old in sorted(largest)[:-8]:
                    del largest[old]
        weight.arrived = max(weight.arrived, arrived)
        weight.ever = weight.ever or arrived > 0
        largest[step] = max(largest.get(step, 0.0), arrived)
        if weight.seen <= steps:
            raise needs_steps(steps + 1, weight.seen)
        before = max(largest.values())
        if weight.lost < steps or arrived > share * before or before == math.inf:
            return None
        elsewhere = (
            f"other weights receive up to {before:.6g}" if before else "nor has any other weight"
        )
        end = _end(graph, value, sizes, share)
        where = f"; it ends at {_placed(end)}, whose inputs receive none" if end else ""
        return Finding(
            f"the weight has received no gradient for {weight.lost} steps (at most "
            f"{arrived:.6g}; {elsewhere}){where}",
            {"num_steps": weight.lost, "share_lt": arrived / before if before else 0.0},
        )

    return look


def _end(graph: ProgramGraph, gradient: int, sizes: dict[int, float], share: float) -> Node | None:
    """The node at which a gradient ends: its result has a gradient, and its input has none.

    Args:
        graph: The program's graph.
        gradient: The value id of the weight's gradient.
        sizes: By value of a backward pass: the size of its terms.
        share: The share of the result's gradient up to which the input's counts as none.
    """
    weights = [value for value, other in graph.gradients.items() if other == gradient]
    todo = [weight for weight in weights if graph.held_in(weight) == weight or len(weights) == 1]
    seen = set(todo)
    while todo:
        here = todo.pop(0)
        for reader in graph.readers(here):
            if reader.phase != "forward" or not reader.outputs:
                continue
            given = reader.outputs[0]
            arrives = sizes.get(graph.gradients.get(given, 0), 0.0)
            if given in graph.losses or not math.isfinite(arrives):
                continue
            if arrives > 0 and sizes.get(graph.gradients.get(here, 0), 0.0) <= share * arrives:
                return reader
            if given not in seen:
                seen.add(given)
                todo.append(given)
    return None


def _placed(node: Node) -> str:
    return f"{node.name} (line {node.source.line})" if node.source is not None else node.name


register(
    Rule(
        "gradient_lost",
        "a weight receives virtually no gradient, compared with other weights",
        _begin,
        ("weight_gradients", "values"),
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("num_steps", 5, "number of consecutive steps", unit="steps", low=1),
            number("share_lt", 1e-7, "lost below this share of the largest", low=0, high=1),
        ),
        lasting=True,
        follows=(
            "mask_inverted",
            "mean_of_one",
            "zero_slope",
            "clipped_layer",
            "dead_layer",
            "saturated_layer",
            "units_identical",
        ),
        suits=computes_gradients("one that is lost on its way trains nothing"),
        examples=(
            Example(
                [{"w": [0.5, 1.0], "v": [0.0, 1e-9]}] * 5 + [{"w": [1.0], "v": [1.0]}],
                (4, 5),
                {"num_steps": 2},
                about="v receives almost nothing, and then something",
            ),
            Example([[0.0, 0.0]] * 5, (4, 5), {"num_steps": 2}, about="from the first step on"),
            Example([[1.0], [1e-3], [1e-9], [0.0], [0.0], [0.0]], (), {"num_steps": 1},
                    about="it has converged"),
            Example([{"w": [1.0], "v": [1e-5]}] * 5, (), {"num_steps": 2}, about="it is small"),
        ),
    )
)  # fmt: skip

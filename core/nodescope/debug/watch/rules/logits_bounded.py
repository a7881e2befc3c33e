"""Scores of a cross entropy that cannot differ enough to tell the classes apart.

Cosines lie between -1 and 1; dividing them by a temperature spreads them. If they are multiplied by
it instead, or there is none, the loss cannot fall much below that of guessing: a softmax of N
scores within a range r gives the right one at most 1 / (1 + (N - 1) exp(-r)). An activation that
bounds a classifier's scores, without a scale after it, has the same effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule
from nodescope.debug.watch.output_ranges import output_range
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Settings, Study, Verdict, percent
from nodescope.ir.graph import Node

_LOSSES: Final = frozenset({"cross_entropy", "log_softmax", "logsumexp"})
_MOVES: Final = frozenset({"transpose", "swapaxes", "moveaxis", "reshape", "astype", "copy"})
_LEAST_CLASSES: Final = 3
_MOST_ABOVE: Final = 24
_BOUNDING: Final = frozenset({"tanh", "sigmoid", "hardsigmoid", "softsign"})
_OF_ACTIVATION: Final = 20.0  # limit after a bounding activation, in percent of guessing's loss
_NORMS: Final = frozenset({"vector_norm", "norm", "sqrt"})


def _study(settings: Settings) -> Study:
    share = settings["share_gt"]

    def study(graph: ProgramGraph, over: bool) -> Iterable[Verdict]:
        for node in graph.forward():
            if node.op not in _LOSSES or not node.inputs or not graph.reaches_loss(node):
                continue
            shape = graph.shape(node.inputs[0]) or ()
            axis = node.attrs.get("axis", -1)
            if len(shape) != 2 or axis not in (0, 1, -1, -2, (0,), (1,), (-1,), (-2,)):
                continue
            classes = shape[axis if isinstance(axis, int) else axis[0]]
            bound = _width(graph, node.inputs[0])
            if bound is None or classes < _LEAST_CLASSES:
                continue
            width, scaling = bound
            lowest = math.log1p((classes - 1) * math.exp(-width))
            part = 100 * lowest / math.log(classes)
            bounds = scaling.op in _BOUNDING and node.op == "cross_entropy"
            if part <= (_OF_ACTIVATION if bounds else share):
                yield Verdict(node)
                continue
            line = f" (line {scaling.source.line})" if scaling.source is not None else ""
            yield Verdict(
                scaling,
                f"the {classes} scores that {scaling.name}{line} gives {node.name} differ by "
                f"{width:.4g} at most, so the loss cannot fall below {lowest:.4g}, and guessing "
                f"has {math.log(classes):.4g}; "
                + (f"leave {scaling.op} out, or " if bounds else "")
                + "divide them by a temperature well below 1, or multiply them with a scale well "
                "above it",
                {"share": part, "width": width},
            )

    return study


def _width(graph: ProgramGraph, value: int) -> tuple[float, Node] | None:
    """The largest difference of a row's scores, and the node that scales them; else None."""
    factor, scaling, seen = 1.0, None, 0
    maker = graph.maker(value)
    while maker is not None and seen < _MOST_ABOVE:
        seen += 1
        number = _factor(maker)
        if number is not None:
            factor *= abs(number)
            scaling = scaling or maker
        elif maker.op not in _MOVES or len(maker.inputs) != 1:
            break
        maker = graph.maker(maker.inputs[0])
    if maker is None:
        return None
    if _cosines(graph, maker):
        return 2 * factor, scaling or maker
    bounds = output_range(graph, maker.outputs[0])
    if bounds is None or not bounds.high - bounds.low < math.inf:
        return None
    if bounds.node.op in ("softmax", "log_softmax") or bounds.node.family == "loss":
        return None  # reported by softmax_twice
    if bounds.node.op in ("clip",) or (scaling is None and bounds.node.op not in _BOUNDING):
        return None
    return (bounds.high - bounds.low) * factor, scaling or bounds.node


def _factor(node: Node) -> float | None:
    """The number by which a node multiplies all elements; None for other nodes."""
    if len(node.inputs) != 1:
        return None
    for name in ("x1", "x2"):
        number = node.attrs.get(name)
        if not isinstance(number, int | float) or isinstance(number, bool) or not number:
            continue
        if node.op == "multiply":
            return float(number)
        if node.op == "divide" and name == "x2":
            return 1 / float(number)
    return None


def _cosines(graph: ProgramGraph, node: Node) -> bool:
    """Whether a node is a product of vectors of unit length, so that its results are cosines."""
    if node.op == "einsum":
        terms, _, result = str(node.attrs.get("subscripts", "")).replace(" ", "").partition("->")
        common = {*terms.partition(",")[0]} & {*terms.partition(",")[2]} - {*result}
        if len(common) != 1 or len(node.inputs) != 2:
            return False
    elif node.op != "matmul" or len(node.inputs) != 2:
        return False
    return all(_has_length_one(graph, value) for value in node.inputs)


def _has_length_one(graph: ProgramGraph, value: int) -> bool:
    maker = graph.past(value, lambda node: node.op in _MOVES and len(node.inputs) == 1)
    if maker is None:
        return False
    if maker.op == "normalize":
        return True
    if maker.op != "divide" or len(maker.inputs) != 2:
        return False
    length = graph.given(maker.inputs[1])
    for _ in range(3):  # skip a lower bound or a small number that keeps the length above zero
        if length is None or length.op in _NORMS or not length.inputs:
            break
        if length.op not in ("add", "maximum", "clip"):
            return False
        length = graph.given(length.inputs[0])
    if length is None or length.op not in _NORMS:
        return False
    if length.op == "sqrt":
        total = graph.given(length.inputs[0])
        if total is not None and total.op == "add" and total.inputs:
            total = graph.given(total.inputs[0])
        if total is None or total.op != "sum":
            return False
        square = graph.maker(total.inputs[0])
        squares = square is not None and (
            square.op == "square"
            or (square.op == "power" and square.attrs.get("x2") == 2)
            or (square.op == "multiply" and len(set(square.inputs)) == 1)
        )
        return squares and square is not None and square.inputs[0] == maker.inputs[0]
    return length.inputs[0] == maker.inputs[0] and length.attrs.get("axis") is not None


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.op in _LOSSES and node.phase == "forward":
            return f"{node.name} takes scores, which must be able to differ"
    return ""


register(
    graph_rule(
        "logits_bounded",
        "the scores of a cross entropy cannot differ enough: it stays near that of guessing",
        _study,
        suits=_suits,
        parameters=(
            percent("share_gt", 80.0, "hit if the lowest loss is above this share of guessing's"),
        ),
        aliases=("temperature_inverted",),
    )
)

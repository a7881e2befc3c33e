"""Probabilities where a loss expects scores: it applies softmax or sigmoid a second time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node

# What each op expects instead of probabilities, and the fix.
_SCORES: Final = "applies softmax itself; give it the scores before softmax"
_LOGARITHMS: Final = "expects logarithms of probabilities; use log_softmax instead of softmax"
_ITSELF: Final = "makes probabilities itself; give it the scores"
_EXPECTS: Final[dict[str, str]] = {
    "softmax": _ITSELF,
    "sigmoid": _ITSELF,
    "cross_entropy": _SCORES,
    "log_softmax": "is applied to probabilities; give it the scores before softmax",
    "nll_loss": _LOGARITHMS,
    "kl_div": _LOGARITHMS,
    "bce_with_logits": "applies sigmoid itself; give it the scores before sigmoid",
}
_PASSES: Final = frozenset({"reshape", "astype", "copy", "squeeze", "expand_dims", "transpose",
                            "getitem", "moveaxis", "swapaxes", "positive"})  # fmt: skip


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    for node in graph.forward():
        if not graph.reaches_loss(node):
            continue
        expects = _EXPECTS.get(node.op) or _by_hand(graph, node)
        if not expects or not node.inputs:
            continue
        source = _past_scalings(graph, node.inputs[0])
        activation = _probabilities(graph, source)
        sigmoid = node.op in ("bce_with_logits", "sigmoid")
        if activation and (activation == "sigmoid") == sigmoid and source is not None:
            # A hand-written activation ends in a division, whose name would not help the user.
            name = source.name if source.op == activation else f"a hand-written {activation}"
            yield Verdict(node, f"it gets probabilities from {name}{_line(source)}, but {expects}")
        else:
            yield Verdict(node)


def _probabilities(graph: ProgramGraph, node: Node | None) -> str:
    """The kind of probabilities that a node computes: ``softmax``, ``sigmoid`` or ``""``."""
    if node is None:
        return ""
    if node.op in ("softmax", "sigmoid"):
        return node.op
    if node.op == "divide" and len(node.inputs) == 2:
        above, below = (_past_shapes(graph, value) for value in node.inputs)
        if above is not None and below is not None and above.op == "exp" and below.op == "sum":
            return "softmax" if below.inputs[:1] == above.outputs[:1] else ""
    # 1 / (1 + exp(-x))
    if (node.op == "divide" and len(node.inputs) == 1 and node.attrs.get("x1") == 1) or (
        node.op == "reciprocal"
    ):
        below = graph.maker(node.inputs[0])
        if below is not None and below.op == "add" and 1 in below.attrs.values():
            power = graph.maker(below.inputs[0])
            if power is not None and power.op == "exp":
                turned = graph.maker(power.inputs[0])
                if turned is not None and turned.op == "negative":
                    return "sigmoid"
    return ""


def _by_hand(graph: ProgramGraph, node: Node) -> str:
    """What ``log(sum(exp(x)))`` expects, if a node is its ``exp`` or a logsumexp; else ``""``."""
    if node.op == "logsumexp":
        return _EXPECTS["log_softmax"]
    if node.op != "exp":
        return ""
    for total in graph.readers(node.outputs[0]):
        if total.op == "sum" and total.attrs.get("axis") is not None:
            for reader in graph.readers(total.outputs[0]):
                if reader.op == "log" and reader.phase == node.phase:
                    return _EXPECTS["log_softmax"]
    return ""


def _past_shapes(graph: ProgramGraph, value: int) -> Node | None:
    return graph.past(value, lambda node: node.op in _PASSES)


def _past_scalings(graph: ProgramGraph, value: int) -> Node | None:
    """As `_past_shapes`, also skipping temperatures: scaled probabilities are still not scores."""
    return graph.past(value, lambda node: node.op in _PASSES or _scales(node))


def _scales(node: Node) -> bool:
    if len(node.inputs) != 1:
        return False
    names = {"multiply": ("x1", "x2"), "divide": ("x2",)}.get(node.op, ())
    factors = [node.attrs[name] for name in names if name in node.attrs]
    return len(factors) == 1 and isinstance(factors[0], int | float) and factors[0] > 0


def _line(node: Node) -> str:
    return f" (line {node.source.line})" if node.source is not None else ""


def _suits(nodes: Sequence[Node]) -> str:
    for node in nodes:
        if node.phase == "forward" and node.op in _EXPECTS:
            return f"it has {node.name}, which must not be given probabilities"
    return ""


register(
    graph_rule(
        "softmax_twice",
        "what expects scores or logarithms, as softmax and losses do, is given probabilities",
        stateless(_judge),
        suits=_suits,
        aliases=("sigmoid_twice",),
    )
)

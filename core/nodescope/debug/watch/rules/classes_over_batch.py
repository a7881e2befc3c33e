"""Class probabilities that are normalised over the rows of the batch, not over the classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from nodescope.debug.watch import register
from nodescope.debug.watch.batch_axis import normalised_axis, rows_normalised
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.debug.watch.target_comparisons import becomes_loss
from nodescope.ir.graph import Node

# Ops that leave probabilities, or their logarithms, at their positions.
_KEEPS: Final = frozenset({"astype", "copy", "log", "negative", "add", "clip", "maximum"})
_MIXES: Final = frozenset({"astype", "copy", "add", "subtract"})
_PICKS: Final = frozenset({"getitem", "gather", "take_along_axis", "nll_loss"})
_COMPARES: Final = frozenset({"multiply", "subtract", "mse", "kl_div", "bce"})


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    for node in graph.forward():
        axis = _axis(graph, node)
        if axis is None or not graph.reaches_loss(node):
            continue
        rows = rows_normalised(graph, node, axis)
        labels = _labels(graph, node) if rows else ""
        if labels:
            yield Verdict(
                node,
                f"probabilities are normalised over axis 0, the {rows} rows of the batch, but "
                f"{labels} gives the class of each row; normalise over the classes (axis=1)",
            )
        elif rows and (mixed := _mixed(graph, node)) is not None:
            yield Verdict(
                node,
                f"weights of a mixture are normalised over axis 0, the {rows} rows of the batch, "
                f"but {mixed.name} adds the parts of each row up over axis 1; normalise over that "
                "axis (axis=1)",
            )
        else:
            yield Verdict(node)


def _mixed(graph: ProgramGraph, node: Node) -> Node | None:
    """The node that sums the components of a mixture whose log weights a node computes, or None.

    Sinkhorn normalisation of both axes in turn is excepted: it subtracts the sum again.
    """
    shape, todo, seen = graph.shape(node.outputs[0]), list(node.outputs), set(node.outputs)
    while todo:
        value = todo.pop()
        for reader in graph.readers(value):
            if reader.phase != "forward" or not reader.outputs:
                continue
            total = reader.outputs[0]
            axes = reader.attrs.get("axis")
            if reader.op == "logsumexp" and shape and axes in (1, -1, (1,), (-1,)):
                balances = any(
                    value in other.inputs
                    for other in graph.readers(total)
                    if other.phase == "forward"
                )
                if len(shape) == 2 and not balances:
                    return reader
            same = graph.shape(total) == shape
            if same and reader.op in _MIXES and total not in seen:
                seen.add(total)
                todo.append(total)
    return None


def _axis(graph: ProgramGraph, node: Node) -> Any:
    """The axis over which a node computes (log) probabilities; None for other nodes."""
    if node.op == "log_softmax":
        return node.attrs.get("axis")
    if node.op == "subtract" and len(node.inputs) == 2:  # x - logsumexp(x)
        total = graph.given(node.inputs[1])
        if total is not None and total.op == "logsumexp" and total.inputs == node.inputs[:1]:
            return total.attrs.get("axis")
    return normalised_axis(graph, node)


def _labels(graph: ProgramGraph, node: Node) -> str:
    """The name of the labels that are compared with probabilities or select them; or ``""``."""
    shape, todo, seen = graph.shape(node.outputs[0]), list(node.outputs), set(node.outputs)
    while todo:
        value = todo.pop()
        for reader in graph.readers(value):
            if reader.phase != "forward" or not reader.outputs:
                continue
            others = [given for given in reader.inputs if given != value]
            same = graph.shape(reader.outputs[0]) == shape
            if reader.op in _KEEPS and same and not others:
                todo += [given for given in reader.outputs if given not in seen]
                seen.update(reader.outputs)
            elif reader.op in _PICKS or reader.op in _COMPARES:
                if reader.op in _COMPARES and (
                    not others or graph.shape(others[0]) != shape or not becomes_loss(graph, reader)
                ):
                    continue
                if others and all(_is_data(graph, given) for given in others):
                    return _name(graph, others[-1])
    return ""


def _is_data(graph: ProgramGraph, value: int) -> bool:
    """Whether a value is computed from data alone, such as one-hot labels."""
    leaves = graph.leaves(value)
    return bool(leaves) and all(leaf.role in ("input", "constant") for leaf in leaves)


def _name(graph: ProgramGraph, value: int) -> str:
    maker = graph.maker(value)
    return maker.name if maker is not None else "the other operand"


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.op in ("softmax", "log_softmax", "logsumexp", "exp") and node.phase == "forward":
            return f"{node.name} may compute probabilities, which must sum to 1 over the classes"
    return ""


register(
    graph_rule(
        "classes_over_batch",
        "class probabilities are normalised over the rows of the batch",
        stateless(_judge),
        suits=_suits,
    )
)

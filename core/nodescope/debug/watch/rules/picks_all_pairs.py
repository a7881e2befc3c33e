"""Labels that select columns in all rows: ``p[:, labels]`` although each row has its own label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.debug.watch.target_comparisons import becomes_loss
from nodescope.ir.graph import Node

_ELEMENTWISE = frozenset({"log", "negative", "exp", "clip", "add", "maximum"})


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    for node in graph.forward():
        if node.op != "getitem" or len(node.inputs) != 2:
            continue
        index, rows = node.attrs.get("index"), graph.shape(node.inputs[1])
        shape = graph.shape(node.inputs[0])
        if not isinstance(index, tuple) or len(index) != 2 or index[0] != slice(None):
            continue
        pairs = (
            rows is not None
            and shape is not None
            and len(shape) == 2
            and rows == shape[:1]
            and shape[0] != shape[1]
            and shape[0] > 1
        )
        labels = graph.given(node.inputs[1])
        if not pairs or labels is None or labels.role not in ("input", "constant"):
            continue
        if rows is not None and _is_averaged(graph, node):
            yield Verdict(
                node,
                f"each of the {rows[0]} rows gets the labels of all {rows[0]}: [:, labels] makes "
                f"{rows[0]}·{rows[0]} elements; select one per row with [np.arange(len(labels)), "
                "labels]",
                {"rows": rows[0]},
            )
        else:
            yield Verdict(node)


def _is_averaged(graph: ProgramGraph, node: Node) -> bool:
    """Whether all selected elements go into one mean or sum, which becomes a loss."""
    for _ in range(6):
        readers = [reader for reader in graph.readers(node.outputs[0]) if reader.phase == "forward"]
        if len(readers) != 1 or not readers[0].outputs:
            return False
        node = readers[0]
        if node.op in ("mean", "sum"):
            return node.attrs.get("axis") is None and becomes_loss(graph, node)
        if node.op not in _ELEMENTWISE:
            return False
    return False


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.op == "getitem" and node.phase == "forward" and len(node.inputs) == 2:
            return f"{node.name} selects by numbers, perhaps labels"
    return ""


register(
    graph_rule(
        "picks_all_pairs",
        "labels select columns in all rows, although each row has its own label",
        stateless(_judge),
        suits=_suits,
    )
)

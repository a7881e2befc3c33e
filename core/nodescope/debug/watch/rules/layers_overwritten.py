"""Layers in a loop whose results overwrite each other: only the last result is used.

The parameters of the other layers reach no loss. Both must agree: in the graph, nothing reads their
results; in the source, the loop assigns them to a name that it never reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.program_source import OverwrittenRound, overwritten_rounds
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    if not graph.losses:
        return
    used = graph.above_losses(())
    lines: dict[tuple[object, str, object], list[Node]] = {}
    for node in graph.forward():
        if node.source is not None and node.outputs and not node.writes and not node.graph:
            shape = graph.shape(node.outputs[0])
            lines.setdefault((node.source, node.op, shape), []).append(node)
    for nodes in lines.values():
        kept = [node for node in nodes if node.id in used]
        lost = [node for node in nodes if _is_lost(graph, node, used)]
        lost = [node for node in lost if kept and node.id < kept[-1].id]
        if not lost:
            continue
        loop = _loop(graph, kept[-1])
        if loop is None:
            yield Verdict(kept[-1])
            continue
        unused = [_unused_weights(graph, node, used) for node in lost]
        layers = 1 + len({tuple(weight.id for weight in weights) for weights in unused})
        yield Verdict(
            lost[0],
            f"{loop.name} (line {loop.line}) is overwritten in each round of the loop in line "
            f"{loop.loop} before it is read: of {layers} layers only the last is used, and "
            f"{unused[0][0].name} reaches no loss; give each layer the result of the one before",
            {"layers": layers},
        )


def _is_lost(graph: ProgramGraph, node: Node, used: set[int]) -> bool:
    """Whether nothing reads a result computed from parameters that are not used elsewhere."""
    if node.id in used or any(graph.readers(value) for value in node.outputs):
        return False
    return bool(_unused_weights(graph, node, used))


def _unused_weights(graph: ProgramGraph, node: Node, used: set[int]) -> list[Node]:
    return [
        leaf for leaf in graph.leaves(node.outputs[0]) if leaf.is_weight and leaf.id not in used
    ]


def _loop(graph: ProgramGraph, node: Node) -> OverwrittenRound | None:
    """The loop around a node's line; for a line in a layer's code, the file's only such loop."""
    tree = graph.tree(node.source)
    if tree is None or node.source is None:
        return None
    rounds = overwritten_rounds(tree)
    around = [loop for loop in rounds if loop.line <= node.source.line <= loop.end]
    if around:
        return around[0]
    return rounds[0] if len(rounds) == 1 else None


def _suits(nodes: Sequence[Node]) -> str:
    trains = any(node.phase == "backward" for node in nodes)
    weights = sum(node.is_weight for node in nodes)
    return f"each of its {weights} parameters should reach the loss" if trains and weights else ""


register(
    graph_rule(
        "layers_overwritten",
        "results of layers in a loop overwrite each other: only the last layer is used",
        stateless(_judge),
        suits=_suits,
    )
)

"""A loop of which only the last iteration counts, because its state is not carried over.

Each of the other iterations reads a part of the data that reaches no loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node

_FEWEST: Final = 3


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    if not graph.losses:
        return
    used = graph.above_losses(())
    lines: dict[tuple[str, int, str, str], list[Node]] = {}
    for node in graph.forward():
        if node.source is not None and node.outputs and not node.graph:
            key = (node.source.file, node.source.line, node.op, node.scope)
            lines.setdefault(key, []).append(node)
    for nodes in lines.values():
        if len(nodes) < _FEWEST:
            continue
        ends = [node for node in nodes if not graph.readers(node.outputs[0])]
        kept = [node for node in nodes if node.id in used]
        if len(kept) != 1 or len(ends) != len(nodes) - 1 or kept[0].id < max(n.id for n in ends):
            continue
        lost = [_parts(graph, node) - used for node in ends]
        if all(lost) and _parts(graph, kept[0]) & used:
            yield Verdict(
                kept[0],
                f"of {len(nodes)} rounds only the last reaches the loss: what the {len(ends)} "
                "others compute from their part of the data is discarded; is the state of the "
                "previous round used?",
                {"rounds": len(nodes)},
            )
        else:
            yield Verdict(kept[0])


def _parts(graph: ProgramGraph, node: Node) -> set[int]:
    """Ids of the nodes above a node that select a part of the data."""
    return {
        number
        for number in graph.above(node.outputs[0])
        if graph.nodes[number].op == "getitem" and _is_data(graph, graph.nodes[number])
    }


def _is_data(graph: ProgramGraph, node: Node) -> bool:
    given = graph.given(node.outputs[0])
    return given is not None and given.role in ("input", "constant")


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    parts = sum(node.op == "getitem" and node.phase == "forward" for node in nodes)
    return (
        f"it takes {parts} parts of data, each of which should reach the loss" if parts > 2 else ""
    )


register(
    graph_rule(
        "rounds_unused",
        "only the last round of a loop over the data reaches the loss",
        stateless(_judge),
        suits=_suits,
    )
)

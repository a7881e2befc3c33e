"""A weight that is written back after each update, from a copy that never changes.

For example, a moving average is assigned to the network instead of to its teacher.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Settings, Study, Verdict
from nodescope.ir.graph import Node
from nodescope.ir.scopes import split_number

_LEAST_STEPS: Final = 5
_SHARE: Final = 0.9  # least share of the weight's updates after which it is written back


def _study(settings: Settings) -> Study:
    updated: dict[int, int] = {}  # by value of a weight: number of steps with an optimizer's update
    written: dict[int, int] = {}  # by node that writes to a weight: in how many of these steps

    def study(graph: ProgramGraph, over: bool) -> Iterable[Verdict]:
        writers = _writers(graph)
        changed = {maker.name for maker in map(graph.maker, writers) if maker is not None}
        ran = {node for node, _ in graph.ran}
        by_line: dict[tuple[str, int], list[tuple[Node, Node]]] = {}
        for weight, nodes in writers.items():
            if any(node.phase == "optimizer" and node.id in ran for node in nodes):
                updated[weight] = updated.get(weight, 0) + 1
                for node in nodes:
                    if node.phase == "forward" and node.id in ran:
                        written[node.id] = written.get(node.id, 0) + 1
            maker = graph.maker(weight)
            for node in nodes:
                steps = written.get(node.id, 0)
                if node.phase != "forward" or not over or maker is None or not maker.is_weight:
                    continue
                copy = _copy(graph, weight, node, changed)
                if copy is None or steps < max(_LEAST_STEPS, _SHARE * updated.get(weight, 0)):
                    yield Verdict(node)
                    continue
                place = node.source
                by_line.setdefault((place.file, place.line) if place else ("", 0), []).append(
                    (node, copy)
                )
        for pairs in by_line.values():
            node, copy = pairs[0]
            held = graph.maker(graph.held_in(node.outputs[0]))
            name = held.name if held is not None else "a weight"
            more = f" (and {len(pairs) - 1} more)" if len(pairs) > 1 else ""
            yield Verdict(
                node,
                f"{name}{more} is updated by the optimizer and then overwritten in every step, "
                f"from {copy.name}, which never changes, so learning is undone; assign the "
                "average to the copy",
                {"weights": len(pairs)},
            )

    return study


def _writers(graph: ProgramGraph) -> dict[int, list[Node]]:
    """By value of a parameter: the nodes that write to it."""
    holders: dict[int, list[Node]] = {}
    for node in graph.nodes.values():
        for output, _ in node.writes:
            holders.setdefault(graph.held_in(node.outputs[output]), []).append(node)
    return holders


def _copy(graph: ProgramGraph, weight: int, node: Node, changed: set[str]) -> Node | None:
    """The never changing parameter from which a node writes to a weight; None if there is none."""
    target = graph.maker(weight)
    bases = {split_number(name)[0] for name in changed}
    for value in node.inputs:
        if graph.held_in(value) == weight or target is None:
            continue
        for leaf in graph.leaves(value):
            source = leaf.outputs[0]
            same = graph.shape(source) == graph.shape(weight) and source != weight
            if leaf.role != "parameter" or not same or leaf.name in changed:
                continue
            # A parameter that is read in several lines has several nodes with numbered names.
            if split_number(leaf.name)[0] not in bases - {split_number(target.name)[0]}:
                return leaf
    return None


def _suits(nodes: Sequence[Node]) -> str:
    optimizes = any(node.phase == "optimizer" and node.writes for node in nodes)
    for node in nodes:
        if optimizes and node.phase == "forward" and node.writes and node.op == "assign":
            return f"{node.name} writes to a possible weight, as its optimizer does"
    return ""


register(
    graph_rule(
        "update_overwritten",
        "a weight is written back after each update, from a copy that never changes",
        _study,
        suits=_suits,
    )
)

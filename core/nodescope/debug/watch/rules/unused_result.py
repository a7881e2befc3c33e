"""A result that is not used: a call whose value is dropped, or a name that is never read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.program_source import fate
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node

_OPERATORS: Final = frozenset({"add", "subtract", "multiply", "divide", "matmul", "power",
                               "negative", "floor_divide", "remainder"})  # fmt: skip


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    if not any(node.phase == "backward" for node in graph.nodes.values()):
        return
    written = {(node.source.file, node.source.line) for node in graph.nodes.values()
               if node.writes and node.source is not None}  # fmt: skip
    for node in graph.forward():
        source = node.source
        if node.family == "kernel" or node.op == "fused" or node.graph or source is None:
            continue
        if node.writes or (source.file, source.line) in written:
            continue
        read = any(graph.readers(value) for value in node.outputs)
        begins = not graph.losses.isdisjoint(node.outputs)
        yield Verdict(node, "" if read or begins else _words(graph, node))


def _words(graph: ProgramGraph, node: Node) -> str:
    """A description of how a node's result is lost; ``""`` if that is not certain."""
    source = node.source
    tree = graph.tree(source)
    if tree is None or source is None or not _is_data(graph, node):
        return ""
    use = fate(tree, source.line)
    if use is None or (use.kind != "dropped" and not source.file.endswith(".py")):
        return ""
    if use.kind == "dropped":
        if use.calls != node.op and not (not use.calls and node.op in _OPERATORS):
            return ""
        return (
            f"the result of {node.op} is discarded, and its input stays as it is; assign it, as "
            f"in x = {node.op}(x)"
        )
    if use.kind == "unread":
        return (
            f"{use.name} is computed and never read; use it where it was meant to be used, "
            "such as in the loss, or remove it"
        )
    return (
        f"{use.name} is reassigned in line {use.line} before it is read; use the first value "
        "there, or remove it"
    )


def _is_data(graph: ProgramGraph, node: Node) -> bool:
    """Whether a node depends on parameters or input data."""
    return any(leaf.role in ("parameter", "input") for leaf in graph.leaves(node.outputs[0]))


def _suits(nodes: Sequence[Node]) -> str:
    backward = any(node.phase == "backward" for node in nodes)
    return "it trains; a result that is not used has no effect" if backward else ""


register(
    graph_rule(
        "unused_result",
        "a result is discarded, or assigned to a name that is never read",
        stateless(_judge),
        suits=_suits,
    )
)

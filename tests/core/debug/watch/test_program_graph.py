"""ProgramGraph: walks also end in graphs of loops, whose nodes read their own results."""

from __future__ import annotations

from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rules.targets_masked import _mask
from nodescope.ir.graph import Node

LOOP = (
    Node(1, "getitem", "getitem", "index", inputs=(2,), outputs=(1,)),
    Node(2, "reshape", "reshape", "shape", inputs=(1,), outputs=(2,)),
    Node(3, "cross_entropy", "cross_entropy", "loss", inputs=(2,), outputs=(3,)),
)


def test_a_walk_through_a_loop_ends() -> None:
    graph = ProgramGraph()
    for node in LOOP:
        graph.define(node)
    maker = graph.past(2, lambda node: node.op != "cross_entropy")
    assert maker in LOOP[:2]
    assert graph.past(3, lambda node: True) in LOOP[:2]
    assert _mask(graph, LOOP[2]) is None

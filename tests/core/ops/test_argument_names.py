"""Rules written for nodescope's ops read the attributes of other libraries' operations."""

from __future__ import annotations

from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.ir.graph import Node
from nodescope.ops.argument_names import known_attrs


def test_a_graph_knows_nodescopes_names() -> None:
    graph = ProgramGraph()
    graph.define(
        Node(
            1,
            "softmax",
            "softmax",
            "activation",
            dialect="torch",
            attrs={"dim": 1, "keepdim": True},
        )
    )
    assert graph.nodes[1].attrs == {"axis": 1, "keepdims": True}


def test_reductions_are_words() -> None:
    assert known_attrs("torch", {"reduction": 1, "other": 2}) == {"reduction": "mean", "x2": 2}


def test_own_nodes_are_left_alone() -> None:
    attrs = {"dim": 1}
    assert known_attrs("nodescope", attrs) is attrs

"""ProgramGraph: questions also end in graphs of loops, whose nodes read their own results."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodescope.debug.watch import get
from nodescope.debug.watch.cycles import on_cycles
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rules.targets_masked import _mask
from nodescope.ir.graph import Node, TensorSpec, Value

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


@given(st.lists(st.lists(st.integers(1, 8), max_size=3), min_size=1, max_size=8), st.data())
def test_what_comes_back_is_what_is_above_itself(inputs: list[list[int]], data: Any) -> None:
    graph = ProgramGraph()
    for number, values in enumerate(inputs, 1):
        writes = ((0, 0),) if values and data.draw(st.booleans()) else ()
        graph.define(
            Node(number, "add", "add", "elementwise", inputs=tuple(values), outputs=(number,),
                 writes=writes)
        )  # fmt: skip
    for node in graph.nodes.values():
        above = {number for value in node.inputs for number in graph.above(value)}
        assert graph.comes_back(node) == (node.id in above)


def test_a_long_chain_is_searched_for_cycles_without_recursion() -> None:
    length = 50_000
    makers = {number: [number - 1] for number in range(1, length + 1)}
    assert on_cycles(makers) == set()
    assert on_cycles({0: [length]} | makers) == {*range(length + 1)}
    assert on_cycles({length: [length]} | makers) == set()
    assert on_cycles(makers | {7: [7, 6]}) == {7}


@pytest.mark.parametrize("rule", ["mean_divided_again", "norm_over_batch"])
def test_a_rule_ends_in_a_graph_whose_node_reads_its_own_result(rule: str) -> None:
    """A state that is multiplied by a number, and one that is reshaped, in every step."""
    graph = ProgramGraph()
    for node in (
        Node(1, "multiply", "multiply", "elementwise", {"x2": 1 / 7}, (1,), (1,)),
        Node(2, "reshape", "reshape", "layout", inputs=(2,), outputs=(2,)),
        Node(3, "subtract", "subtract", "elementwise", inputs=(3, 2), outputs=(4,)),
    ):
        graph.define(node)
    spec = TensorSpec((8, 4), "float32")
    graph.tell(Value(number, spec, "") for number in range(1, 5))
    study = get(rule).study
    assert study is not None
    assert not [verdict.text for verdict in study({})(graph, False) if verdict.text]

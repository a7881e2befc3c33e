"""Verifying graphs: each fault is found, and named with its node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import nodescope as ns
from nodescope.errors import GraphError
from nodescope.ir.graph import Graph
from nodescope.ir.text import parse_graph
from nodescope.ir.verify import verify
from nodescope.ops.checking import inferred

GOOD = """
graph 1 static (%1) -> (%4) {
  constants(%2)
  %1: f32[2,3] = leaf.placeholder()  # x
  %2: f32[3,4] = leaf.constant()  # w
  %3: f32[2,4] = matmul(%1, %2)  # y  after=@2
  %4: f32[2] = reduction.sum(%3, axis=1, keepdims=False)  # z  train.py:4
}
"""


def test_a_good_graph_passes() -> None:
    verify(parse_graph(GOOD), inferred)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sum(%3,", "sum(%9,", "node z: its input %9 is unknown"),
        ("matmul(%1, %2)", "matmul(%1, %4)", "its input %4 is made only later, by z"),
        ("# z ", "# y ", "the name is already used by node @3"),
        ("# z ", "# z  id=@3 ", "the id @3 is already used by another node"),
        ("after=@2", "after=@4", "comes later: a cycle"),
        ("after=@2", "after=@3", "comes later: a cycle"),
        ("after=@2", "after=@8", "@8, which is unknown"),
        ("-> (%4)", "-> (%5)", "output %5 is unknown"),
        (
            "f32[2] =",
            "f32[3] =",
            r"%4 is declared as float32 \(3,\), but sum returns float32 \(2,\)",
        ),
        ("f32[2] =", "f64[2] =", r"%4 is declared as float64 \(2,\)"),
        ("matmul(%1, %2)", "matmul(%2, %1)", "node y: matmul does not take its inputs"),
        ("matmul(%1, %2)", "matmul(%1)", "matmul takes 2 inputs, not 1"),
        ("axis=1, ", "", "node z: the attribute 'axis' is missing"),
        ("matmul(%1, %2)", "matmool(%1, %2)", "no op named 'matmool'"),
    ],
)
def test_each_fault_is_named(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(GraphError, match=message):
        verify(parse_graph(GOOD.replace(old, new)), inferred)


def test_double_values_and_makers() -> None:
    graph = parse_graph(GOOD)
    with pytest.raises(GraphError, match="%1 is listed twice"):
        verify(msgspec.structs.replace(graph, values=(*graph.values, graph.values[0])))
    again = msgspec.structs.replace(graph.nodes[3], id=9, name="again")
    with pytest.raises(GraphError, match="made by another node"):
        verify(msgspec.structs.replace(graph, nodes=(*graph.nodes, again)))


def built(*body: Any) -> Graph:
    with ns.Graph().as_default() as g:
        x = ns.constant([[1.0, 2.0], [3.0, 4.0]])
        y = ns.cond(x.sum() > 0, lambda: x @ x, lambda: x)
        ns.while_loop(lambda z: z.sum() < 100, lambda z: z * 2, y)
        ns.gradients(np_sum(ns.scan(lambda c, r: (c + r, c * r), x[0], x)[1]), x)
        x[:, None, ..., 0], x[x.astype("int64")]
    return g.finish(())


def np_sum(x: Any) -> Any:
    return x.sum()


def test_what_the_engine_builds_is_well_formed() -> None:
    verify(built(), inferred)

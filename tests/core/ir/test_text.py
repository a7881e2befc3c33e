"""Graphs as text: a graph is restored exactly; an invalid text is refused with its position."""

from __future__ import annotations

import math
import struct
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodescope.errors import GraphError
from nodescope.ir.attrs import Attribute, named
from nodescope.ir.graph import (
    PHASES,
    Graph,
    Node,
    OpaqueSpec,
    Role,
    SourceLocation,
    TensorSpec,
    Value,
)
from nodescope.ir.text import parse_graph, print_graph
from nodescope.ops.index import Port
from tests.depth import examples

FLOATS = st.floats(allow_nan=True, allow_infinity=True)
TEXTS = st.text(max_size=12)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), FLOATS, TEXTS, st.binary(max_size=4),
    st.builds(complex, FLOATS, FLOATS), st.just(Ellipsis), st.builds(Port, st.integers(0, 3)),
    st.builds(slice, *[st.none() | st.integers(-5, 5)] * 3),
    st.sampled_from([np.float32(0.1), np.int8(-3), np.dtype("float16"), np.bool_(True)]),
)  # fmt: skip
NAMES = st.one_of(st.from_regex(r"[a-z]{1,5}(/[a-z_0-9]{1,4}){0,2}", fullmatch=True), TEXTS)
SPECS = st.builds(
    TensorSpec,
    st.lists(st.none() | st.integers(0, 2**40), max_size=3).map(tuple),
    st.sampled_from(["float32", "bool", "bfloat16", "complex128", "strange type"]),
    st.sampled_from(["", "cuda:0", 'odd "device"']),
) | st.builds(OpaqueSpec, TEXTS, st.none() | st.integers(0, 2**40))
SOURCES = st.none() | st.builds(
    SourceLocation, st.sampled_from(["train.py", "/a b/c.py", "x", '"q".py']), st.integers(1, 99),
    st.sampled_from(["", "main", "f.<locals>.g", "two words"]),
)  # fmt: skip


def attributes(depth: int) -> st.SearchStrategy[Any]:
    leaves: Any = SCALARS if depth == 0 else SCALARS | graphs(depth - 1)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(TEXTS, inner, max_size=2),
        ),
        max_leaves=4,
    )


@st.composite
def graphs(draw: Any, depth: int = 1) -> Graph:
    values: list[Value] = []
    nodes: list[Node] = []
    given_ = [Value(i + 1, draw(SPECS), draw(TEXTS)) for i in range(draw(st.integers(0, 2)))]
    values += given_
    ident = 0
    for index in range(draw(st.integers(0, 4))):
        ident += draw(st.sampled_from([1, 1, 1, 5]))
        name = f"{draw(NAMES)}_{index}"
        known = [value.id for value in values]
        graphs_made = []
        for port in range(draw(st.integers(0, 3))):
            usual = f"{name}:{port}" if port else name
            named = draw(st.just(usual) | TEXTS)
            graphs_made.append(
                Value(len(values) + 1, draw(SPECS), named, draw(st.sampled_from([0, 9])))
            )
            values.append(graphs_made[-1])
        before = [node.id for node in nodes]
        picks = st.lists(st.sampled_from(before), max_size=2).map(tuple) if before else st.just(())
        op = draw(st.sampled_from(["matmul", "add", "odd op"]))
        nodes.append(Node(
            id=ident,
            name=name,
            op=op,
            family=draw(st.sampled_from([op, "elementwise", "odd family"])),
            inputs=draw(st.lists(st.sampled_from(known), max_size=3).map(tuple)) if known else (),
            control_inputs=draw(picks),
            outputs=tuple(item.id for item in graphs_made),
            attrs=draw(st.dictionaries(st.sampled_from(["axis", "x1", "odd name", ""]),
                                       attributes(depth), max_size=2)),
            scope=draw(st.just(name.rpartition("/")[0]) | NAMES),
            phase=draw(st.sampled_from(PHASES)),
            device=draw(st.sampled_from(["cpu", "worker:1/cpu:0", "odd device"])),
            source=draw(SOURCES),
            origin=draw(picks),
            forward=draw(st.none() | st.integers(0, 99)),
            role=draw(st.sampled_from(get_args(Role))),
            dialect=draw(st.sampled_from(["nodescope", "torch", 'odd "one"'])),
            native=draw(st.sampled_from(["", "aten::addmm_.default"])),
            writes=draw(st.sampled_from([(), ((0, 0),), ((0, 1), (2, 0))])),
        ))  # fmt: skip
    ids = [value.id for value in values]
    value_lists = st.lists(st.sampled_from(ids), max_size=2).map(tuple) if ids else st.just(())
    return Graph(
        draw(st.integers(-3, 99)), draw(st.sampled_from(["static", "backward-joined"])),
        draw(value_lists), draw(value_lists), tuple(nodes), tuple(values), draw(value_lists),
    )  # fmt: skip


def same(first: Any, other: Any) -> bool:
    """Equal, types and bits of floats included."""
    if type(first) is not type(other):
        return False
    if isinstance(first, float):
        return struct.pack("<d", first) == struct.pack("<d", other)
    if isinstance(first, complex):
        return same(first.real, other.real) and same(first.imag, other.imag)
    if isinstance(first, list | tuple):
        return len(first) == len(other) and all(map(same, first, other))
    if isinstance(first, dict):
        return list(first) == list(other) and all(same(first[key], other[key]) for key in first)
    if isinstance(first, slice):
        return same((first.start, first.stop, first.step), (other.start, other.stop, other.step))
    if isinstance(first, np.ndarray | np.generic):
        return first.dtype == other.dtype and first.tobytes() == other.tobytes()
    if isinstance(first, Graph | Node):
        return all(
            same(getattr(first, name), getattr(other, name)) for name in first.__struct_fields__
        )
    return bool(first == other)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(graphs())
def test_every_graph_comes_back_exactly(graph: Graph) -> None:
    text = print_graph(graph)
    again = parse_graph(text)
    assert same(again, graph)
    assert print_graph(again) == text


SMALL = """
// a comment
graph 7 static (%1) -> (%2) {
  constants(%3)
  given(%4: f32[] "from outside")
  %1: f32[32,64] = leaf.placeholder()  # x  train.py:9
  %3: f32[64,10] = leaf.constant()  # w
  %2: f32[32,10] = matmul(%1, %3)  # encoder/matmul  phase=backward  after=@1  train.py:12 main
  _ = control.no_op(note="a\\nb", at=(1, -0.0, slice(None, 2, None), ...))  # end  id=@9
}
"""


def test_a_text_written_by_hand() -> None:
    graph = parse_graph(SMALL)
    assert graph.inputs == (1,)
    assert [value.id for value in graph.values] == [1, 2, 3, 4]
    assert graph.values[1].spec == TensorSpec((32, 10), "float32")
    node = graph.nodes[2]
    assert (node.name, node.scope, node.phase) == ("encoder/matmul", "encoder", "backward")
    assert node.control_inputs == (1,)
    assert node.source == SourceLocation("train.py", 12, "main")
    assert graph.nodes[3].id == 9
    assert graph.nodes[3].attrs["at"][2] == slice(None, 2, None)
    assert math.copysign(1, graph.nodes[3].attrs["at"][1]) == -1
    assert parse_graph(print_graph(graph)) == graph


def changed(old: str, new: str) -> str:
    assert old in SMALL
    return SMALL.replace(old, new)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"line 1, column 1: expected 'graph', found the end"),
        ("import os", r"expected 'graph'"),
        (changed("static", "dynamic"), r"line 3, column 9: expected one of eager, static"),
        (changed("f32[32,64]", "f33[32,64]"), r"line 6, column 7: expected a dtype"),
        (changed("f32[32,64]", "f32[32,-1]"), r"expected a size, found '-1\]"),
        (changed("%1, %3)", "%1, 3)"), r"line 8, column 31: expected an input or an attribute"),
        (changed('note="a', 'note="a" note="'), r"expected ','"),
        (changed("slice(None, 2, None)", "slice(2)"), r"slice does not take 1 fields"),
        (changed("slice(None, 2, None)", "__import__(2)"), r"no value __import__"),
        (changed("phase=backward", "phase=sideways"), r"expected one of forward"),
        (changed("  # end", ""), r"expected '#' and the node's name"),
        (changed("after=@1", "after=1"), r"expected @ and a number"),
        (changed("after=@1", "after=@1  after=@1"), r"expected after= once"),
        (SMALL + "x", r"expected the end of the text, found 'x'"),
        (SMALL.rstrip()[:-1], r"expected % and a number, found the end"),
        (changed("-0.0", "[" * 200), r"at most 60 things within each other"),
        (changed("-0.0", "9" * 5000), r"fewer digits"),
    ],
)
def test_anything_but_a_graph_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        parse_graph(text)


def test_what_has_no_text_is_refused() -> None:
    node = Node(1, "n", "add", "elementwise", attrs={"x": object()})
    with pytest.raises(GraphError, match=r"builtins\.object has no text"):
        print_graph(Graph(1, "static", nodes=(node,)))
    with pytest.raises(GraphError, match="not among the graph's values"):
        print_graph(Graph(1, "static", nodes=(Node(1, "n", "add", "e", outputs=(1,)),)))
    with pytest.raises(GraphError, match="taken"):

        @named
        class Slice(Attribute, frozen=True):
            start: int

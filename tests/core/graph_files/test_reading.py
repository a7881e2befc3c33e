"""Files of real libraries and handwritten texts become graphs: scopes, shapes, constants, edges.

The files in ``fixtures/graphs`` were written by onnx 1.23.2 and TensorFlow 2.21.0.
"""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from nodescope.errors import GraphError
from nodescope.graph_files import format_of, read_graph
from nodescope.ir.graph import Graph, Node
from nodescope.ir.text import print_graph

GRAPHS = Path(__file__).resolve().parents[2] / "fixtures" / "graphs"


def read(name: str) -> Graph:
    return read_graph((GRAPHS / name).read_bytes(), name)[0]


def named(graph: Graph, name: str) -> Node:
    return next(node for node in graph.nodes if node.name == name)


def sources(graph: Graph, name: str) -> list[str]:
    """The names of the nodes that a node reads."""
    produced = {value: node.name for node in graph.nodes for value in node.outputs}
    return [produced[value] for value in named(graph, name).inputs]


def spec(graph: Graph, name: str, port: int = 0) -> str:
    value = named(graph, name).outputs[port]
    return next(str(item.spec) for item in graph.values if item.id == value)


@pytest.mark.parametrize("name", ["small.onnx", "small.onnxtxt"])
def test_onnx(name: str) -> None:
    graph = read(name)
    assert sources(graph, "encoder/linear/MatMul") == ["x", "encoder/linear/encoder.linear.weight"]
    assert spec(graph, "encoder/linear/MatMul") == "float32 (?, 3)"
    assert named(graph, "encoder/linear/encoder.linear.weight").role == "parameter"
    assert named(graph, "axes").role == named(graph, "head/Constant").role == "constant"
    # A function is expanded where it is called, and branches are inside the scope of their node.
    assert sources(graph, "encoder/act/Mul") == ["encoder/linear/Add", "encoder/act/Erf"]
    assert sources(graph, "head/If/then_branch/then_id") == ["encoder/act/Mul"]
    assert sources(graph, "head/If") == [
        "head/gt", "head/If/else_branch/neg", "head/If/then_branch/then_id",
    ]  # fmt: skip
    assert len(named(graph, "head/Split").outputs) == 2
    assert sources(graph, "s2") == ["head/Split"]
    assert named(graph, "head/Split").attrs == {"axis": 0}


@pytest.mark.parametrize("name", ["small.pb", "small.pbtxt"])
def test_graphdef(name: str) -> None:
    graph = read(name)
    assert sources(graph, "encoder/add") == ["encoder/MatMul", "encoder/b"]
    assert spec(graph, "x") == "float32 (?, 4)"
    assert (spec(graph, "parts"), spec(graph, "parts", 1)) == ("float32 (?, 1)", "float32 (?, 2)")
    assert (named(graph, "w").role, named(graph, "encoder/b").role) == ("parameter", "constant")
    ids = {node.id: node.name for node in graph.nodes}
    assert [ids[node] for node in named(graph, "Const").control_inputs] == ["Assign"]
    assert named(graph, "encoder/MatMul").attrs["transpose_a"] is False


def test_both_forms_of_a_file_are_the_same_graph() -> None:
    assert print_graph(read("small.onnx")) == print_graph(read("small.onnxtxt"))
    binary, text = read("small.pb"), read("small.pbtxt")
    assert [(n.name, n.op, n.inputs, n.attrs) for n in binary.nodes] == [
        (n.name, n.op, n.inputs, n.attrs) for n in text.nodes
    ]


def test_functions_of_tensorflow_are_drawn_where_they_are_called() -> None:
    graph = read("functions.pb")
    assert sources(graph, "add") == ["PartitionedCall/Identity", "split"]
    assert sources(graph, "PartitionedCall/Gelu/mul") == ["PartitionedCall/Gelu/mul/x", "split"]
    assert any(node.op == "Softmax" for node in read("saved_model.pb").nodes)


def test_a_function_that_calls_itself_is_an_error() -> None:
    with pytest.raises(GraphError, match="'Gelu2' calls itself: a cycle"):
        read("self_calling.onnx")
    text = """library { function { signature { name: "f" } node_def { name: "a" op: "f" } } }
    node { name: "n" op: "f" }"""
    with pytest.raises(GraphError, match="'f' calls itself: a cycle"):
        read_graph(text.encode(), "g.pbtxt")


DOT = r"""
strict digraph "a graph" { // a comment
  graph [label="title"]; node [shape=box] rankdir=TB
  subgraph cluster_0 { x [label="MatMul\n(2, 3)"]; subgraph cluster_b { y:in:n } label = "outer" }
  x -> y -> {p; q} [label="(4, 3)"] /* and */ ; subgraph { r s } -- t
  q [label=<<b>bold</b> &amp; more>] "two" + " parts" -> x [style=dashed]
}
"""


def test_dot() -> None:
    graph, dialect, notes = read_graph(DOT.encode(), "g.dot")
    assert (dialect, notes) == ("dot", ())
    assert {node.name for node in graph.nodes} == {
        "outer/MatMul", "outer/b/y", "p", "bold & more", "r", "s", "t", "two parts",
    }  # fmt: skip
    assert sources(graph, "outer/MatMul") == ["two parts"]
    assert sources(graph, "t") == ["r", "s"]
    assert spec(graph, "outer/b/y").strip() == "(4, 3)"
    assert named(graph, "outer/MatMul").attrs == {"label": "(2, 3)"}


def test_model_explorer() -> None:
    tensor = [{"key": "tensor_shape", "value": "float32[1,?,3]"}]
    nodes = [
        {"id": "1", "label": "const", "namespace": ""},
        {"id": 2, "label": "add", "namespace": "a/b", "attrs": [{"key": "k", "value": "v"}],
         "incomingEdges": [{"sourceNodeId": "1", "sourceNodeOutputId": "0"}],
         "outputsMetadata": [{"id": "0", "attrs": tensor}, {"id": "1"}]},
        {"id": "3", "label": "use", "incomingEdges": [{"sourceNodeId": "2",
                                                       "sourceNodeOutputId": "1"}]},
    ]  # fmt: skip
    graph, *_ = read_graph(json.dumps({"graphs": [{"id": "g", "nodes": nodes}]}).encode(), "g.json")
    assert named(graph, "const").role == "constant"
    assert (spec(graph, "a/b/add"), named(graph, "a/b/add").attrs) == (
        "float32 (1, ?, 3)",
        {"k": "v"},
    )
    assert named(graph, "use").inputs == named(graph, "a/b/add").outputs[1:]
    collections = {"graphCollections": [{"graphs": [{"id": i, "nodes": nodes}]} for i in "xy"]}
    graph, *_ = read_graph(json.dumps(collections).encode(), "g.json")
    assert {"x/a/b/add", "y/a/b/add"} <= {node.name for node in graph.nodes}


@pytest.mark.parametrize(
    ("own", "port", "shown", "kept"),
    [
        ({"dtype": "int8", "shape": "[2, 3]", "op": "Conv", "k": "v"}, "[2, 3]", "int8 (2, 3)",
         {"k": "v"}),
        ({"dtype": "int8"}, "float32[2]", "float32 (2,)", {"dtype": "int8"}),
        ({"dtype": "of the weights!", "shape": "[-1]"}, "[2]", " (2,)",
         {"dtype": "of the weights!", "shape": "[-1]"}),
        ({"dtype": "int8", "shape": [2]}, "", "", {"dtype": "int8", "shape": [2]}),
    ],
)  # fmt: skip
def test_the_dtype_of_a_model_explorer_node_is_that_of_its_output(
    own: dict[str, Any], port: str, shown: str, kept: dict[str, Any]
) -> None:
    node = {
        "id": "1", "label": "n", "attrs": [{"key": key, "value": own[key]} for key in own],
        "incomingEdges": [{"sourceNodeId": "1"}],
        "outputsMetadata": [{"id": "0", "attrs": [{"key": "shape", "value": port}]}],
    }  # fmt: skip
    graph, *_ = read_graph(json.dumps([{"id": "g", "nodes": [node]}]).encode(), "g.json")
    assert spec(graph, "n") == shown
    assert named(graph, "n").attrs == kept


def test_nodescope_s_own_text() -> None:
    graph = Graph(0, "static", nodes=(Node(1, "n", "add", "elementwise"),))
    text = print_graph(graph).encode()
    assert read_graph(text, "g.nsgraph")[0] == graph
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("graph.txt", text)
    assert read_graph(buffer.getvalue(), "g.nsgraph")[0] == graph


def test_a_cycle_is_shown_and_remarked() -> None:
    graph, _, notes = read_graph(b"digraph { a -> b -> c -> b }", "g.dot")
    assert [node.name for node in graph.nodes] == ["a", "b", "c"]
    assert notes == ("2 nodes are on a cycle, or behind one",)


def test_what_is_missing_is_shown_as_an_input() -> None:
    graph, _, notes = read_graph(b'node { name: "a" op: "Neg" input: "gone:1" }', "g.pbtxt")
    assert notes == ("nothing computes 'gone': it is shown as an input",)
    assert (sources(graph, "a"), named(graph, "gone").role) == (["gone"], "input")


@pytest.mark.parametrize(
    ("data", "name", "text"),
    [
        (b"", "g.onnx", "the file is empty"),
        (b"\x80\x04K\x01.", "g.onnx", "it is a pickle, which is never read"),
        (b"hello", "g.xyz", "no graph file that nodescope reads"),
        (b"\x08\x01", "g.onnx", "no valid ONNX: it has no graph"),
        (b"\x3a\x7f\x01", "g.onnx", "ends within field 7 of ModelProto, which begins at byte 0"),
        (b"\x3a" + b"\xff" * 20, "g.onnx", "a number of more than 10 bytes at byte 1"),
        (b"node { name: 'a' }}", "g.pbtxt", r"expected a field, not '}' in line 1"),
        (b"node {\nname: [1", "g.pbtxt", r"expected a value, not '' in line 2"),
        (b"digraph { a ->", "g.dot", "expected a name, not '' in line 1"),
        (b"digraph { a [label=<<b>] }", "g.dot", "a label without its end"),
        (b"digraph {}", "g.dot", "it has no nodes"),
        (b'{"graphs": [{"nodes": [{"id": []}]}]}', "g.json", "no valid Model Explorer JSON"),
        (b'{"graphs": [', "g.json", "truncated"),
        (b"{}", "g.json", "it has no graphs"),
        (b"PK\x03\x04junk", "g.nsgraph", "the archive is damaged"),
        (b"digraph " + b"{" * 5000, "g.dot", "nested more than 100 deep"),
        (b"node {" * 5000, "g.pbtxt", "nested more than 60 deep"),
        (b"[" * 100_000, "g.json", "nested too deeply|no valid"),
    ],
)  # fmt: skip
def test_errors_name_the_cause(data: bytes, name: str, text: str) -> None:
    with pytest.raises(GraphError, match=text) as raised:
        read_graph(data, name)
    assert "\n" not in str(raised.value)


def test_the_format_is_that_of_the_content() -> None:
    assert format_of(b"\n{}", "g.onnx").title == "Model Explorer JSON"
    assert format_of(b"digraph{}", "g.pb").title == "DOT"
    assert format_of(b"graph { node { } }", "g.textproto").title == "ONNX"
    assert format_of(b"graph { a -- b }", "g.txt").title == "DOT"

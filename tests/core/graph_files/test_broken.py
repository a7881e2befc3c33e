"""Any graph file gives a graph or one line: no traceback, no hang, no flood of output."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nodescope.errors import GraphError
from nodescope.graph_files import read_graph
from tests.core.graph_files.test_reading import DOT, GRAPHS
from tests.depth import count, examples

FILES = {path.name: path.read_bytes() for path in sorted(GRAPHS.iterdir())} | {
    "g.dot": DOT.encode(),
    "g.json": b'{"graphs":[{"id":"g","nodes":[{"id":"1","label":"a","namespace":"s","attrs":[],'
    b'"incomingEdges":[{"sourceNodeId":"1"}],"outputsMetadata":[{"id":"0","attrs":[]}]}]}]}',
}
SUFFIXES = (".onnx", ".onnxtxt", ".pb", ".pbtxt", ".dot", ".json", ".nsgraph", "")
WORDS = {
    ".dot": 'digraph subgraph graph strict node { } [ ] -> -- ; , : + = a b "c" < > label \\n /* #',
    ".pbtxt": "node { } < > [ ] : , ; name op input attr \"a\" 'b' -1 1e9 key value list library #",
    ".json": '{ } [ ] , : "graphs" "nodes" "id" "1" 1 -1e999 null true "incomingEdges" "label"',
    ".nsgraph": 'graph 0 static ( ) { } %1 , = add : f32 [ ] # "a" -> given constants',
}


def survives(data: bytes, name: str) -> None:
    """Read a file; any exception except `GraphError` fails the test."""
    started = time.process_time()
    try:
        graph, *_ = read_graph(data, name)
        error = ""
        assert len({node.name for node in graph.nodes}) == len(graph.nodes)
    except GraphError as raised:
        error = str(raised)
        if not error:
            raise
    assert "\n" not in error
    assert time.process_time() - started < 5


@given(st.binary(max_size=200), st.sampled_from(SUFFIXES))
@settings(max_examples=examples(600), deadline=None)
def test_any_bytes(data: bytes, suffix: str) -> None:
    survives(data, f"g{suffix}")


@given(st.data())
@settings(max_examples=examples(1500), deadline=None)
def test_damaged_files(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(FILES)))
    raw = bytearray(FILES[name])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw)))
        kind = data.draw(st.sampled_from(("set", "cut", "put", "copy")))
        if kind == "set" and place < len(raw):
            raw[place] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del raw[place : place + data.draw(st.integers(1, 30))]
        elif kind == "put":
            raw[place:place] = data.draw(st.binary(max_size=8))
        else:
            raw[place:place] = raw[: data.draw(st.integers(0, 200))]
    survives(bytes(raw), name)


@given(st.data())
@settings(max_examples=examples(800), deadline=None)
def test_words_in_any_order(data: st.DataObject) -> None:
    suffix = data.draw(st.sampled_from(sorted(WORDS)))
    words = data.draw(st.lists(st.sampled_from(WORDS[suffix].split()), max_size=40))
    start = {".dot": "digraph {", ".nsgraph": "graph 0 "}.get(suffix, "")
    survives((start + " ".join(words)).encode(), f"g{suffix}")


@pytest.mark.parametrize("name", ["small.onnx", "small.pb", "functions.pb"])
def test_cut_anywhere(name: str) -> None:
    raw = FILES[name]
    for place in range(1, len(raw), max(1, len(raw) // count(400, 40))):
        survives(raw[:place], name)


@example("g.pbtxt", b'node { name: "', b"x")
@example("g.pbtxt", b"node { name: ", b"9")
@example("g.dot", b"digraph { a [label=", b"<")
@example("g.dot", b"digraph { a [label=", b'"\\')
@example("g.dot", b"digraph { /", b"*")
@example("g.dot", b"digraph { a", b" -> a")
@example("g.dot", b"digraph { ", b"{a b c d e f g h} -> ")
@example("g.json", b'{"graphs":', b"[")
@example("g.json", b"", b"1")
@example("g.onnx", b"", b"\x3a")
@example("g.onnx", b"\x3a\xff\xff\xff\x7f", b"\x0a\x00")
@example("g.pb", b"", b"\x0a\x00")
@example("g.nsgraph", b"graph 0 static () -> () {", b"(")
@given(st.just("g.dot"), st.just(b"digraph {"), st.binary(min_size=1, max_size=3))
@settings(max_examples=examples(60), deadline=None)
def test_long_repetitions_take_linear_time_and_little_memory(
    name: str, start: bytes, repeated: bytes
) -> None:
    tracemalloc.start()
    try:
        survives(start + repeated * 3_000, name)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()

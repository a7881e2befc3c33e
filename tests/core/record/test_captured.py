"""Compiled functions are kept with graphs, passes and fates, apart from the nodes that ran."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec

from nodescope.events import GraphCaptured
from nodescope.ir.graph import Graph, Node, TensorSpec, Value
from nodescope.ir.text import parse_graph, print_graph
from nodescope.passes.pipeline import lower
from nodescope.passes.telling import events_of
from nodescope.record.captured import functions, shown
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.core.record.runs import record

SPEC = TensorSpec((3,), "float64")


def traced() -> Graph:
    """x, then exp and a node that nobody needs."""
    nodes = (
        Node(1, "x", "placeholder", "leaf", outputs=(1,)),
        Node(2, "block/exp", "exp", "elementwise", (1,), outputs=(2,), scope="block"),
        Node(3, "block/sin", "sin", "elementwise", (1,), outputs=(3,), scope="block"),
    )
    values = tuple(Value(each.outputs[0], SPEC, each.name) for each in nodes)
    return Graph(7, "static", (1,), (2,), nodes, values)


def test_a_compiled_function_is_kept(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.nscope")
    lowered = lower(traced(), {}, ["dce"])
    for event in events_of(lowered, "step#1", itertools.count(1).__next__, backend="numpy"):
        recorder.emit(event)
    record(recorder)
    assert recorder.close()
    with Recording.open(tmp_path / "run.nscope") as recording:
        (found,) = functions(recording)
        ran = [row.node.name for row in recording.nodes()]
        values = len(recording.values())
    assert found.owner == "step#1"
    assert [(stage, graph.id, graph.kind) for stage, graph in found.graphs] == [
        ("traced", 1, "static"), ("final", 2, "compiled"),
    ]  # fmt: skip
    assert found.final.nodes[1].origin == (2,)
    (applied,) = found.passes
    assert (applied.name, applied.before, applied.after) == ("dce", 1, 2)
    assert applied.rewrites[0]["rule"] == "unused"
    fates = {each["node"]: each["kind"] for each in found.about["fates"]}
    assert fates == {1: "kept", 2: "kept", 3: "eliminated"}
    assert found.about["values"] == {"1": 1, "2": 2}
    assert found.about["backend"] == "numpy"
    # its nodes are not the run's
    assert ran == ["a/x", "a/y"]
    assert values == 2


def test_a_run_without_any(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.nscope")
    record(recorder)
    assert recorder.close()
    with Recording.open(tmp_path / "run.nscope") as recording:
        assert functions(recording) == []


def test_bodies_are_shown_by_name() -> None:
    body = msgspec.to_builtins(traced())
    node = Node(9, "kernel", "fused", "kernel", attrs={"body": body, "pattern": "chain"})
    (found,) = shown(Graph(1, "compiled", nodes=(node,))).nodes
    assert found.attrs == {"pattern": "chain", "covers": ["x", "block/exp", "block/sin"]}


def test_the_graph_that_a_node_runs_in_is_text() -> None:
    node = Node(1, "kernel", "fused", "kernel", origin=(4, 5), graph=3)
    graph = Graph(0, "static", nodes=(node,))
    text = print_graph(graph)
    assert "origin=@4,@5  graph=3" in text
    assert parse_graph(text) == graph


def test_an_event_says_nothing_but_its_graph() -> None:
    event = GraphCaptured(traced())
    assert (event.owner, event.stage) == ("", "")


def test_traces_of_one_name_are_told_apart(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.nscope")
    numbers = itertools.count(1).__next__
    for _ in range(2):
        for event in events_of(lower(traced(), {}, ["dce"]), "step", numbers):
            recorder.emit(event)
    assert recorder.close()
    with Recording.open(tmp_path / "run.nscope") as recording:
        found = functions(recording)
    assert [(each.owner, each.final.id, len(each.passes)) for each in found] == [
        ("step", 2, 1), ("step#2", 4, 1),
    ]  # fmt: skip

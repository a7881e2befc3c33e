"""Graphs of other frameworks: opaque values, unknown sizes and unknown families, everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nodescope.compare.result import compare
from nodescope.debug.report.run_summary import summarise_run
from nodescope.debug.watch.offline import Asking
from nodescope.debug.watch.watch import Watch
from nodescope.debug.why import why
from nodescope.errors import NodescopeError, ReplayError, UsageError
from nodescope.events import GraphExtended, NodeFinished, RunStarted, StepFinished, StepStarted
from nodescope.export import ExportOptions
from nodescope.export.dot import render_dot
from nodescope.export.svg import page_input
from nodescope.ir.capabilities import Framework
from nodescope.ir.graph import Node, OpaqueSpec, TensorSpec, Value
from nodescope.ir.text import parse_graph, print_graph
from nodescope.record.graphs import graph_of
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope_server.wire import convert
from nodescope_server.wire.convert import shown_node
from tests.server.support import nodes_in, values_in

NODES = (
    Node(1, "load", "load", "quantum", outputs=(1,), role="task", dialect="ray"),
    Node(2, "batch", "decode", "other", (1,), outputs=(2,), dialect="ray"),
    Node(3, "net/weight", "get_attr", "other", outputs=(3,), role="parameter", dialect="torch"),
    Node(4, "net/addmm", "addmm", "matmul", (2, 3), outputs=(4,), scope="net", dialect="torch",
         native="aten::addmm.default"),
    Node(5, "sync", "all_reduce", "communication", (4,), outputs=(5,), dialect="torch"),
)  # fmt: skip
VALUES = (
    Value(1, OpaqueSpec("ray.ObjectRef"), "load"),
    Value(2, TensorSpec((None, 4), "float32", "cuda:0"), "batch"),
    Value(3, TensorSpec((4, 3), "float8_e4m3fn", "cuda:0"), "net/weight"),
    Value(4, TensorSpec((None, 3), "float32"), "net/addmm", storage=1),
    Value(5, TensorSpec((None, 3), "float32"), "sync", storage=1),
)


@pytest.fixture
def recording(tmp_path: Path):
    recorder = Recorder(tmp_path / "r.nscope", level="timing")
    recorder.emit(RunStarted("0123456789abcdef", "t.py", (), 7, 1, Framework("torch", "2.13")))
    recorder.emit(GraphExtended(NODES, VALUES))
    recorder.emit(StepStarted(1, 0))
    for node in NODES:
        outputs = () if node.id == 1 else (np.ones((2, 3), np.float32),)
        recorder.emit(NodeFinished(node, (), outputs, 1, 1, 10 * node.id, 10 * node.id + 5))
    recorder.emit(StepFinished(1, 99))
    assert recorder.close()
    with Recording.open(tmp_path / "r.nscope") as opened:
        yield opened


def test_text_is_exact(recording: Recording) -> None:
    graph = graph_of(recording)
    text = print_graph(graph)
    assert 'opaque("ray.ObjectRef")' in text
    assert '%2: f32[?,4] on "cuda:0"' in text
    assert 'native="aten::addmm.default"' in text
    assert parse_graph(text) == graph


def test_pictures_show_what_is_known(recording: Recording) -> None:
    dot = render_dot(recording, ExportOptions(expand="all")).decode()
    assert "ray.ObjectRef" in dot
    assert "(?, 4)" in dot
    shown = page_input(graph_of(recording), "t", ExportOptions(expand="all"))
    families = {node["name"]: node["family"] for node in shown["nodes"]}
    assert families == {
        "load": "other", "batch": "other", "net/weight": "leaf", "net/addmm": "matmul",
        "sync": "communication",
    }  # fmt: skip
    values = {value["id"]: value for value in shown["values"]}
    assert (values[1]["type"], values[1]["bytes"]) == ("ray.ObjectRef", 0)
    assert (values[2]["shape"], values[2]["bytes"]) == ((None, 4), 16)


def test_why_says_whose_op_it_is(recording: Recording) -> None:
    with pytest.raises(ReplayError, match=r"addmm.default cannot be run again: PyTorch"):
        why(recording, "net/addmm")
    with pytest.raises(NodescopeError):
        why(recording, "load")


def test_reports_watches_and_comparison_accept_foreign_graphs(recording: Recording) -> None:
    assert summarise_run(recording).nodes == 4
    assert list(Asking(recording, [Watch("nan", 1), Watch("value_repeated", 2)])) == []
    with pytest.raises(UsageError, match="no compiled function ran in this recording"):
        compare(recording, recording)


def test_the_page_receives_foreign_graphs(recording: Recording) -> None:
    snapshot = convert.snapshot(recording, recording.run(), None, recording.last_seq())
    nodes = [node for _, node in nodes_in(snapshot.nodes)]
    assert [produced.value for produced in values_in(snapshot.values, nodes)] == list(VALUES)
    assert nodes == list(map(shown_node, NODES))
    assert [framework.dialect for framework in snapshot.run.frameworks] == ["torch"]

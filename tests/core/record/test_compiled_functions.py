"""Compiled functions are recorded with graphs, passes and fates, apart from the run's nodes."""

from __future__ import annotations

import gzip
import itertools
import sqlite3
from pathlib import Path

import msgspec
import pytest

from nodescope.compare.result import compare
from nodescope.errors import RecordingError
from nodescope.events import Compiled, GraphCaptured
from nodescope.ir.graph import Graph, Node, TensorSpec, Value
from nodescope.ir.provenance import Fate, KernelCost, MemoryReport, Rewrite
from nodescope.ir.text import parse_graph, print_graph
from nodescope.passes.compile_events import events_of
from nodescope.passes.pipeline import lower
from nodescope.record.compiled_functions import functions, shown
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.core.record.runs import record

SPEC = TensorSpec((3,), "float64")
RECORDINGS = Path(__file__).parent / "recordings"


def traced() -> Graph:
    """x, then exp and a node that nobody needs."""
    nodes = (
        Node(1, "x", "placeholder", "leaf", outputs=(1,), role="input"),
        Node(2, "block/exp", "exp", "elementwise", (1,), outputs=(2,), scope="block"),
        Node(3, "block/sin", "sin", "elementwise", (1,), outputs=(3,), scope="block"),
    )
    values = tuple(Value(node.outputs[0], SPEC, node.name) for node in nodes)
    return Graph(7, "static", (1,), (2,), nodes, values)


def test_a_compiled_function_is_kept(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.nscope")
    lowered = lower(traced(), {}, ["dce"])
    costs, memory = {2: KernelCost(30, 48, "memory")}, MemoryReport(64, 96, 96, 1)
    for event in events_of(
        lowered, "step#1", itertools.count(1).__next__, backend="numpy", costs=costs,
        memory=memory, compile_ns=1_500_000,
    ):  # fmt: skip
        recorder.emit(event)
    record(recorder)
    assert recorder.close()
    with Recording.open(tmp_path / "run.nscope") as recording:
        (result,) = functions(recording)
        ran = [row.node.name for row in recording.nodes()]
        values = len(recording.values())
    assert result.owner == "step#1"
    assert [(stage, graph.id, graph.kind) for stage, graph in result.graphs] == [
        ("traced", 1, "static"), ("final", 2, "compiled"),
    ]  # fmt: skip
    assert result.final.nodes[1].origin == (2,)
    (applied,) = result.passes
    assert (applied.name, applied.before, applied.after) == ("dce", 1, 2)
    assert applied.rewrites == (Rewrite("dce", "unused", "eliminated", (3,)),)
    assert result.compiled == Compiled(
        "step#1", "numpy",
        fates=(Fate(1, "kept", (1,)), Fate(2, "kept", (2,)),
               Fate(3, "eliminated", (), ("dce/unused",))),
        origins={1: (1,), 2: (2,)}, values={1: 1, 2: 2}, costs=costs, memory=memory,
        compile_ns=1_500_000,
    )  # fmt: skip
    # The run does not have the nodes of the compiled function.
    assert ran == ["a/x", "a/y"]
    assert values == 2


def test_recordings_that_describe_what_was_compiled_as_dicts_are_read(tmp_path: Path) -> None:
    path = tmp_path / "before.nscope"
    path.write_bytes(gzip.decompress((RECORDINGS / "compiled_as_dicts.nscope.gz").read_bytes()))
    with Recording.open(path) as recording:
        block, kernel = functions(recording)
        compared = compare(recording, recording)
    assert [item.compiled.backend for item in (block, kernel)] == ["numpy", "c"]
    # Values 4 to 8 are inside kernel 11.
    into_the_kernel = [(4, 4), (5, 4), (6, 6), (7, 7), (8, 8)]
    assert block.compiled.inside == {traced: (11, inner) for traced, inner in into_the_kernel}
    assert block.compiled.values == {1: 1, 2: 2, 9: 9, 10: 10}
    assert block.compiled.fates[2] == Fate(3, "eliminated", (), ("dce/unused",))
    assert block.compiled.origins[11] == (4, 5, 6, 7, 8, 9)
    assert block.compiled.costs[10] == KernelCost(524_288, 2_097_156, "memory")
    assert block.compiled.memory is None
    assert block.compiled.compile_ns == 62_440_494
    assert block.compiled.unfused == (
        "add → sum: sum is a single NumPy call, which fusing does not speed up",
    )
    assert kernel.compiled.memory == MemoryReport(256, 256, 256)
    rules = [rewrite.rule for pass_ in block.passes for rewrite in pass_.rewrites]
    assert rules == ["unused", "multiply_one", "elementwise"]
    assert [function.fates for function in compared.functions] == [
        {"eliminated": 1, "fused": 6, "kept": 1}, {"fused": 5},
    ]  # fmt: skip


def test_a_damaged_account_of_what_was_compiled_is_an_error(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.nscope")
    for event in events_of(lower(traced(), {}, []), "step", itertools.count(1).__next__):
        recorder.emit(event)
    assert recorder.close()
    damaged = msgspec.msgpack.encode({"type": "Compiled", "owner": "step", "about": {"fates": 3}})
    with sqlite3.connect(tmp_path / "run.nscope") as database:
        database.execute("UPDATE document SET data=? WHERE kind='compiled'", (damaged,))
    database.close()
    with (
        Recording.open(tmp_path / "run.nscope") as recording,
        pytest.raises(RecordingError, match=r"'compiled' cannot be read .*backend"),
    ):
        functions(recording)


def test_a_run_without_any(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.nscope")
    record(recorder)
    assert recorder.close()
    with Recording.open(tmp_path / "run.nscope") as recording:
        assert functions(recording) == []


def test_bodies_are_shown_by_name() -> None:
    node = Node(9, "kernel", "fused", "kernel", attrs={"body": traced(), "pattern": "chain"})
    (result,) = shown(Graph(1, "compiled", nodes=(node,))).nodes
    assert result.attrs == {"pattern": "chain", "covers": ["x", "block/exp", "block/sin"]}


def test_the_graph_that_a_node_runs_in_is_text() -> None:
    node = Node(1, "kernel", "fused", "kernel", origin=(4, 5), graph=3)
    graph = Graph(0, "static", nodes=(node,))
    text = print_graph(graph)
    assert "origin=@4,@5  graph=3" in text
    assert parse_graph(text) == graph


def test_an_event_says_nothing_but_its_graph() -> None:
    event = GraphCaptured(traced())
    assert (event.owner, event.stage) == ("", "")


def test_traces_of_one_name_are_distinguished(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.nscope")
    numbers = itertools.count(1).__next__
    for _ in range(2):
        for event in events_of(lower(traced(), {}, ["dce"]), "step", numbers):
            recorder.emit(event)
    assert recorder.close()
    with Recording.open(tmp_path / "run.nscope") as recording:
        result = functions(recording)
    assert [(item.owner, item.final.id, len(item.passes)) for item in result] == [
        ("step", 2, 1), ("step#2", 4, 1),
    ]  # fmt: skip

"""Data for rerunning a node: attributes that change, and the memory layout of arrays."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np

import nodescope as ns
from nodescope.record.recording import Recording


def test_a_scalar_that_changes_is_kept_with_its_execution(tmp_path: Path) -> None:
    x = np.arange(3.0)
    with ns.record(tmp_path / "r.nscope", level="summary"):
        for i, _ in enumerate(ns.steps(range(3))):
            t = ns.tensor(x)
            t * 2.0
            t * (1.0 + i)
            np.sum(t, axis=0)
    with Recording.open(tmp_path / "r.nscope") as recording:
        nodes = {row.node.id: row.node for row in recording.nodes()}
        names = {execution.seq: nodes[execution.node].name for execution in recording.executions()}
        results = [(names[seq], attrs) for seq, attrs in sorted(recording.calls().items())]
    assert results == [("multiply_1", {"x2": 2.0}), ("multiply_1", {"x2": 3.0})]
    first = [node.attrs for node in nodes.values() if node.name == "multiply_1"]
    assert first == [{"x2": 1.0}]


def test_attributes_1_and_1_0_differ(tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope"):
        for factor in ns.steps([1, 1.0, True]):
            ns.tensor(np.arange(3)) * factor
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert [call["x2"] for call in recording.calls().values()] == [1.0, True]
        assert [type(call["x2"]) for call in recording.calls().values()] == [float, bool]


def test_a_redefined_node_has_its_new_attributes(tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope"):
        for i, _ in enumerate(ns.steps(range(2))):
            x = ns.tensor(np.arange(3.0))
            x * (x if i else 2.0)
    with Recording.open(tmp_path / "r.nscope") as recording:
        results = [row.node for row in recording.nodes() if row.node.op == "multiply"]
    assert [(len(node.inputs), node.attrs) for node in results] == [(1, {"x2": 2.0}), (2, {})]


def test_strides_of_arrays_that_are_not_in_c_order(tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope", level="values"):
        x = ns.tensor(np.arange(6.0).reshape(2, 3))
        np.transpose(x) + 1.0
    with Recording.open(tmp_path / "r.nscope") as recording:
        nodes = {row.node.id: row.node for row in recording.nodes()}
        results = {
            nodes[execution.node].op: recording.strides(
                nodes[execution.node].outputs[0], execution.seq
            )
            for execution in recording.executions()
        }
    assert results == {"tensor": None, "transpose": (8, 24), "add": (8, 24)}


def test_a_file_of_an_earlier_release(tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope", level="values"):
        ns.tensor(np.arange(6.0).reshape(2, 3)).T * 2.0
    database = sqlite3.connect(tmp_path / "r.nscope")
    database.executescript("DROP TABLE call; DROP TABLE layout;")
    database.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert recording.calls() == {}
        assert recording.strides(1, 1) is None


def test_a_number_of_more_than_64_bits_does_not_stop_the_recording(tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope"):
        ns.tensor(np.arange(3.0)) * 2**70
    with Recording.open(tmp_path / "r.nscope") as recording:
        (node,) = [row.node for row in recording.nodes() if row.node.op == "multiply"]
        assert node.attrs == {"x2": 2**70}
        assert len(recording.executions()) == 2

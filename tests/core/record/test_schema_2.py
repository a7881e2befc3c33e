"""Additions of schema 2: frameworks, opaque values, unknown sizes, storage, workers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from nodescope.events import FrameworkAttached, GraphExtended, NodeFinished, RunStarted
from nodescope.ir.attrs import Opaque
from nodescope.ir.capabilities import ENGINE, Capabilities, Framework
from nodescope.ir.graph import Node, OpaqueSpec, TensorSpec, Value
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import Execution
from nodescope.record.schema import EARLIER

ABLE = Capabilities(before=True, edit="in_place", steps="optimizer", timing="device", workers=True)
TORCH = Framework("torch", "2.13", ABLE)
LOAD = Node(1, "load", "load", "other", outputs=(1,), role="task", dialect="ray")
ADDMM = Node(
    2, "net/addmm", "addmm", "matmul", (1,), outputs=(2,), dialect="torch",
    native="aten::addmm_.default", writes=((0, 0),), attrs={"generator": Opaque("<Generator>")},
)  # fmt: skip
VALUES = (
    Value(1, OpaqueSpec("pandas.DataFrame", 4096), "load"),
    Value(2, TensorSpec((None, 10), "float32", "cuda:0"), "net/addmm", storage=9),
)


@pytest.mark.parametrize("level", ["graph", "timing", "summary", "values"])
def test_every_record_is_read_back(level: str, tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level=level)  # type: ignore[arg-type]
    recorder.emit(RunStarted("0123456789abcdef", "t.py", (), 7, 1, TORCH))
    recorder.emit(GraphExtended((LOAD, ADDMM), VALUES))
    recorder.emit(NodeFinished(LOAD, (), (), 0, 1, 10, 20, worker=3))
    recorder.emit(NodeFinished(ADDMM, (), (np.ones((4, 10)),), 0, 1, 20, 30, lane=7))
    recorder.emit(NodeFinished(ADDMM, (), (np.ones((5, 10)),), 0, 1, 30, 40))
    assert recorder.close()
    with Recording.open(path) as recording:
        info = recording.run()
        assert info.frameworks == (TORCH,)
        assert [row.node for row in recording.nodes()] == [LOAD, ADDMM]
        first = {row.value.id: row.value for row in recording.values(until=5)}
        assert first[1] == VALUES[0]
        assert (first[2].storage, first[2].spec.dtype) == (9, "float32" if level in (
            "graph", "timing") else "float64")  # fmt: skip
        places = [(row.worker, row.lane) for row in recording.executions()]
        assert places == ([(3, 0), (0, 0)] if level == "graph" else [(3, 0), (0, 7), (0, 0)])
        state = [execution for execution, _ in recording.state_at(recording.last_seq())]
        assert [type(row) for row in state] == [Execution, Execution]
        assert state[0].worker == 3


def test_capabilities_of_each_framework_are_recorded(tmp_path: Path) -> None:
    """Those that are attached later, too; recordings made before that was told have the first."""
    recorder = Recorder(tmp_path / "r.nscope")
    engine = Framework("nodescope", "0.1", ENGINE)
    recorder.emit(RunStarted("0123456789abcdef", "t.py", (), 7, 1, engine))
    recorder.flush()
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert recording.run().frameworks == (engine,)
        for framework in (engine, TORCH, TORCH):
            recorder.emit(FrameworkAttached(framework))
        recorder.flush()
        assert recording.run().frameworks == (engine, TORCH)
    assert recorder.close()


def test_an_unknown_size_is_reported_as_unknown(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.nscope", level="timing")
    recorder.emit(GraphExtended((ADDMM,), VALUES[1:]))
    assert recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        (row,) = recording.values()
    assert row.value == VALUES[1]
    assert str(row.value.spec) == "float32 (?, 10)"


def test_statistics_in_the_order_of_the_first_releases(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="values")
    recorder.emit(RunStarted("0123456789abcdef", "t.py", (), 7, 1, TORCH))
    recorder.emit(GraphExtended((LOAD, ADDMM), VALUES))
    for count in (1.0, 2.0):
        recorder.emit(NodeFinished(ADDMM, (), (np.full((4, 10), count),), 0, 1, 20, 30))
    assert recorder.close()
    with closing(sqlite3.connect(path)) as database:
        (earlier,) = EARLIER
        database.executescript(
            f"ALTER TABLE summary RENAME TO newer; DROP INDEX summary_value; {earlier};"
            "INSERT INTO summary SELECT * FROM newer; DROP TABLE newer;"
        )
    with Recording.open(path) as recording:
        _, _, values = recording.history(2)
    assert [value and value.summary.mean for value in values] == [1.0, 2.0]

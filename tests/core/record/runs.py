"""Runs emitted by tests, without an engine."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nodescope.arrays import dtype_name
from nodescope.events import (
    Array,
    GraphExtended,
    Logged,
    NodeFinished,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
)
from nodescope.ir.graph import Node, SourceLocation, TensorSpec, Value
from nodescope.record.kept.packing import arrays_of, taken
from nodescope.record.measured.measured_table import values_of
from nodescope.record.measured.packing import unpacked as measured
from nodescope.record.recorder import Recorder
from nodescope.record.schema import shape_text

SPEC = TensorSpec((2, 3), "float32")
RUN = "0123456789abcdef"


def chain(names: Sequence[str]) -> GraphExtended:
    """Nodes in a row; node and value ids count from 1."""
    nodes = tuple(
        Node(
            number,
            name,
            "add",
            "elementwise",
            inputs=(number - 1,) if number > 1 else (),
            outputs=(number,),
            scope=name.rpartition("/")[0],
            source=SourceLocation(__file__, number),
        )
        for number, name in enumerate(names, 1)
    )
    return GraphExtended(nodes, tuple(Value(node.id, SPEC, node.name) for node in nodes))


def finished(node: Node, array: Array, *, step: int = 0, at: int = 0) -> NodeFinished:
    """An execution of 500 ns that starts at ``at`` ns."""
    return NodeFinished(node, (), (array,), step, 1, at, at + 500)


def record(recorder: Recorder, *, names: Sequence[str] = ("a/x", "a/y"), steps: int = 3) -> None:
    """A small whole run; value i of step s is filled with ``100 s + i``."""
    graph = chain(names)
    recorder.emit(RunStarted(RUN, "train.py", ("train.py", "-v"), 7, 1_000))
    recorder.emit(graph)
    time_ns = 0
    for step in range(1, steps + 1):
        recorder.emit(StepStarted(step, time_ns))
        for node in graph.nodes:
            array = np.full((2, 3), 100 * step + node.id, dtype=np.float32)
            recorder.emit(finished(node, array, step=step, at=time_ns))
            # The program may change its array later, which must not change the recording.
            array[:] = -1
            time_ns += 1_000
        recorder.emit(Logged("stdout", f"step {step}", step, time_ns))
        recorder.emit(StepFinished(step, time_ns))
    recorder.emit(RunFinished(0, "", time_ns))


def recorded(path: Path) -> Path:
    """A finished recording with full values."""
    recorder = Recorder(path, level="values")
    record(recorder)
    assert recorder.close()
    return path


def in_rows(path: Path) -> None:
    """Write what a recording has in columns into rows of their own, as earlier releases did."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("BEGIN")
    for first, last, values, data in database.execute("SELECT * FROM measured").fetchall():
        rows = measured(first, last, values_of(values), data).rows()
        database.executemany(f"INSERT INTO summary VALUES ({','.join('?' * 16)})", rows)
    database.execute("DELETE FROM measured")
    (number,) = database.execute("SELECT coalesce(max(blob), 0) FROM chunk").fetchone()
    for row in database.execute("SELECT * FROM pack").fetchall():
        chunks = "SELECT data FROM chunk WHERE blob = ? ORDER BY part"
        parts = database.execute(chunks, (row[2],)).fetchall()
        database.execute("DELETE FROM chunk WHERE blob = ?", (row[2],))
        elements = b"".join(part for (part,) in parts)
        for value, seq, array in arrays_of(taken((*row[:2], *row[5:])), elements):
            number += 1
            spec = (dtype_name(array.dtype), shape_text(array.shape), array.nbytes)
            database.execute("INSERT INTO blob VALUES (?,?,?,?,?,?)", (number, value, seq, *spec))
            database.execute("INSERT INTO chunk VALUES (?,0,?)", (number, array.tobytes()))
    database.execute("DELETE FROM pack")
    database.execute("COMMIT")
    database.close()


def last_acknowledged(program: str, path: Path, commits: int) -> int:
    """Kill a recording program after some commits; return the last seq that it printed.

    Args:
        program: Takes the recording's path, and prints the seq of each commit on a line.
    """
    root = str(Path(__file__).resolve().parents[3])
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])},
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as lines:
        acknowledged = [int(lines.readline()) for _ in range(commits)]
        process.send_signal(signal.SIGKILL)
        # The last line may be incomplete.
        acknowledged += [int(part) for part in lines.read().split("\n")[:-1]]
    process.wait(60)
    return max(acknowledged)

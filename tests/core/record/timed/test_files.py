"""Files with executions in columns: older ones, damaged ones, and those of killed programs."""

from __future__ import annotations

import lzma
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import RecordingError
from nodescope.record.files.page_checksums import read_seal
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import Execution
from tests.core.record.runs import chain, last_acknowledged
from tests.fixtures import schema_2

FOLDER = Path(str(schema_2.__file__)).parent


def test_a_recording_of_schema_2_shows_what_its_tables_say(tmp_path: Path) -> None:
    path = tmp_path / "old.nscope"
    path.write_bytes(lzma.decompress((FOLDER / "timing.nscope.xz").read_bytes()))
    before = path.read_bytes()
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as database:
        rows = database.execute("SELECT * FROM execution ORDER BY seq").fetchall()
        assert database.execute("PRAGMA user_version").fetchone() == (2,)
    assert len(rows) == 479
    executions = [Execution(*row[:7]) for row in rows]
    node = rows[100][1]
    own = [row for row in executions if row.node == node]
    with Recording.open(path) as recording:
        assert recording.schema == 2
        assert recording.executions() == executions
        assert recording.history(node)[1] == own
        assert recording.latest(node) == own[-1].seq
        assert recording.last_of(node, own[-1].seq) == own[-2]
        last = {row[1]: row for row in rows}
        assert recording.state_at(recording.last_seq()) == [
            (Execution(*row[:7]), row[7]) for row in sorted(last.values())
        ]
        costs = {cost.node: (cost.times, cost.total_ns) for cost in recording.costs()}
        assert costs[node] == (len(own), sum(row.duration_ns for row in own))
        assert recording.timeline(0, recording.time_ns(), 1000) == (479, executions)
        busy = recording.step_table.busy(0, recording.last_seq(), 1000)
        assert busy.tolist() == [[*row[:3], *row[4:6]] for row in rows]
    assert path.read_bytes() == before


def recorded(path: Path) -> Path:
    x = ns.parameter(np.ones(3), name="x")
    with ns.record(path, level="timing") as run:
        for _ in ns.steps(range(60)):
            for _ in range(40):
                np.tanh(x * 2.0)
            run.recorder.flush(30)
    return path


def test_the_intact_part_of_a_cut_recording_is_shown(tmp_path: Path) -> None:
    path, cut = recorded(tmp_path / "r.nscope"), tmp_path / "cut.nscope"
    sealed = read_seal(path)
    assert sealed is not None
    content = path.read_bytes()[: sealed.page * len(sealed.sums)]
    with Recording.open(path) as recording:
        everything = recording.executions()
    shown = []
    for part in range(8, 26):
        cut.write_bytes(content[: len(content) * part // 26])
        try:
            with Recording.open(cut) as recording:
                rows = recording.executions()
                assert all(row.seq <= recording.last_seq() for row in rows)
                assert recording.state_at(recording.last_seq()) is not None
        except RecordingError as error:
            assert "cut" in str(error)  # noqa: PT017
            continue
        assert set(rows) <= set(everything)
        shown.append(len(rows))
    assert max(shown) > len(everything) // 2


def test_executions_of_lost_nodes_are_left_out(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope")
    with Recording.open(path) as recording:
        node = recording.executions()[-1].node
        others = [row for row in recording.executions() if row.node != node]
    with closing(sqlite3.connect(path)) as database:
        database.execute("DELETE FROM node WHERE id = ?", (node,))
        some = "(SELECT first_seq FROM timed ORDER BY first_seq LIMIT 1 OFFSET 3)"
        held = database.execute(f"SELECT * FROM timed WHERE first_seq = {some}").fetchone()
        database.execute(f"UPDATE timed SET data = x'93' WHERE first_seq = {some}")
        database.commit()
        database.execute("VACUUM")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])  # A truncated file is read as far as it is intact.
    with Recording.open(path) as recording:
        assert "timed" in recording.note
        kept = [row for row in others if not held[0] <= row.seq <= held[1]]
        assert recording.executions() == kept
        assert recording.latest(node) == 0


KILLED = """
import sys, threading
from nodescope.record.recorder import Recorder
from tests.core.record.runs import chain
graph = chain(["x", "y"])
recorder = Recorder(sys.argv[1], level="timing", on_commit=lambda seq: print(seq, flush=True))
recorder.emit(graph)
note, start = recorder.times_sink(), 0
while True:
    for _ in range(500):
        note(1 + start % 2, 0, 7, start, start + 1)
        start += 1
    recorder.flush()
"""


@pytest.mark.parametrize("commits", [2, 9])
def test_kill_9_loses_nothing_that_was_acknowledged(commits: int, tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    acknowledged = last_acknowledged(KILLED, path, commits)
    with Recording.open(path) as recording:
        last = recording.last_seq()
        assert last >= acknowledged
        assert recording.dropped().executions == 0
        seqs = [row.seq for row in recording.executions(0, last)]
        assert seqs == list(range(seqs[0], last + 1))
        assert len(seqs) >= 500


def test_a_stop_can_keep_an_array_of_an_execution_in_columns(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="timing")
    graph = chain(["x"])
    recorder.emit(graph)
    note = recorder.times_sink()
    assert note is not None
    for start in range(100):
        note(1, 0, 7, start, start + 1)
    before = recorder.last_seq
    assert recorder.flush(30)
    recorder.keep(graph.nodes[0], 1, np.ones((2, 3), dtype=np.float32), before - 5)
    assert recorder.flush(30)
    recorder.keep(graph.nodes[0], 1, np.ones((2, 3), dtype=np.float32), before - 4)
    assert recorder.close()
    with Recording.open(path) as recording:
        rows = recording.executions()
        assert [row.start_ns for row in rows] == list(range(100))
        flagged = [row.seq for row in rows if row.flags]
        assert flagged == [before - 5, before - 4]
        assert recording.array(1, before - 5) is not None
        assert [times for _, times in recording.state_at(before - 5)] == [95]

"""Files with statistics in columns: older ones, damaged ones, and those of killed programs."""

from __future__ import annotations

import lzma
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest

from nodescope.errors import RecordingError
from nodescope.events import GraphExtended
from nodescope.ir.graph import Node
from nodescope.record.files.page_checksums import read_seal
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import HAS_INF, HAS_NAN, HAS_SUMMARY, Dropped
from nodescope.record.schema import SUMMARY, summary_of
from nodescope.record.summary import BINS
from tests.core.record.measured.test_packing import recorded
from tests.core.record.runs import chain, finished, last_acknowledged
from tests.fixtures import schema_3, schema_5

FOLDER = Path(str(schema_3.__file__)).parent
FOLDER_5 = Path(str(schema_5.__file__)).parent


def test_a_recording_of_schema_3_shows_what_its_tables_say(tmp_path: Path) -> None:
    path = tmp_path / "old.nscope"
    path.write_bytes(lzma.decompress((FOLDER / "summary.nscope.xz").read_bytes()))
    before = path.read_bytes()
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as database:
        rows = database.execute(f"SELECT value, {SUMMARY} FROM summary ORDER BY seq").fetchall()
        flagged = database.execute(
            "SELECT seq FROM execution WHERE flags & ? ORDER BY seq", (HAS_INF,)
        ).fetchall()
        assert database.execute("PRAGMA user_version").fetchone() == (3,)
    assert (len(rows), len(flagged)) == (322, 21)
    with Recording.open(path) as recording:
        assert recording.schema == 3
        for value, seq, _, *cells in rows:
            known = recording.latest_at(value, seq)
            assert known is not None
            assert (known.seq, known.summary) == (seq, summary_of(tuple(cells), blob=False))
        own = [row for row in rows if row[0] == rows[100][0]]
        assert [row[:3] for row in recording.means(own[0][0])] == [
            (row[1], row[2], row[8]) for row in own
        ]
        assert recording.kept_of([own[0][0]])[0] == (0, len(own))
        assert [(row.seq,) for row in recording.flagged(HAS_INF)] == flagged
        assert len(recording.statistics.at(recording.last_seq())) == len({row[0] for row in rows})
    assert path.read_bytes() == before


def test_a_recording_of_schema_5_shows_the_histograms_of_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "old.nscope"
    path.write_bytes(lzma.decompress((FOLDER_5 / "summary.nscope.xz").read_bytes()))
    before, many = path.read_bytes(), 0
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (5,)
        stored = database.execute("SELECT outputs, data FROM measured").fetchall()
    with Recording.open(path) as recording:
        assert recording.schema == 5
        assert recording.flagged(HAS_INF)
        for outputs, data in stored:
            cells = msgspec.msgpack.decode(data)
            count, histograms = cells[0], cells[11]
            kind = np.dtype(chr(histograms[0])).newbyteorder("<")
            counts = np.frombuffer(histograms[1:], kind).reshape(count, BINS)
            rows = [
                recording.latest_at(value, seq)
                for value in np.frombuffer(outputs, "<i8").tolist()
                for seq in range(1, recording.last_seq() + 1)
            ]
            shown = {row.summary.histogram for row in rows if row and row.summary.histogram}
            assert shown <= set(map(tuple, counts.tolist()))
            many += len(shown)
    assert many == 84
    assert path.read_bytes() == before


def test_the_intact_part_of_a_cut_recording_is_shown(tmp_path: Path) -> None:
    path, cut = recorded(tmp_path / "r.nscope"), tmp_path / "cut.nscope"
    sealed = read_seal(path)
    assert sealed is not None
    content = path.read_bytes()[: sealed.page * len(sealed.sums)]
    with Recording.open(path) as recording:
        everything = recording.means(1)
    shown = []
    for part in range(8, 26):
        cut.write_bytes(content[: len(content) * part // 26])
        try:
            with Recording.open(cut) as recording:
                means = recording.means(1)
        except RecordingError as error:
            assert "cut" in str(error)  # noqa: PT017
            continue
        assert set(means) <= set(everything)
        shown.append(len(means))
    assert max(shown) > len(everything) // 2


def test_statistics_of_lost_values_are_left_out(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope")
    with Recording.open(path) as recording:
        others = recording.means(2)
    with closing(sqlite3.connect(path)) as database:
        database.execute("DELETE FROM value WHERE id = 1")
        rows = database.execute("SELECT * FROM measured ORDER BY first_seq").fetchall()
        held = rows[3]
        database.execute("UPDATE measured SET data = x'93' WHERE first_seq = ?", held[:1])
        database.commit()
        database.execute("VACUUM")
    path.write_bytes(path.read_bytes()[:-1])  # A truncated file is read as far as it is intact.
    with Recording.open(path) as recording:
        assert "measured" in recording.note
        assert recording.means(1) == []
        shown = recording.means(2)
    kept = [row for row in others if not held[0] <= row[0] <= held[1]]
    assert shown == kept[: len(shown)]  # The last page is missing.
    assert shown[-1][0] > held[1]


KILLED = """
import sys
import numpy as np
from nodescope.record.recorder import Recorder
from tests.core.record.runs import chain
graph = chain(["x", "y"])
recorder = Recorder(sys.argv[1], level="summary", on_commit=lambda seq: print(seq, flush=True))
recorder.emit(graph)
note, start = recorder.outputs_sink(), 0
array = np.arange(6, dtype=np.float32).reshape(2, 3)
while True:
    for _ in range(500):
        node = graph.nodes[start % 2]
        assert note(node, node.id, 0, 7, start, start + 1, (array,) * len(node.inputs), (array,))
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
        assert recording.dropped() == Dropped()
        executions = recording.executions(0, last)
        seqs = [row.seq for row in executions]
        assert seqs == list(range(seqs[0], last + 1))
        assert {row.flags for row in executions} == {HAS_SUMMARY}
        known = sorted(row[0] for value in (1, 2) for row in recording.means(value))
        assert known == seqs
        assert len(seqs) >= 500


def test_a_stop_can_keep_an_array_of_an_output_in_columns(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="summary")
    graph = chain(["x"])
    recorder.emit(graph)
    for at in range(100):
        recorder.emit(finished(graph.nodes[0], np.full((2, 3), at, np.float32), step=at // 50))
    before = recorder.last_seq
    assert recorder.flush(30)
    recorder.keep(graph.nodes[0], 1, np.full((2, 3), 95, np.float32), before - 4, 1)
    assert recorder.close()
    with Recording.open(path) as recording:
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("SELECT count(*) FROM summary").fetchone() == (0,)
        assert recording.array(1, before - 4) is not None
        kept = recording.latest_at(1, before - 4)
        assert kept is not None
        assert (kept.summary.mean, kept.summary.blob) == (95.0, True)
        assert recording.steps_with_arrays() == {1}
        assert recording.kept_of([1])[0] == (1, 100)


def test_nan_is_found_among_outputs_in_columns(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="summary")
    graph = chain(["x"])
    recorder.emit(graph)
    for at in range(200):
        array = np.ones((2, 3), np.float32)
        array[0, 0] = np.nan if at in (70, 71) else np.inf if at == 150 else 1
        recorder.emit(finished(graph.nodes[0], array))
    assert recorder.close()
    with Recording.open(path) as recording:
        first = recording.executions()[0].seq
        assert [row.seq - first for row in recording.flagged(HAS_NAN)] == [70, 71]
        assert [row.seq - first for row in recording.flagged(HAS_INF)] == [150]
        state = [recording.state_at(first + at)[0] for at in (69, 70, 199)]
        assert [(row.flags, times) for row, times in state] == [
            (HAS_SUMMARY, 70), (HAS_SUMMARY | HAS_NAN, 71), (HAS_SUMMARY, 200),
        ]  # fmt: skip


def test_a_queue_that_is_full_keeps_statistics_in_place_of_copies(tmp_path: Path) -> None:
    """They are computed on the program's thread then, as for executions that come as events."""
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="summary", queue_bytes=400_000)
    recorder._give_way = lambda moments=1: None  # type: ignore[method-assign]
    node = Node(1, "x", "exp", "elementwise", outputs=(1,))
    recorder.emit(GraphExtended((node,), chain(["x"]).values))
    with recorder.lock:  # The writer cannot take rows from the queue meanwhile.
        for at in range(100):
            recorder.emit(finished(node, np.full((32, 32), at, np.float32)))
    assert recorder.close()
    with Recording.open(path) as recording:
        assert recording.dropped() == Dropped()
        assert [row[2] for row in recording.means(1)] == [float(at) for at in range(100)]


def test_an_open_recording_shows_what_is_added(tmp_path: Path) -> None:
    """From the first execution after those that were there when it was last asked."""
    recorder = Recorder(tmp_path / "r.nscope", level="summary")
    graph = chain(["x"])
    recorder.emit(graph)

    def run(first: int) -> None:
        for number in range(first, first + 100):  # enough for a row of columns
            recorder.emit(finished(graph.nodes[0], np.full(3, float(number))))
        assert recorder.flush(30)

    run(0)
    with Recording.open(tmp_path / "r.nscope") as recording:
        for lot in range(1, 4):
            before = recording.latest_at(1)
            assert before is not None
            assert before.summary.max == 100 * lot - 1
            run(100 * lot)
            added = recording.latest_at(1, before.seq + 1, arrays=lot % 2 == 0)
            assert added is not None
            assert (added.seq, added.summary.max) == (before.seq + 1, 100 * lot)
        assert recording._all("SELECT count(*) FROM measured") == [(4,)]
    assert recorder.close()

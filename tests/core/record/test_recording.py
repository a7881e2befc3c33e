"""The reader: slices, thinning, and invalid files."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from nodescope.errors import RecordingError
from nodescope.record import blobs, value_rows
from nodescope.record.files.page_checksums import read_seal
from nodescope.record.kept import stored_arrays
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.schema import APPLICATION_ID
from tests.core.record.runs import chain, finished, recorded
from tests.depth import count
from tests.parts import in_parts


@pytest.fixture
def path(tmp_path: Path, small_pages: None) -> Path:
    return recorded(tmp_path / "r.nscope")


def read_everything(path: Path) -> int:
    with Recording.open(path) as recording:
        recording.run()
        recording.nodes()
        recording.values()
        recording.gradients()
        recording.steps()
        recording.logs()
        recording.time_ns()
        recording.dropped()
        last = recording.last_seq()
        recording.state_at(last)
        recording.history(1)
        recording.timeline(0, 1 << 40, 100)
        for row in recording.executions():
            recording.array(row.node, row.seq)
            recording.array_slice(row.node, row.seq, (), 0, 0, 9, 9)
        return last


def test_the_past_is_as_it_was(path: Path) -> None:
    with Recording.open(path) as recording:
        rows = recording.executions()
        assert [row.node for row in rows] == [1, 2, 1, 2, 1, 2]
        middle = rows[2].seq
        state = recording.state_at(middle)
        assert [(event.node, event.step, times) for event, times in state] == [(2, 1, 1), (1, 2, 2)]
        at = recording.latest_at(2, middle)
        assert at is not None
        assert (at.seq, at.step, at.summary.mean) == (rows[1].seq, 1, 102)
        assert recording.latest_at(2, rows[0].seq) is None
        total, longest = recording.timeline(1_100, 2_100, 10)
        assert total == 2
        assert [item.seq for item in longest] == [rows[1].seq, rows[2].seq]
        assert recording.executions(rows[0].seq, rows[4].seq, node=1) == [rows[2], rows[4]]
        total, thinned, points = recording.history(1, limit=2)
        assert total == 3
        assert [item.seq for item in thinned] == [rows[0].seq, rows[4].seq]
        assert [point.summary.min if point else None for point in points] == [101, 301]
        assert recording.state_at(1 << 80) == []


@in_parts(2)
@pytest.mark.parametrize("chunk", [64, 1 << 20])
@pytest.mark.parametrize("dtype", ["f4", "i8", "?", "c16", ">f8"])
@pytest.mark.parametrize("shape", [(), (5,), (4, 7), (2, 3, 4, 7), (2, 0, 3), (0,)])
def test_slices(
    shape: tuple[int, ...], dtype: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(stored_arrays, "CHUNK_BYTES", chunk)
    array = (np.arange(int(np.prod(shape))) % 11).astype(dtype).reshape(shape)
    recorder = Recorder(tmp_path / "s.nscope", level="values")
    graph = chain(["x"])
    recorder.emit(graph)
    recorder.emit(finished(graph.nodes[0], array.T.copy().T))
    assert recorder.close()
    with Recording.open(tmp_path / "s.nscope") as recording:
        whole = recording.array(1, 2)
        assert whole is not None
        np.testing.assert_array_equal(whole, array)
        result = recording.array_slice(1, 2, (1, 9), 1, 2, 2, 3)
        assert result is not None
        window, grid, index = result
        if 0 in shape:
            assert window.size == 0
            return
        plane = array[1, 2] if len(shape) == 4 else np.atleast_2d(array)
        assert index == ((1, 2) if len(shape) == 4 else ())
        assert grid == plane.shape
        np.testing.assert_array_equal(window, np.abs(plane[1:3, 2:5].astype(array.dtype)))


def test_a_slice_of_complex_numbers_has_magnitudes_that_are_finite(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "s.nscope", level="values")
    graph = chain(["x"])
    recorder.emit(graph)
    recorder.emit(finished(graph.nodes[0], np.array([3e38 + 3e38j, 1j], np.complex64)))
    assert recorder.close()
    with Recording.open(tmp_path / "s.nscope") as recording:
        result = recording.array_slice(1, 2, (), 0, 0, 1, 2)
        assert result is not None
        np.testing.assert_allclose(result[0], [[18**0.5 * 1e38, 1.0]], rtol=1e-7)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04", "ZIP"),
        (b"\x93NUMPY", "NumPy"),
        (b"hello", "something else"),
        (b"SQLite format 3\x00", "ends after"),
    ],
)
def test_anything_but_a_recording_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.nscope").write_bytes(content)
    with pytest.raises(RecordingError, match=message):
        Recording.open(tmp_path / "x.nscope")


def test_other_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file"):
        Recording.open(tmp_path / "none.nscope")
    with pytest.raises(RecordingError, match="directory"):
        Recording.open(tmp_path)
    database = sqlite3.connect(tmp_path / "other.db")
    database.execute("CREATE TABLE t (x)")
    database.close()
    with pytest.raises(RecordingError, match="but not a recording"):
        Recording.open(tmp_path / "other.db")


def test_a_newer_schema_is_refused_by_name(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version=7")
    database.close()
    with pytest.raises(
        RecordingError, match=r"schema version 7; this nodescope reads up to 6.*upgrade"
    ):
        Recording.open(path)
    assert APPLICATION_ID == 0x6E736370


def test_cut_files_are_refused_or_read(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    cut = tmp_path / "cut.nscope"
    refused = 0
    places = range(0, len(whole), max(1, len(whole) // count(300, 100)))
    for place in places:
        cut.write_bytes(whole[:place])
        try:
            read_everything(cut)
        except RecordingError:
            refused += 1
        assert cut.read_bytes() == whole[:place]
        assert sorted(item.name for item in tmp_path.iterdir()) == ["cut.nscope", "r.nscope"]
    assert 0.5 < refused / len(places) < 1  # Some cut files are mostly intact: see test_salvage.


def test_flipped_bits_never_crash(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    flipped = tmp_path / "flipped.nscope"
    dice = random.Random(1)
    refused = 0
    for _ in range(count(300, 60)):
        content = bytearray(whole)
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        flipped.write_bytes(content)
        try:
            read_everything(flipped)
        except RecordingError:
            refused += 1
    assert refused > 0


def test_a_flipped_bit_of_an_array_is_noticed(path: Path, tmp_path: Path) -> None:
    with Recording.open(path) as recording:
        rows = recording.executions()
        arrays = {(row.node, row.seq): recording.array(row.node, row.seq) for row in rows}
    seq_of, array = next((key, a) for key, a in arrays.items() if a is not None and a.size > 1)
    sealed = read_seal(path)
    assert sealed is not None
    whole = path.read_bytes()[: sealed.page * len(sealed.sums)]  # Leave out the checksums of pages.
    place = whole.index(array.tobytes())
    flipped = tmp_path / "flipped.nscope"
    for bit in range(0, 8 * array.nbytes, 5):
        content = bytearray(whole)
        content[place + bit // 8] ^= 1 << bit % 8
        flipped.write_bytes(content)
        with pytest.raises(RecordingError, match="damaged"):
            read_everything(flipped)
        with (
            Recording.open(flipped) as recording,
            pytest.raises(RecordingError, match="differ from those that were written"),
        ):
            recording.array_slice(seq_of[0], seq_of[1], (), 0, 0, 9, 9)


def test_a_checksum_knows_whose_array_it_is(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("UPDATE blob SET value = value + 1000, dtype = 'int64' WHERE id = 1")
    database.commit()
    database.execute("SELECT 1")
    (value, seq) = database.execute("SELECT value, seq FROM blob WHERE id = 1").fetchone()
    database.close()
    with Recording.open(path) as recording, pytest.raises(RecordingError, match="damaged"):
        recording.array(value, seq)


def test_a_file_without_checksums_is_read(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("DROP TABLE checksum")
    database.close()
    assert read_everything(path) > 0


def test_a_dead_writers_log_is_read(path: Path, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "live.nscope", level="values")
    graph = chain(["x"])
    recorder.emit(graph)
    recorder.emit(finished(graph.nodes[0], np.ones(3)))
    assert recorder.flush()
    dead = tmp_path / "dead"
    dead.mkdir()
    for name in ("live.nscope", "live.nscope-wal"):
        shutil.copy(tmp_path / name, dead / name)
    before = (dead / "live.nscope").read_bytes()
    recorder.close()
    assert read_everything(dead / "live.nscope") == 2
    assert (dead / "live.nscope").read_bytes() == before


def test_a_value_has_the_shape_of_the_moment(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.nscope", level="summary")
    graph = chain(["a/x", "a/y"])
    recorder.emit(graph)
    ends = []
    for rows in (64, 64, 29, 64):
        for node in graph.nodes:
            recorder.emit(finished(node, np.zeros((rows, node.id), np.float32)))
        ends.append(recorder.last_seq)
    recorder.emit(finished(graph.nodes[0], np.zeros(3, np.float64)))
    assert recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert [(row.value.spec.shape, row.value.spec.dtype) for row in recording.values()] == [
            ((64, 2), "float32"),
            ((3,), "float64"),
        ]
        at = [{row.value.id: row.value.spec.shape for row in recording.reshaped(s)} for s in ends]
        assert at == [{1: (64, 1), 2: (64, 2)}] * 2 + [{1: (29, 1), 2: (29, 2)}] + at[:1]
        (late,) = recording.values(ends[3])
        assert (late.value.id, late.value.name, late.producer) == (1, "a/x", 1)
        assert [row.value.spec.shape for row in recording.values(until=ends[2])] == [
            (29, 1),
            (29, 2),
        ]


def test_shapes_that_always_change_are_followed_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_rows, "MOST_RESHAPED", 3)
    recorder = Recorder(tmp_path / "r.nscope", level="summary")
    graph = chain(["x"])
    recorder.emit(graph)
    for length in range(4, 20):
        recorder.emit(finished(graph.nodes[0], np.zeros(length)))
    assert recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        (row,) = recording.values()
    assert row.value.spec.shape == (6,)

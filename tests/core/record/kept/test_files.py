"""Files with many arrays in a row: damaged files, those of killed programs, small budgets."""

from __future__ import annotations

import lzma
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from nodescope.errors import RecordingError
from nodescope.events import GraphExtended, StepFinished, StepStarted
from nodescope.ir.graph import Node
from nodescope.record.files.page_checksums import read_seal
from nodescope.record.kept.packing import Pack, packed
from nodescope.record.measured.statistics import OutputSpec, Statistics
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import BEHIND, HAS_INF, HAS_SUMMARY, UNWRITTEN, WANTED, Dropped
from nodescope.record.writer import Writer
from tests.core.record.files.test_disk_space import EventLog, fill
from tests.core.record.runs import chain, finished, last_acknowledged
from tests.fixtures import schema_4

FOLDER = Path(str(schema_4.__file__)).parent
MANY = 900


def recorded(path: Path, many: int = MANY) -> Path:
    recorder = Recorder(path, level="values")
    graph = chain(["a", "b", "c"])
    recorder.emit(graph)
    for at in range(many):
        recorder.emit(finished(graph.nodes[at % 3], np.full((7, 3), at // 2, np.float32), at=at))
        if at % 100 == 99:
            assert recorder.flush(30)
    assert recorder.close()
    return path


def kept(recording: Recording) -> list[int]:
    """The kept arrays, each of which must be unchanged."""
    places = []
    for row in recording.executions():
        array = recording.array(row.node, row.seq)
        if array is not None:
            at = row.seq - 2
            assert (array == at // 2).all()
            assert row.node == at % 3 + 1
            places.append(at)
    return places


def test_many_arrays_are_kept_in_one_row(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope")
    with closing(sqlite3.connect(path)) as database:
        packs, arrays, nbytes = database.execute(
            "SELECT count(*), sum(arrays), sum(nbytes) FROM pack"
        ).fetchone()
        assert (database.execute("SELECT count(*) FROM blob").fetchone()) == (0,)
        assert 0 < packs <= 9
        assert arrays == MANY
        # Every second array equals the one before it and is not stored again.
        assert nbytes < 0.6 * MANY * 84
        assert database.execute("PRAGMA page_size").fetchone() == (1 << 16,)
    with Recording.open(path) as recording:
        assert kept(recording) == [*range(MANY)]
        assert recording.kept_arrays() == (MANY, nbytes)
        assert recording.kept_of([2])[0] == (MANY // 3, MANY // 3)
        assert recording.steps_with_arrays() == {0}
        assert {row.flags for row in recording.executions()} == {HAS_SUMMARY | WANTED}
        at = recording.latest_at(3, 300)
        assert at is not None
        assert at.summary.blob
        window = recording.array_slice(3, at.seq, (), 2, 1, 3, 9)
        assert window is not None
        assert (window[0] == (at.seq - 2) // 2).all()
        assert window[0].shape == (3, 2)


def test_the_intact_part_of_a_cut_recording_is_shown(tmp_path: Path, small_pages: None) -> None:
    path, cut = recorded(tmp_path / "r.nscope", 4 * MANY), tmp_path / "cut.nscope"
    sealed = read_seal(path)
    assert sealed is not None
    content = path.read_bytes()[: sealed.page * len(sealed.sums)]
    shown = []
    for part in range(8, 26):
        cut.write_bytes(content[: len(content) * part // 26])
        try:
            with Recording.open(cut) as recording:
                shown.append(len(kept(recording)))
        except RecordingError as error:
            assert "cut" in str(error)  # noqa: PT017
    assert max(shown) > 2 * MANY


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE pack SET outputs = x'00'",
        "UPDATE pack SET outputs = zeroblob(80)",
        "UPDATE pack SET data = x'93'",
        "UPDATE pack SET last_seq = last_seq + 300",
        "UPDATE pack SET last_seq = first_seq - 1",
        "UPDATE pack SET blob = blob + 1 WHERE first_seq < 300",
        "UPDATE chunk SET data = zeroblob(length(data))",
        "UPDATE chunk SET data = zeroblob(2000000)",
        "UPDATE chunk SET data = substr(data, 1, 40)",
        "DELETE FROM chunk",
    ],
)
def test_a_damaged_file_is_refused_in_one_way(damage: str, tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope")
    with closing(sqlite3.connect(path)) as database:
        database.execute(damage)
        database.commit()
    questions: tuple[Callable[[Recording], object], ...] = (
        lambda recording: recording.array(1, 200),
        lambda recording: recording.array_slice(1, 200, (), 0, 0, 9, 9),
    )
    for ask in questions:
        with Recording.open(path) as recording, pytest.raises(RecordingError, match="damaged"):
            ask(recording)


def test_a_row_that_claims_more_than_there_is_costs_no_time(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope")
    with closing(sqlite3.connect(path)) as database:
        first, data = database.execute("SELECT first_seq, data FROM pack").fetchone()
        cells = msgspec.msgpack.decode(data)
        cells[2], cells[3] = 1 << 42, [["float32", str((1 << 40) - 1), 4 * ((1 << 40) - 1)]]
        cells[8] = b"B" + bytes(cells[0])
        data = msgspec.msgpack.encode(cells)
        database.execute("UPDATE pack SET data = ? WHERE first_seq = ?", (data, first))
        database.execute("DELETE FROM checksum")
        database.commit()
    with Recording.open(path) as recording:
        asked, ask = [], recording._blobs._ask

        def count(*question: Any) -> list[Any]:
            asked.append(question)
            return ask(*question)

        recording._blobs._ask = count
        with pytest.raises(RecordingError, match="damaged"):
            recording.array(1, first)
        assert 0 < len(asked) < 10


def test_arrays_of_lost_chunks_are_left_out(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope")
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT first_seq, last_seq, blob FROM pack").fetchall()
        database.execute("DELETE FROM chunk WHERE blob = ?", rows[1][2:])
        database.execute("UPDATE pack SET data = x'93' WHERE first_seq = ?", rows[3][:1])
        database.commit()
        database.execute("VACUUM")
    path.write_bytes(path.read_bytes()[:-1])  # A truncated file is read as far as it is intact.
    with Recording.open(path) as recording:
        assert "pack" in recording.note
        shown = kept(recording)
    gone = [seq - 2 for first, last, _ in (rows[1], rows[3]) for seq in range(first, last + 1)]
    assert not {*gone} & {*shown}
    assert {*range(rows[4][0] - 2, rows[5][1] - 1)} <= {*shown}


KILLED = """
import sys
import numpy as np
from nodescope.record.recorder import Recorder
from tests.core.record.runs import chain
graph = chain(["a", "b", "c"])
recorder = Recorder(sys.argv[1], level="values")
recorder.emit(graph)
note, start = recorder.outputs_sink(), 0
while True:
    for _ in range(500):
        node = graph.nodes[start % 3]
        array = np.full((2, 3), start // 2, np.float32)
        assert note(node, node.id, 0, 7, start, start + 1, (array,) * len(node.inputs), (array,))
        start += 1
    if recorder.flush(20):
        print(recorder.last_seq, flush=True)
"""


@pytest.mark.parametrize("commits", [2, 9])
def test_kill_9_loses_nothing_that_was_acknowledged(commits: int, tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    acknowledged = last_acknowledged(KILLED, path, commits)
    with Recording.open(path) as recording:
        last = recording.last_seq()
        assert last >= acknowledged
        assert recording.dropped() == Dropped()
        shown = kept(recording)
        assert shown == [*range(len(shown))]
        assert len(shown) >= acknowledged - 1  # Later ones may wait, see `WaitingPacks`.


def test_a_queue_that_is_full_gives_up_the_oldest_elements(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="values", queue_bytes=400_000)
    recorder._give_way = lambda moments=1: None  # type: ignore[method-assign]
    node = Node(1, "x", "exp", "elementwise", outputs=(1,))
    recorder.emit(GraphExtended((node,), chain(["x"]).values))
    with recorder.lock:  # The writer cannot take rows from the queue meanwhile.
        for at in range(200):
            recorder.emit(finished(node, np.full((32, 32), at, np.float32)))
    assert recorder.close()
    with Recording.open(path) as recording:
        rows = recording.executions()
        arrays = [recording.array(1, row.seq) is not None for row in rows]
        assert 20 < sum(arrays) < 180
        assert arrays == sorted(arrays)  # The newest arrays are kept.
        for row, is_kept in zip(rows, arrays, strict=True):
            assert row.flags == HAS_SUMMARY | (WANTED if is_kept else BEHIND)
        gone = arrays.count(False)
        assert recording.dropped() == Dropped(blobs=gone)
        keeping = recording.keeping()
        assert keeping is not None
        assert (keeping.behind, keeping.over_budget) == (gone, 0)
        assert [row[2] for row in recording.means(1)] == [float(at) for at in range(200)]


def test_a_program_waits_for_the_writer_before_elements_are_given_up(tmp_path: Path) -> None:
    """Whether the memory was full, or new steps began."""
    path = tmp_path / "r.nscope"
    go, done = threading.Semaphore(0), threading.Semaphore(0)
    recorder = Recorder(
        path, level="values", queue_bytes=400_000, on_commit=lambda seq: done.release()
    )
    write = recorder.writer._write_some

    def held() -> int:
        assert go.acquire(timeout=60)
        return write()

    def give_way(moments: int = 1) -> None:
        go.release()
        assert done.acquire(timeout=60)

    recorder.writer._write_some = held  # type: ignore[method-assign]
    recorder._give_way = give_way  # type: ignore[method-assign]
    node = Node(1, "x", "exp", "elementwise", outputs=(1,))
    recorder.emit(GraphExtended((node,), chain(["x"]).values))
    for at in range(300):
        if at % 3 == 0:
            recorder.emit(StepStarted(at, at))
        recorder.emit(finished(node, np.full((32, 32), at, np.float32), step=at))
        if at % 3 == 2 and at < 250:
            recorder.emit(StepFinished(at, at))
    for _ in range(1000):
        go.release()
    assert recorder.close()
    with Recording.open(path) as recording:
        assert recording.dropped() == Dropped()
        assert recording.kept_arrays()[0] == 300


def test_a_full_disk_is_the_reason_of_executions_in_columns_too(tmp_path: Path) -> None:
    path, told = tmp_path / "r.nscope", EventLog()
    recorder = Recorder(path, level="values", on_room=told)
    node = Node(1, "x", "exp", "elementwise", outputs=(1,))
    recorder.emit(GraphExtended((node,), chain(["x"]).values))
    recorder.emit(finished(node, np.zeros(20, np.float32)))
    assert recorder.flush(20.0)
    fill(recorder, pages=15)
    for at in range(200):
        array = np.full(2000, at, np.float32)
        array[0] = np.nan if at == 50 else at
        recorder.emit(finished(node, array, at=at))
    assert recorder.close(20.0)
    assert told.full.is_set()
    with Recording.open(path) as recording:
        rows = recording.executions()
        assert len(rows) == 201
        assert {row.flags & (WANTED | UNWRITTEN) for row in rows[1:]} == {UNWRITTEN}
        assert rows[51].flags == HAS_SUMMARY | UNWRITTEN | 1
        assert recording.dropped() == Dropped(blobs=200)
        assert recording.run().trouble == "the disk was full: 200 arrays could not be recorded"


WEIGHT, LOSS, OTHER = 1, 2, 3
SPEC = OutputSpec("float64", "100", 800)


def pack_of(first: int, many: int = 100) -> Pack:
    """Arrays from a seq on, weight, loss and other in turn; each is filled with its seq."""
    seqs = np.arange(first, first + many)
    none = np.zeros(many, np.int64)
    of = Statistics(
        seqs, (seqs - 1) % 3 + 1, none, none, (SPEC,), none, none, none, np.zeros((many, 5)),
        np.zeros((many, 32), np.int64), np.zeros((many, 8)),
    )  # fmt: skip
    elements = np.repeat(seqs.astype(np.float64), 100).tobytes()
    return packed(of, np.arange(many) * 800, len(elements), lambda: (elements, b""))


def seqs_in(writer: Writer) -> tuple[list[tuple[int, int]], list[int]]:
    """Value and seq of arrays with a row of their own, and the first seqs of the others."""
    ask: Callable[[str], Any] = writer.connection.execute
    rows = ask("SELECT value, seq, id FROM blob ORDER BY seq").fetchall()
    for _, seq, number in rows:
        (data,) = ask(f"SELECT data FROM chunk WHERE blob = {number}").fetchone()
        assert (np.frombuffer(data) == seq).all()
    packs = ask("SELECT first_seq, blob FROM pack ORDER BY first_seq").fetchall()
    numbers = {number for (number,) in ask("SELECT DISTINCT blob FROM chunk")}
    assert numbers == {row[-1] for row in (*rows, *packs)}
    sums = ask("SELECT first, last FROM checksum").fetchall()
    covered = {number for first, last in sums for number in range(first, last + 1)}
    assert numbers <= covered
    return [row[:2] for row in rows], [first for first, _ in packs]


def test_the_oldest_make_room_together(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "r.nscope", budget_bytes=200_000)
    writer.begin()
    assert writer.arrays.add_packs([pack_of(1), pack_of(101)]) == 0
    assert writer.arrays.add([(OTHER, 201, np.full(100, 201.0))]) == 0
    assert writer.arrays.add_packs([pack_of(301)]) == 100
    writer.commit(400, 0, Dropped())
    assert seqs_in(writer) == ([(OTHER, 201)], [101, 301])
    writer.begin()
    # This pack needs more room than there is.
    assert writer.arrays.add_packs([pack_of(401, 300)]) == 201 + 300
    writer.commit(700, 0, Dropped())
    assert seqs_in(writer) == ([], [])
    writer.abandon()


def test_weights_losses_and_what_is_protected_outlast_the_others(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "r.nscope", budget_bytes=200_000)
    writer.begin()
    writer.arrays.keep_values(frozenset({WEIGHT}), frozenset({LOSS}))
    writer.arrays.protect(50, 54)
    assert writer.arrays.add_packs([pack_of(1), pack_of(101)]) == 0
    dropped = writer.arrays.add_packs([pack_of(201)])
    writer.commit(300, 0, Dropped())
    rows, packs = seqs_in(writer)
    assert packs == [101, 201] or packs == [201]
    assert dropped == 300 - len(rows) - 100 * len(packs)
    assert {seq for _, seq in rows} >= {50, 51, 52, 53}
    assert {value for value, seq in rows if not 50 <= seq < 54} <= {WEIGHT, LOSS}
    assert (WEIGHT, 1) in rows
    assert (LOSS, 2) in rows
    assert writer.arrays._nbytes == 800 * len(rows) + 80_000 * len(packs)
    writer.abandon()


def test_a_batch_that_failed_is_undone(tmp_path: Path) -> None:
    def content(failing: bool) -> Any:
        writer = Writer(tmp_path / f"{failing}.nscope", budget_bytes=200_000)
        writer.begin()
        writer.arrays.protect(50, 54)
        writer.arrays.add_packs([pack_of(1), pack_of(101)])
        writer.commit(200, 0, Dropped())
        if failing:
            before = seqs_in(writer)
            writer.begin()
            assert writer.arrays.add_packs([pack_of(201), pack_of(301)]) > 0
            writer.roll_back()
            assert seqs_in(writer) == before
        writer.begin()
        dropped = writer.arrays.add_packs([pack_of(201), pack_of(301)])
        writer.commit(400, 0, Dropped())
        outcome = seqs_in(writer), dropped, writer.arrays._nbytes
        writer.abandon()
        return outcome

    assert content(True) == content(False)


def test_a_reader_of_a_live_recording_sees_what_made_room(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "r.nscope", budget_bytes=200_000)
    writer.begin()
    writer.arrays.add_packs([pack_of(1), pack_of(101)])
    writer.commit(200, 0, Dropped())
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert recording.array(1, 1) is not None
        assert recording.kept_of([1])[0][0] == 67
        writer.begin()
        writer.arrays.add_packs([pack_of(201)])
        writer.commit(300, 0, Dropped())
        assert recording.array(1, 1) is None
        assert recording.array(1, 202) is not None
        assert recording.kept_of([1])[0][0] == 66
        assert recording.kept_arrays() == (200, 160_000)
    writer.abandon()


@pytest.mark.parametrize("level", ["summary", "values"])
def test_recordings_of_schema_4_show_what_their_tables_say(level: str, tmp_path: Path) -> None:
    path = tmp_path / "old.nscope"
    path.write_bytes(lzma.decompress((FOLDER / f"{level}.nscope.xz").read_bytes()))
    before = path.read_bytes()
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (4,)
        stored = database.execute(
            "SELECT value, seq, dtype, data FROM blob JOIN chunk ON blob = id"
        ).fetchall()
    assert len(stored) == (288 if level == "values" else 0)
    with Recording.open(path) as recording:
        assert recording.schema == 4
        executions = recording.executions()
        assert len(executions) == 288
        assert len(recording.flagged(HAS_INF)) > 0
        outputs = {row.node.id: row.node.outputs for row in recording.nodes()}
        for row in executions:
            for value in outputs[row.node]:
                at = recording.latest_at(value, row.seq)
                assert at is not None
                assert (at.seq, at.summary.blob) == (row.seq, level == "values")
                assert (recording.array(value, row.seq) is not None) == at.summary.blob
        for value, seq, dtype, data in stored:
            array = recording.array(value, seq)
            assert array is not None
            assert (array.tobytes(), str(array.dtype)) == (data, dtype)
        assert recording.kept_arrays()[0] == len(stored)
        assert len(recording.steps_with_arrays()) == (12 if stored else 0)
    assert path.read_bytes() == before

"""A recording from elsewhere is data: neither it nor the files beside it are opened for writing.

The tests make malicious files.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.cli import main
from nodescope.errors import RecordingError
from nodescope.export import export
from nodescope.record import validate
from nodescope.record.branches import keep
from nodescope.record.files import connection_limits, ownership, private_copies, salvage
from nodescope.record.files.connection_limits import QueryGuard
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.step_times.step_times import StepTimes
from nodescope.record.wal_checkpoint import fold
from tests.core.record.files.endless import endless_schema, endless_table
from tests.core.record.runs import chain, finished, recorded
from tests.core.record.test_branches import ROW

MAGIC = bytes.fromhex("d9d505f920a163d7")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for copies; a test checks that none is left."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return temporary


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """A recording taken out of an archive."""
    with ns.record(tmp_path / "made.nscope", level="values"):
        np.tanh(ns.tensor([1.0, 2.0]))
    made = tmp_path / "made.nscope"
    sent = tmp_path / "sent" / "run.nscope"
    sent.parent.mkdir()
    sent.write_bytes(made.read_bytes())
    return sent


def hot_journal(path: Path, names: Path) -> None:
    """Put a journal beside a recording that makes SQLite delete the file ``names``."""
    content = path.read_bytes()
    page = int.from_bytes(content[16:18], "big")
    first = content[:page]
    nonce = 7
    at, total = page - 200, nonce
    while at > 0:
        total += first[at]
        at -= 200
    head = MAGIC + struct.pack(">iIIII", 1, nonce, len(content) // page, 512, page)
    record = struct.pack(">I", 1) + first + struct.pack(">I", total & 0xFFFFFFFF)
    name = os.fsencode(names)
    pages = (1 << 30) // page + 1
    tail = struct.pack(">I", pages) + name + struct.pack(">II", len(name), sum(name)) + MAGIC
    path.with_name(path.name + "-journal").write_bytes(head.ljust(512, b"\0") + record + tail)


def state_of(path: Path) -> dict[str, tuple[bytes, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in path.parent.iterdir()}


def opened(path: Path) -> None:
    Recording.open(path).close()


ROADS: list[Callable[[Path], object]] = [
    opened,
    lambda path: main(["why", str(path)]),
    lambda path: main(["check", "--watch", "nan", str(path)]),
    lambda path: main(["export", str(path), "-o", str(path.parent.parent / "out.dot")]),
    lambda path: export(path, path.parent.parent / "out.svg", engine="dot"),
    lambda path: keep(path, ROW),
    lambda path: fold(path),
]


@pytest.mark.parametrize("road", range(len(ROADS)))
def test_a_journal_that_names_a_file_does_not_cost_it(
    road: int, sent: Path, folder: Path, tmp_path: Path
) -> None:
    canary = tmp_path / "thesis.tex"
    canary.write_text("mine")
    hot_journal(sent, canary)
    before = state_of(sent)
    with contextlib.suppress(RecordingError):
        ROADS[road](sent)
    assert canary.read_text() == "mine"
    assert state_of(sent) == before
    assert list(folder.iterdir()) == []


def test_faults_are_reported_without_naming_the_copy(sent: Path, folder: Path) -> None:
    whole = sent.read_bytes()
    sent.write_bytes(whole[: len(whole) // 4])
    with pytest.raises(RecordingError, match=r"^[^,]*/run.nscope is damaged: it was cut") as error:
        opened(sent)
    assert "cannot copy" not in str(error.value.__cause__)
    sent.write_bytes(whole)
    hot_journal(sent, sent)
    with pytest.raises(RecordingError, match=r"^[^,]*/run.nscope-journal names another file"):
        opened(sent)


def test_a_hot_journal_deletes_a_file_without_protection(sent: Path, tmp_path: Path) -> None:
    """SQLite does act on such a journal when it may write."""
    canary = tmp_path / "thesis.tex"
    canary.write_text("mine")
    hot_journal(sent, canary)
    database = sqlite3.connect(sent)
    database.execute("SELECT * FROM progress").fetchall()
    database.close()
    assert not canary.exists()


def test_comparing_recordings_does_not_delete_the_file_either(
    sent: Path, tmp_path: Path, folder: Path
) -> None:
    canary = tmp_path / "thesis.tex"
    canary.write_text("mine")
    hot_journal(sent, canary)
    assert main(["compare", "--no-browser", str(tmp_path / "made.nscope"), str(sent)]) == 2
    assert canary.read_text() == "mine"


@pytest.mark.parametrize("how", ["symlink", "hardlink", "fifo", "folder"])
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_what_lies_beside_and_leads_elsewhere_is_left_alone(
    how: str, suffix: str, sent: Path, tmp_path: Path, folder: Path
) -> None:
    canary = tmp_path / "canary"
    canary.write_bytes(b"mine" * 100)
    side = sent.with_name(sent.name + suffix)
    if how == "symlink":
        side.symlink_to(canary)
    elif how == "hardlink":
        os.link(canary, side)
    elif how == "fifo":
        os.mkfifo(side)
    else:
        side.mkdir()
    names = sorted(path.name for path in sent.parent.iterdir())
    for road in (opened, fold, lambda path: keep(path, ROW)):
        with contextlib.suppress(RecordingError):
            road(sent)
    assert canary.read_bytes() == b"mine" * 100
    assert sorted(path.name for path in sent.parent.iterdir()) == names
    assert list(folder.iterdir()) == []


def dead(tmp_path: Path) -> Path:
    """A killed program's recording and log, taken from elsewhere."""
    recorder = Recorder(tmp_path / "live.nscope", level="values")
    graph = chain(["x"])
    recorder.emit(graph)
    recorder.emit(finished(graph.nodes[0], np.ones(3)))
    assert recorder.flush(20.0)
    path = tmp_path / "dead" / "run.nscope"
    path.parent.mkdir()
    for suffix in ("", "-wal"):
        source = tmp_path / f"live.nscope{suffix}"
        path.with_name(path.name + suffix).write_bytes(source.read_bytes())
    assert recorder.close(20.0)
    return path


def test_a_log_is_read_in_a_copy_which_is_shared_and_does_not_stay(
    tmp_path: Path, folder: Path
) -> None:
    path = dead(tmp_path)
    before = state_of(path)
    with Recording.open(path) as first, Recording.open(path) as two:
        assert first.last_seq() == two.last_seq() == 2
        assert len(list(folder.iterdir())) == 1
    assert list(folder.iterdir()) == []
    assert state_of(path) == before
    assert not fold(path)
    assert state_of(path) == before


def test_closing_twice_takes_no_copy_from_another_reader(tmp_path: Path, folder: Path) -> None:
    path = dead(tmp_path)
    with Recording.open(path) as first, Recording.open(path):
        first.close()
        first.close()
        assert len(list(folder.iterdir())) == 1


def test_a_forked_child_that_ends_leaves_the_copies_of_its_parent(
    tmp_path: Path, folder: Path
) -> None:
    path = dead(tmp_path)
    script = (
        "import os, sys\nfrom nodescope.record.recording import Recording\n"
        "with Recording.open(sys.argv[1]):\n"
        "    child = os.fork()\n    if not child:\n"
        "        import atexit\n        atexit._run_exitfuncs()\n        os._exit(0)\n"
        "    os.waitpid(child, 0)\n    print(len(os.listdir(sys.argv[2])))\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, str(path), str(folder)],
        capture_output=True, text=True, check=True, env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip
    assert said.stdout == "1\n"


def test_copies_of_a_process_that_was_killed_go_with_the_next(tmp_path: Path, folder: Path) -> None:
    left = folder / "nodescope-copy-999999999-abc"
    left.mkdir()
    os.utime(left, (1, 1))
    opened(dead(tmp_path))
    assert list(folder.iterdir()) == []


def test_a_recording_in_a_folder_that_cannot_be_written(tmp_path: Path, folder: Path) -> None:
    path = dead(tmp_path)
    path.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with Recording.open(path) as recording:
            assert recording.last_seq() == 2
    finally:
        path.parent.chmod(stat.S_IRWXU)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("command", ["why", "check", "export", "open"])
@pytest.mark.parametrize("what", ["fifo", "/dev/zero"])
def test_anything_but_a_file_is_refused_at_once(
    command: str, what: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.nscope"
    if what == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(what)
    rest = {"check": ["--watch", "nan"], "export": ["-o", str(tmp_path / "g.dot")]}
    assert main([command, *rest.get(command, []), str(path)]) == 2
    said = capfd.readouterr().err
    assert len(said.splitlines()) == 1
    assert "run.nscope" in said


def changed(path: Path, *statements: str) -> Path:
    """The recording with a schema that SQLite itself would never write."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA writable_schema=ON")
    for statement in statements:
        database.execute(statement)
    database.close()
    return path


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT x FROM c"
SCHEMAS = {
    "view": ("DROP TABLE progress", f"CREATE VIEW progress(seq) AS {ENDLESS}"),
    "large": ("DROP TABLE log", "CREATE VIEW log AS SELECT zeroblob(1000000000) AS text"),
    "trigger": ("CREATE TRIGGER t AFTER INSERT ON branch BEGIN DELETE FROM node; END",),
    "other columns": ("DROP TABLE gradient", "CREATE TABLE gradient (seq, value, gradient)"),
    "generated": ("CREATE TABLE more (a INTEGER, b INTEGER AS (a + 1)) STRICT",),
    "default": ("CREATE TABLE more (a INTEGER DEFAULT (random())) STRICT",),
    "virtual": ("CREATE VIRTUAL TABLE more USING fts5(a)",),
    "expression": ("CREATE INDEX more ON node (abs(seq))",),
    "partial": ("CREATE INDEX more ON node (seq) WHERE seq > 1",),
    "no name": ("UPDATE sqlite_schema SET tbl_name = x'00ff' WHERE name = 'layout'",),
    "renamed": ("UPDATE sqlite_schema SET name = 'other' WHERE name = 'layout'",),
}


@pytest.mark.parametrize("what", SCHEMAS)
def test_a_schema_that_is_not_a_recordings_is_not_asked(what: str, tmp_path: Path) -> None:
    path = changed(recorded(tmp_path / "r.nscope"), *SCHEMAS[what])
    before = path.read_bytes()
    with pytest.raises(RecordingError, match=r"not a nodescope recording|damaged"):
        Recording.open(path)
    ownership.remember(path)
    if what not in ("renamed", "no name"):
        with pytest.raises(RecordingError, match=r"not a nodescope recording"):
            keep(path, ROW)
    assert path.read_bytes() == before


def test_plain_tables_of_a_later_nodescope_are_let_in(tmp_path: Path) -> None:
    path = changed(
        recorded(tmp_path / "r.nscope"),
        "CREATE TABLE later (seq INTEGER PRIMARY KEY, ns INTEGER NOT NULL) STRICT",
        "CREATE TABLE two (a INTEGER, b TEXT, PRIMARY KEY (a, b)) STRICT, WITHOUT ROWID",
        "CREATE INDEX later_ns ON later (ns)",
        "DROP TABLE step",
        "CREATE TABLE step (\n  step INTEGER PRIMARY KEY, start_seq INTEGER NOT NULL, "
        "start_ns INTEGER NOT NULL,\n  end_seq INTEGER, end_ns INTEGER\n) STRICT",
    )
    with Recording.open(path) as recording:
        assert recording.steps() == []


def test_a_question_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Recording.open(recorded(tmp_path / "r.nscope")) as recording:
        monkeypatch.setattr(connection_limits, "PATIENCE_S", 0.2)
        with pytest.raises(RecordingError, match=r"not answered within 0.2 s"):
            recording._all(COUNT)
        monkeypatch.setattr(connection_limits, "PATIENCE_S", 60.0)
        with pytest.raises(RecordingError, match="more rows than fit"):
            recording._all(ENDLESS)
        assert recording.last_seq() > 0


def crafted(tmp_path: Path, mib: int, monkeypatch: pytest.MonkeyPatch, table: str = "log") -> Path:
    """An endless table in a file too large to be checked whole, most of which is a hole."""
    path = endless_table(recorded(tmp_path / "r.nscope"), table)
    monkeypatch.setattr(validate, "_CHECKED_BYTES", 1 << 20)
    page = int.from_bytes(path.read_bytes()[16:18], "big")
    os.truncate(path, mib << 20)
    with path.open("r+b") as file:
        file.seek(28)
        file.write(((mib << 20) // page).to_bytes(4, "big"))
    return path


def test_a_query_takes_as_long_as_its_file_requires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = crafted(tmp_path, 2, monkeypatch)
    monkeypatch.setattr(connection_limits, "BASE_S", 0.1)
    monkeypatch.setattr(connection_limits, "BYTES_A_SECOND", 10e6)
    with Recording.open(path) as recording:
        start = time.thread_time()
        with pytest.raises(RecordingError, match=r"did not end in the time that its 2,097,152 byt"):
            recording._all("SELECT sum(step) FROM log")
        assert 0.2 < time.thread_time() - start < 3
        assert recording.last_seq() > 0  # Other queries are answered.


def test_pages_of_an_endless_table_are_not_read_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = crafted(tmp_path, 2, monkeypatch, "execution")
    with Recording.open(path) as recording:
        with pytest.raises(RecordingError, match="executions are not in order"):
            recording.executions(0, limit=1000)
        with pytest.raises(RecordingError, match="executions are not in order"):
            StepTimes().update(recording)


def test_a_hole_in_a_file_gives_a_query_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = crafted(tmp_path, 1 << 12, monkeypatch)
    assert path.stat().st_blocks * 512 < 1 << 20
    monkeypatch.setattr(connection_limits, "BYTES_A_SECOND", 1e9)
    monkeypatch.setattr(connection_limits, "BASE_S", 0.0)
    with (
        Recording.open(path) as recording,
        pytest.raises(RecordingError, match=r"that its [67]\d,\d{3},\d{3} bytes take"),
    ):
        recording._all("SELECT sum(step) FROM log")


def test_a_question_is_broken_off_from_another_thread(tmp_path: Path) -> None:
    recording = Recording.open(recorded(tmp_path / "r.nscope"))
    threading.Timer(0.1, recording.interrupt).start()
    with pytest.raises(RecordingError, match="is closed"):
        recording._all(COUNT)
    recording.close()


COUNT = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT count(*) FROM c"
ASKING = """
import sys
from nodescope.record.recording import Recording
recording = Recording.open(sys.argv[1])
try:
    print("asking", flush=True)
    recording._all(sys.argv[2])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_question(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope")
    with subprocess.Popen(
        [sys.executable, "-c", ASKING, str(path), COUNT], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asking\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
    assert process.returncode == 0


@pytest.mark.parametrize("beside", ["", "-journal"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_schema_without_an_end_is_not_read_for_long(
    whole: bool, beside: str, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = endless_schema(recorded(tmp_path / "r.nscope"))
    if beside:
        (tmp_path / f"r.nscope{beside}").write_bytes(b"")
    for place in (validate, private_copies):
        monkeypatch.setattr(place, "OPENING_S", 0.2)
    monkeypatch.setattr(validate, "GLANCE_S", 0.1)
    expected = r"not answered within 0.1 s" if not whole and not beside else "within 0.2 s"
    with pytest.raises(RecordingError, match=expected):
        Recording.open(path, whole=whole)
    assert list(folder.iterdir()) == []


def test_ctrl_c_ends_the_opening_of_a_schema_without_an_end(tmp_path: Path, folder: Path) -> None:
    path = endless_schema(recorded(tmp_path / "r.nscope"))
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        Recording.open(path)
    assert list(folder.iterdir()) == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("table", ["log", "progress"])
def test_a_table_without_an_end_is_salvaged_within_limits(
    table: str, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = endless_table(recorded(tmp_path / "r.nscope"), table)
    if table == "log":  # No row is salvaged twice, so the time limit ends the salvage.
        monkeypatch.setattr(salvage, "PATIENCE_S", 1.0)
    with Recording.open(path) as recording:
        assert "damaged" in recording.note
        assert table in recording.note
        assert recording.last_seq() > 0
        (copy,) = folder.glob("*/recording")
        assert copy.stat().st_size < 4 << 20
    assert list(folder.iterdir()) == []


def test_a_query_that_is_overdue_is_a_gap_of_its_table_alone(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Early(QueryGuard):  # ends the query in the middle of a part, not between two
        def within(self, seconds: float) -> Early:
            return super().within(min(seconds, 0.2))

    path = endless_table(recorded(tmp_path / "r.nscope"), "log")
    monkeypatch.setattr(salvage, "guard", Early)
    with Recording.open(path) as recording:
        assert "log" in recording.note
        assert recording.last_seq() > 0
    assert list(folder.iterdir()) == []


@pytest.mark.deep
def test_ctrl_c_ends_a_salvage(tmp_path: Path, folder: Path) -> None:
    path = endless_table(recorded(tmp_path / "r.nscope"), "log")
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        Recording.open(path)
    assert list(folder.iterdir()) == []


def test_a_row_that_is_too_large_is_not_taken_into_memory(tmp_path: Path) -> None:
    with (
        Recording.open(recorded(tmp_path / "r.nscope")) as recording,
        pytest.raises(RecordingError, match="too big"),
    ):
        recording._all("SELECT zeroblob(900000000)")


def test_a_file_is_vouched_for_only_under_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once a recording is deleted, a file from elsewhere may get its inode number.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path, link = recorded(tmp_path / "r.nscope"), tmp_path / "link.nscope"
    (tmp_path / "state" / "nodescope" / "made").chmod(0o777)  # The ledger does not count.
    link.symlink_to(path)
    vouched = ownership.vouch(link)
    assert ownership.in_place(path)
    path.rename(tmp_path / "other.nscope")
    assert not ownership.in_place(tmp_path / "other.nscope")
    (tmp_path / "other.nscope").rename(path)
    assert ownership.in_place(path)
    ownership.release(vouched)
    assert not ownership.in_place(path)


def test_the_ledger_is_believed_only_where_nobody_else_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = recorded(tmp_path / "r.nscope")
    assert ownership.in_place(path)
    (tmp_path / "state" / "nodescope" / "made").chmod(0o777)
    assert not ownership.in_place(path)

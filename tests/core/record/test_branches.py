"""Branches in the file: kept, renamed, thrown away; nothing else of the recording changes."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import msgspec
import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import RecordingError
from nodescope.protocol import SetValue
from nodescope.record import branches
from nodescope.record.branches import BranchRow, drop, keep, read_branches, rename
from nodescope.record.files.ownership import in_place, remember
from nodescope.record.recording import Recording

ROW = BranchRow(
    id=3, parent=0, name="half the rate", step=2, last_step=2, at_seq=17, until_seq=40,
    made_unix_ns=1,
    how="w × 0.5", edit=SetValue(5, "npy", npy=b"\x93NUMPY\x00", index="1:3"), node=7,
    changed=4, same=1, blocked=0, nbytes=24, digest=b"\x01\xff",
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    result = tmp_path / "r.nscope"
    with ns.record(result, level="values"):
        np.tanh(ns.tensor([1.0, 2.0]))
    return result


def read(path: Path) -> list[BranchRow]:
    with Recording.open(path) as recording:
        return read_branches(recording)


def content(path: Path) -> list[str]:
    database = sqlite3.connect(path)
    try:
        return [line for line in database.iterdump() if "branch" not in line]
    finally:
        database.close()


def test_a_branch_is_kept_renamed_and_deleted(path: Path) -> None:
    before = content(path)
    assert read(path) == []
    child = msgspec.structs.replace(ROW, id=4, parent=3, name="日本 <b>")
    keep(path, ROW)
    keep(path, child)
    assert read(path) == [ROW, child]
    rename(path, 3, "other")
    assert [item.name for item in read(path)] == ["other", "日本 <b>"]
    drop(path, [3, 4, 99])
    assert read(path) == []
    assert content(path) == before
    assert not list(path.parent.glob("*-wal"))


def test_another_server_may_have_taken_the_id(path: Path) -> None:
    assert keep(path, ROW) == ROW
    other = msgspec.structs.replace(ROW, name="of another server")
    result = keep(path, other)
    assert (result.id, result.name) == (4, "of another server")
    assert read(path) == [ROW, result]


def test_a_recording_without_the_table_gets_it(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("DROP TABLE branch")
    database.close()
    assert read(path) == []
    keep(path, ROW)
    assert read(path) == [ROW]


def test_a_run_that_is_being_recorded(tmp_path: Path) -> None:
    path = tmp_path / "live.nscope"
    with ns.record(path, level="values"):
        for _ in range(50):
            np.tanh(ns.tensor([1.0]))
        keep(path, ROW)
        np.exp(ns.tensor([1.0]))
    assert read(path) == [ROW]
    with Recording.open(path) as recording:
        assert [node.node.op for node in recording.nodes()][-1] == "exp"


def test_what_cannot_be_written_or_read_is_reported(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "_PATIENCE_S", 0.05)
    with pytest.raises(RecordingError, match="cannot open the recording"):
        keep(tmp_path / "none.nscope", ROW)
    database = sqlite3.connect(path)
    database.execute("INSERT INTO branch VALUES (1, 0, 'x', 1, 1, '', x'ff')")
    database.commit()
    with pytest.raises(RecordingError, match="a branch cannot be read"):
        read(path)
    remember(path)
    database.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(RecordingError, match=r"cannot be written \(database is locked\)"):
            keep(path, ROW)
    finally:
        database.close()


def test_a_server_that_dies_while_it_keeps_a_branch_damages_nothing(path: Path) -> None:
    before = path.read_bytes()
    database = sqlite3.connect(path, isolation_level=None)
    # A small cache makes SQLite write pages before the transaction ends.
    database.execute("PRAGMA cache_size=1")
    database.execute("BEGIN IMMEDIATE")
    for number in range(1, 40):
        row = (number, 0, "x", 0, 0, "how", bytes(3000))
        database.execute("INSERT INTO branch VALUES (?,?,?,?,?,?,?)", row)
    journal = path.with_name(path.name + "-journal")
    left = journal.read_bytes()
    database.execute("COMMIT")
    database.close()
    page = int.from_bytes(before[16:18], "big")
    path.write_bytes(path.read_bytes()[:page] + before[page:])
    journal.write_bytes(left)
    cut = path.read_bytes()
    assert read(path) == []
    # A copy is rolled back, because SQLite would delete the journal of the file itself.
    assert journal.read_bytes() == left
    assert path.read_bytes() == cut
    assert keep(path, ROW) == ROW
    assert read(path) == [ROW]
    assert path.read_bytes() == cut


def test_branches_of_a_foreign_recording_are_kept_in_a_file_of_our_own(
    path: Path, tmp_path: Path
) -> None:
    child = msgspec.structs.replace(ROW, id=4, parent=3)
    keep(path, ROW)
    sent = tmp_path / "sent.nscope"
    sent.write_bytes(path.read_bytes())  # The copy holds no sign that the recording was made here.
    before = sent.read_bytes()
    assert keep(sent, ROW).id == 4
    keep(sent, msgspec.structs.replace(child, id=5))
    assert [row.id for row in read(sent)] == [3, 4, 5]
    rename(sent, 3, "other")
    drop(sent, [4])
    assert [(row.id, row.name) for row in read(sent)] == [(3, "other"), (5, "half the rate")]
    drop(sent, [3, 5])
    assert read(sent) == []
    assert sent.read_bytes() == before
    assert sorted(item.name for item in tmp_path.iterdir()) == ["r.nscope", "sent.nscope"]


def test_a_recording_that_anybody_else_changed_is_not_ours(path: Path) -> None:
    assert in_place(path)
    os.utime(path, ns=(1, 1))
    assert not in_place(path)
    remember(path)
    assert in_place(path)
    os.link(path, path.with_name("other.nscope"))
    assert not in_place(path)


@pytest.mark.parametrize("what", ["no home", "no such name"])
def test_without_a_place_of_our_own_a_recording_from_elsewhere_is_read(
    what: str, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = tmp_path / "sent.nscope"
    sent.write_bytes(path.read_bytes())
    if what == "no home":

        def nowhere() -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", nowhere)
    else:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("x" * 300)))
    with Recording.open(sent) as recording:
        assert read_branches(recording) == []
    with pytest.raises(RecordingError, match=r"cannot be (kept|written)"):
        keep(sent, ROW)

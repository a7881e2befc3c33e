"""The seal of a finished recording: any changed bit is noticed, and the rest is shown."""

from __future__ import annotations

import random
import sqlite3
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest

import nodescope as ns
from nodescope import native
from nodescope.cli import main
from nodescope.errors import RecordingError
from nodescope.protocol import SetValue
from nodescope.record import branches, queue_writer, validate
from nodescope.record.files import page_checksums
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import Dropped
from nodescope.record.writer import Writer
from tests.core.record.runs import chain, finished
from tests.depth import count, some

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sealed") / "whole.nscope"
    weight = ns.parameter(np.ones((8, 8)), name="w")
    with (
        patch.object(queue_writer, "LARGE_PAGE_BYTES", PAGE),
        # Each execution has its own row, so the rows fill several pages.
        patch.object(native, "NotedOutputs", None),
        ns.record(path, level="values") as run,
    ):
        for step in ns.steps(range(60)):
            with ns.name_scope("model"):
                np.tanh(weight * float(step)).sum()
            run.log("stdout", f"step {step}")
    return path


def shown(path: Path) -> tuple[str, list[Any]]:
    """The note, and everything that a reader can show."""
    with Recording.open(path) as recording:
        last = recording.last_seq()
        arrays = []
        for row in recording.executions():
            for value in next(
                (node.node.outputs for node in recording.nodes() if node.node.id == row.node), ()
            ):
                array = recording.array(value, row.seq)
                arrays.append(None if array is None else array.tobytes())
                arrays.append(repr(recording.latest_at(value, row.seq)))
        everything = [
            msgspec.structs.replace(recording.run(), trouble="", recording=""),
            last, recording.dropped(), recording.time_ns(), recording.nodes(), recording.values(),
            recording.gradients(), recording.steps(), recording.logs(), recording.executions(),
            recording.state_at(last), recording.calls(), recording.edits(), recording.branches(),
            recording.timeline(0, 1 << 62, 10_000), recording.host(0, 1 << 62, 10_000), arrays,
        ]  # fmt: skip
        return recording.note, everything


def pages_of(path: Path, table: str) -> list[int]:
    """The leaf pages of a table, counted from 0, by SQLite's own table of pages or its tree."""
    content = path.read_bytes()
    database = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
    (root,) = database.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)
    ).fetchone()
    database.close()
    result, waiting = [], [root - 1]
    while waiting:
        number = waiting.pop()
        start = number * PAGE
        kind, cells = content[start], int.from_bytes(content[start + 3 : start + 5], "big")
        if kind != 5:
            result.append(number)
            continue
        waiting.append(int.from_bytes(content[start + 8 : start + 12], "big") - 1)
        for cell in range(cells):
            at = start + int.from_bytes(
                content[start + 12 + 2 * cell : start + 14 + 2 * cell], "big"
            )
            waiting.append(int.from_bytes(content[at : at + 4], "big") - 1)
    return sorted(result)


def test_a_flipped_bit_is_noticed_or_the_same_is_shown(whole: Path, tmp_path: Path) -> None:
    content = whole.read_bytes()
    note, everything = shown(whole)
    assert not note
    flipped = tmp_path / "flipped.nscope"
    dice = random.Random(0)
    places = [dice.randrange(8 * len(content)) for _ in range(count(120))]
    places += some(range(8 * 16, 8 * 100, 13), 3)  # The header of the SQLite file.
    noticed = 0
    for place in places:
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        flipped.write_bytes(changed)
        try:
            note, result = shown(flipped)
        except RecordingError as error:
            assert "damaged" in str(error)  # noqa: PT017
            noticed += 1
            continue
        assert note or result == everything, f"bit {place}"
        noticed += bool(note)
        assert flipped.read_bytes() == changed
    assert noticed > 0.55 * len(places)
    assert [path.name for path in tmp_path.iterdir()] == ["flipped.nscope"]


@pytest.mark.parametrize("table", ["execution", "summary", "log", "chunk", "step"])
@pytest.mark.parametrize("how", ["zeros", "noise"])
def test_the_rest_of_a_recording_with_a_damaged_page_is_shown(
    table: str, how: str, whole: Path, tmp_path: Path
) -> None:
    content = bytearray(whole.read_bytes())
    pages = pages_of(whole, table)
    number = pages[len(pages) // 2]
    fresh = bytes(PAGE) if how == "zeros" else random.Random(1).randbytes(PAGE)
    content[number * PAGE : (number + 1) * PAGE] = fresh
    damaged = tmp_path / "damaged.nscope"
    damaged.write_bytes(content)
    note, result = shown(damaged)
    assert f"1 of its {len(page_checksums.read_seal(whole).sums):,} pages changed" in note  # type: ignore[union-attr]
    assert f"at byte {number * PAGE:,}; the intact part is shown; missing: rows of " in note
    assert table in note
    with Recording.open(whole) as before, Recording.open(damaged) as after:
        assert before.run().id == after.run().id
        assert {node.node.id for node in after.nodes()} == {node.node.id for node in before.nodes()}
        assert set(after.executions()) <= set(before.executions())
        assert set(after.logs()) <= set(before.logs())
        if table == "execution":
            assert len(after.executions()) > len(before.executions()) // 4
            assert after.logs() == before.logs()
        else:
            assert after.executions() == before.executions() or table == "step"
    assert result


@pytest.mark.parametrize("how", ["zeros", "noise"])
def test_a_damaged_header_is_restored(how: str, whole: Path, tmp_path: Path) -> None:
    content = bytearray(whole.read_bytes())
    content[:PAGE] = bytes(PAGE) if how == "zeros" else random.Random(2).randbytes(PAGE)
    damaged = tmp_path / "damaged.nscope"
    damaged.write_bytes(content)
    note, result = shown(damaged)
    assert "at byte 0; the intact part is shown" in note
    assert "missing" not in note
    assert result == shown(whole)[1]


def test_a_damaged_page_is_reported_on_the_command_line(
    whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(whole.read_bytes())
    content[pages_of(whole, "log")[0] * PAGE + 4000] ^= 1
    damaged = tmp_path / "damaged.nscope"
    damaged.write_bytes(content)
    main(["check", "--watch", "nan", str(damaged)])
    assert "is damaged: 1 of its" in capfd.readouterr().err


def test_a_damaged_page_without_a_seal(whole: Path, tmp_path: Path) -> None:
    """As in files of earlier releases: SQLite notices the damage, and the rest is shown."""
    result = page_checksums.read_seal(whole)
    assert result is not None
    content = bytearray(whole.read_bytes()[: result.page * len(result.sums)])
    pages = pages_of(whole, "execution")
    number = pages[len(pages) // 2]
    content[number * PAGE : (number + 1) * PAGE] = bytes(PAGE)
    damaged = tmp_path / "damaged.nscope"
    damaged.write_bytes(content)
    note, _ = shown(damaged)
    assert "is damaged" in note
    assert "the intact part is shown; missing: rows of execution" in note
    assert result.page == PAGE


def test_a_recording_without_a_seal_or_with_a_damaged_one_is_read(
    whole: Path, tmp_path: Path
) -> None:
    result = page_checksums.read_seal(whole)
    assert result is not None
    content, end = whole.read_bytes(), result.page * len(result.sums)
    everything = shown(whole)[1]
    other = tmp_path / "other.nscope"
    for changed in (content[:end], content[: end + 2000], content[:-3], content + b"more"):
        other.write_bytes(changed)
        assert page_checksums.read_seal(other) is None
        assert shown(other) == ("", everything)
    for place in (end + 20, end + PAGE + 2, len(content) - 30, len(content) - 5):
        other.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert page_checksums.read_seal(other) is None
        assert shown(other) == ("", everything)


def test_a_kept_branch_is_not_damage(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.nscope"
    recorder = Recorder(path, level="values")
    graph = chain(["x"])
    recorder.emit(graph)
    recorder.emit(finished(graph.nodes[0], np.ones(3)))
    assert recorder.close()
    assert page_checksums.read_seal(path) is not None
    row = branches.BranchRow(
        1,
        0,
        "try",
        0,
        2,
        0,
        2,
        1,
        "w = 2",
        SetValue(1, "set", number=2.0),
        1,
        1,
        0,
        0,
        8,
        b"x" * 9000,
    )
    branches.keep(path, row)
    assert page_checksums.read_seal(path) is not None  # The seal is valid for the new contents.
    assert page_checksums.faults(path, page_checksums.read_seal(path)) == []  # type: ignore[arg-type]
    with Recording.open(path) as recording:
        assert not recording.note
        assert [read_branch.name for read_branch in branches.read_branches(recording)] == ["try"]
    database = sqlite3.connect(path)  # A change by other means, or by an earlier release.
    database.execute("UPDATE progress SET time_ns = 7")
    database.commit()
    database.close()
    assert page_checksums.read_seal(path) is None
    assert shown(path)[0] == ""


def test_each_page_is_read_once_however_often_it_is_opened(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate, "_intact", {})
    read: list[Path] = []

    def counted(path: Path, of: page_checksums.Seal) -> list[int]:
        read.append(path)
        return page_checksums.faults(path, of)

    monkeypatch.setattr(validate, "faults", counted)
    for _ in range(4):
        Recording.open(whole).close()
    assert len(read) == 1


def test_a_folder_without_room_costs_the_seal_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_checksums, "MOST_BYTES", 0)
    path = tmp_path / "large.nscope"
    recorder = Recorder(path, level="values")
    recorder.emit(chain(["x"]))
    assert recorder.close()
    assert page_checksums.read_seal(path) is None
    assert shown(path)[0] == ""


def test_a_reader_of_this_process_keeps_its_locks(tmp_path: Path) -> None:
    """Closing any descriptor of a file would give up the locks that the process has on it."""
    path = tmp_path / "live.nscope"
    recorder = Recorder(path, level="values")
    graph = chain(["x"])
    recorder.emit(graph)
    recorder.emit(finished(graph.nodes[0], np.ones(3)))
    assert recorder.flush()
    opened: list[str] = []
    main_thread = threading.get_ident()
    real_open = Path.open

    def spied(self: Path, *rest: Any, **more: Any) -> Any:
        if self.name == path.name and threading.get_ident() == main_thread:
            opened.append(self.name)
        return real_open(self, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", spied)
        with Recording.open(path), Recording.open(path) as second:
            assert second.last_seq() == 2
    assert not opened
    assert recorder.close()


def test_damage_is_reported_once(whole: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.nscope"
    other.write_bytes(whole.read_bytes())
    database = sqlite3.connect(other)
    database.execute("CREATE VIEW node2 AS SELECT * FROM node")
    database.commit()
    database.close()
    with pytest.raises(RecordingError) as caught:
        Recording.open(other)
    assert str(caught.value).count(str(other)) == 1


@pytest.mark.parametrize("page", [512, 4096, 1 << 15, 1 << 16])
def test_pages_of_any_size_are_sealed(tmp_path: Path, page: int) -> None:
    path = tmp_path / "run.nscope"
    writer = Writer(path, budget_bytes=1 << 24, page_bytes=page)
    writer.begin()
    writer.arrays.add([(1, 1, np.arange(40_000.0))])
    writer.commit(1, 0, Dropped())
    writer.finish()
    seal = page_checksums.read_seal(path)
    assert seal is not None
    assert seal.page == page
    assert page_checksums.faults(path, seal) == []
    content = bytearray(path.read_bytes())
    for place in (1, len(seal.sums) // 2, len(seal.sums) - 1):
        content[place * page + page // 2] ^= 1
        path.write_bytes(content)
        assert page_checksums.faults(path, seal) == [place]
        content[place * page + page // 2] ^= 1

"""What the start page, and the page at the end of a run, show of a recording."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nodescope.debug.report.run_summary import summarise_run
from nodescope.protocol import RunInfo
from nodescope.record import overview
from nodescope.record.recording import Recording
from nodescope_server.http.start_page import _as_told, _commands, _size
from nodescope_server.runs.runs import Runs
from tests.server.support import Program


def test_commands_report_a_deleted_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert _commands(folder / "r.nscope")[0].line == "nodescope open r.nscope"
    folder.rmdir()
    assert _commands(tmp_path / "r.nscope")[0].line == f"nodescope open {tmp_path / 'r.nscope'}"


def _left_behind(program: Program, folder: Path) -> Path:
    """The files of a running or killed program: the recording and its log."""
    program.execute(program.define())
    program.commit()
    recording = Path(program.run.recording)
    copy = folder / "left.nscope"
    for end in ("", "-wal"):
        shutil.copy(recording.with_name(recording.name + end), copy.with_name(copy.name + end))
    return copy


async def _opened(path: Path) -> RunInfo:
    runs = Runs()
    try:
        return (await runs.open(path)).info
    finally:
        await runs.close()


@pytest.mark.parametrize(("lives", "state"), [(True, "recorded"), (False, "lost")])
def test_only_a_dead_program_is_shown_as_killed(
    new_program: Callable[..., Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    lives: bool, state: str,
) -> None:  # fmt: skip
    copy = _left_behind(new_program(connected=False), tmp_path)
    monkeypatch.setattr(overview, "_lives", lambda process: lives)
    assert asyncio.run(_opened(copy)).state == state


def test_the_log_is_part_of_the_size(new_program: Callable[..., Program], tmp_path: Path) -> None:
    copy = _left_behind(new_program(connected=False), tmp_path)
    assert _size(copy) == overview.glance(copy).nbytes > copy.stat().st_size


def test_an_unrecorded_end_is_reported_as_the_program_sent_it(
    new_program: Callable[..., Program], tmp_path: Path
) -> None:
    copy = _left_behind(new_program(connected=False), tmp_path)
    with Recording.open(copy) as recording:
        summary, info = summarise_run(recording), recording.run()
    assert summary.outcome == "killed"
    assert _as_told(summary, info).outcome == "killed"
    ended = RunInfo(info.id, info.name, state="finished", status=1, error="ValueError: no")
    told = _as_told(summary, ended)
    assert (told.outcome, told.status, told.error) == ("failed", 1, "ValueError: no")

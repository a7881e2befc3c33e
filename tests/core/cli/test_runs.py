"""``nodescope runs``: the table of recordings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import nodescope as ns
from nodescope.api import Run
from nodescope.cli import main
from nodescope.cli.runs import _duration


def record(path: Path, *argv: str, status: int = 0, error: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    run = Run(path, name=argv[0], argv=argv)
    run.start()
    ns.tensor([1.0]) + 1
    run.finish(status, error)


def test_the_latest_run_is_listed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    record(tmp_path / "early.nscope", "early.py")
    record(tmp_path / "late.nscope", "late.py")
    os.utime(tmp_path / "early.nscope")  # Written last, like a long run.
    assert main(["runs"]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert "late.py" in first
    assert "early.py" in second


def test_what_is_here_and_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "here"
    directory.mkdir()
    monkeypatch.chdir(directory)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert main(["runs"]) == 0
    assert "no recordings here" in capsys.readouterr().out
    record(directory / ".nodescope" / "runs" / "a.nscope", "att.py", "1")
    record(directory / "b.nscope", "att.py", "2", "a b", status=1, error="ValueError: no")
    record(tmp_path / "c.nscope", "other.py", "\x1b[31m", status=7, error="SystemExit: 7")
    (directory / "cut.nscope").write_bytes((directory / "b.nscope").read_bytes()[:5000])
    assert main(["runs"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["STARTED", "PROGRAM"]
    rows_by_name = {row.split()[-1]: row for row in rows}
    assert set(rows_by_name) == {".nodescope/runs/a.nscope", "b.nscope", "cut.nscope"}
    assert "att.py 1  " in rows_by_name[".nodescope/runs/a.nscope"]
    assert "att.py 2 'a b'" in rows_by_name["b.nscope"]
    assert " ValueError " in rows_by_name["b.nscope"]
    assert " unreadable " in rows_by_name["cut.nscope"]
    assert main(["runs", "--all"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "status 7" in shown
    assert main(["runs", "-n", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "and 2 older; -n lists more"


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (999_400_000, "999 ms"), (999_600_000, "1.00 s"), (59_994_000_000, "59.99 s"),
        (59_996_000_000, "1 min 00 s"), (125_000_000_000, "2 min 05 s"),
    ],
)  # fmt: skip
def test_times_have_the_unit_that_they_are_rounded_to(nanoseconds: int, text: str) -> None:
    assert _duration(nanoseconds) == text

"""Exports of any size end with a picture or an error, and the requesting process continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nodescope.errors import ExportError, RecordingError
from nodescope.export import export, isolated
from nodescope.export.isolated import Limits, export_isolated
from nodescope.record.files import descriptors
from nodescope.record.recorder import Recorder
from tests.core.record.runs import chain

WAIT_S = 60.0


def recorded(path: Path, nodes: int) -> Path:
    recorder = Recorder(path)
    recorder.emit(chain([f"s{number // 50}/n{number}" for number in range(nodes)]))
    assert recorder.close()
    return path


@pytest.mark.parametrize("suffix", ["svg", "dot"])
def test_the_picture_is_the_same(tmp_path: Path, suffix: str) -> None:
    path = recorded(tmp_path / "r.nscope", 30)
    export_isolated(path, tmp_path / f"isolated.{suffix}", theme="dark")
    export(path, tmp_path / f"here.{suffix}", theme="dark")
    assert (tmp_path / f"isolated.{suffix}").read_bytes() == (
        tmp_path / f"here.{suffix}"
    ).read_bytes()


@pytest.mark.deep
def test_a_graph_that_takes_too_much_memory_is_an_answer(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.nscope", 20_000)
    with pytest.raises(ExportError, match=r"20,000 nodes takes more than 0\.195 GiB of memory"):
        export_isolated(path, tmp_path / "graph.svg", limits=Limits(200 << 20))
    assert os.listdir(tmp_path) == ["r.nscope"]


def test_an_export_that_takes_too_long_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded(tmp_path / "r.nscope", 10)
    started: list[subprocess.Popen[bytes]] = []
    end = isolated._end
    monkeypatch.setattr(isolated, "_end", lambda process: (started.append(process), end(process)))
    with pytest.raises(ExportError, match="takes more than 0 s"):
        export_isolated(path, tmp_path / "graph.svg", limits=Limits(seconds=0))
    assert started[0].returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == ["r.nscope"]


def test_an_export_with_a_high_descriptor_is_followed(tmp_path: Path) -> None:
    with descriptors.high():
        process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.fileno() >= 1024
        isolated._follow(process, Limits(), lambda text: None)


def test_the_progress_of_an_export_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded(tmp_path / "r.nscope", 10)
    monkeypatch.setattr(isolated, "_TELL_S", 0.0)
    messages: list[str] = []
    export_isolated(path, tmp_path / "graph.svg", tell=messages.append)
    assert messages[0] == "reading the recording, 0 s so far"


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("graph.gif", ExportError, "no export format"),
        ("none/graph.svg", ExportError, "cannot write"),
    ],
)
def test_an_isolated_export_raises_the_usual_errors(
    tmp_path: Path, name: str, kind: type[Exception], text: str
) -> None:
    path = recorded(tmp_path / "r.nscope", 3)
    with pytest.raises(kind, match=text):
        export_isolated(path, tmp_path / name)


def test_no_recording_is_an_error_of_the_recording(tmp_path: Path) -> None:
    (tmp_path / "r.nscope").write_bytes(b"junk" * 100)
    with pytest.raises(RecordingError):
        export_isolated(tmp_path / "r.nscope", tmp_path / "graph.svg")


def test_the_process_ends_with_its_requester(tmp_path: Path) -> None:
    """As where that is killed: standard input is at its end, and the export has not been read."""
    path = recorded(tmp_path / "r.nscope", 3)
    os.mkfifo(tmp_path / "held")
    code = f"""
import os, sys, threading
from nodescope.export import isolated
isolated.export = lambda *_, **__: open({str(tmp_path / "held")!r}).read()
sys.argv = ["isolated", "--engine", "page", "--theme", "light", "--memory", str(4 << 30),
            {str(path)!r}, "x.svg"]
isolated.main()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    timer = threading.Timer(WAIT_S, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        assert process.stdin is not None
        assert b"drawing 3 nodes" in process.stdout.readline()
        process.stdin.close()
        assert process.wait() == -signal.SIGKILL
        assert timer.is_alive()
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        process.stdout.close()

"""A program that closes what it did not open gets none of our pages into its files."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from nodescope.record import writer
from nodescope.record.files.descriptors import held, high, intact
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.core.record.runs import chain, finished

CLOSING = """
import os, resource, sys
import numpy as np
from tests.core.record.runs import chain, finished
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording

faults = []
recorder = Recorder("run.nscope", level="values", on_fault=faults.append)
graph = chain(["x", "y"])
recorder.emit(graph)
assert recorder.flush(20)
reader = Recording.open("run.nscope")
os.closerange(3, int(sys.argv[1]) or resource.getrlimit(resource.RLIMIT_NOFILE)[0])
if sys.argv[2] == "all":
    for name in os.listdir("/proc/self/fd"):
        try:
            int(name) > 2 and os.close(int(name))
        except OSError:
            pass
mine = [open(f"mine{number}", "w+") for number in range(40)]
for step in range(300):
    for node in graph.nodes:
        recorder.emit(finished(node, np.full(4096, 7.0), step=step))
recorder.flush(20)
print(recorder.writer.committed_seq, recorder.close(20), faults)
reader.close()
for file in mine:
    file.write("mine\\n")
    file.close()
"""


@pytest.mark.parametrize(
    ("last", "how", "whole"),
    [(256, "", True), (1024, "", True), (0, "", True), (256, "all", False)],
)
def test_a_program_that_closes_descriptors_it_did_not_open(
    last: int, how: str, whole: bool, tmp_path: Path
) -> None:
    root = str(Path(__file__).resolve().parents[4])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", CLOSING, str(last), how],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100,
        preexec_fn=_usual_limits,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    contents = {path.name: path.read_bytes() for path in tmp_path.glob("mine*")}
    assert set(contents.values()) == {b"mine\n"}
    seq, closed = done.stdout.split()[:2]
    assert (closed == "True") is whole, done.stdout
    if not whole:
        assert done.stdout.count("closed the files of its recording") == 1
    with Recording.open(tmp_path / "run.nscope") as recording:
        assert recording.last_seq() == int(seq)
        assert not whole or len(recording.executions()) == 600


def _usual_limits() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 4096))


@pytest.mark.parametrize("limits", [(1024, 4096), (256, 256), (20_000, 20_000)])
def test_files_opened_in_high_have_high_descriptors(
    limits: tuple[int, int], tmp_path: Path
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    child = os.fork()
    if not child:  # Lower the limits in a child: they cannot be raised again.
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            count = len(os.listdir("/dev/fd"))
            with high():
                number = os.open(os.devnull, os.O_RDONLY)
            floor = {256: 192, 1024: 1024, 20_000: 1024}[limits[0]]
            assert floor <= number < floor + 64
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits
            os.close(number)
            assert len(os.listdir("/dev/fd")) == count
            low = os.open(os.devnull, os.O_RDONLY)
            assert low < 192
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_a_descriptor_that_is_another_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    a, b = (os.open(tmp_path / name, os.O_RDONLY) for name in "ab")
    (descriptor,) = held([str(tmp_path / "a"), str(tmp_path / "none")])
    assert descriptor[0] == a
    assert intact((descriptor,))
    os.dup2(b, a)
    assert not intact((descriptor,))
    os.close(a)
    os.close(b)
    assert not intact((descriptor,))


def test_readers_in_a_program_have_high_descriptors_too(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.nscope", level="values")
    graph = chain(["x"])
    recorder.emit(graph)
    recorder.emit(finished(graph.nodes[0], np.ones(3)))
    assert recorder.flush(20.0)
    threads = [
        threading.Thread(target=lambda: Recording.open(tmp_path / "r.nscope").close())
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    with Recording.open(tmp_path / "r.nscope") as recording:
        for thread in threads:
            thread.join()
        numbers = held([str(tmp_path / f"r.nscope{suffix}") for suffix in ("", "-wal", "-shm")])
        assert len(numbers) >= 5
        floor = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 64, 1024)
        assert min(number for number, *_ in numbers) >= floor
        assert recording.last_seq() == 2
    assert recorder.close(20.0)


def test_files_that_took_the_place_of_ours_are_neither_written_nor_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if no high descriptors were free.
    monkeypatch.setattr(writer, "high", contextlib.nullcontext)
    path = tmp_path / "r.nscope"
    faults: list[str] = []
    recorder = Recorder(path, level="values", on_fault=faults.append)
    graph = chain(["x"])
    recorder.emit(graph)
    assert recorder.flush(20.0)
    program_file = os.open(tmp_path / "program_file", os.O_RDWR | os.O_CREAT)
    os.write(program_file, b"program_file")
    numbers = [number for number, *_ in recorder.writer.file._descriptors]
    assert len(numbers) == 3
    for number in numbers:
        os.dup2(program_file, number)
    for _ in range(50):
        recorder.emit(finished(graph.nodes[0], np.ones(5000)))
    assert not recorder.close(20.0)
    (fault,) = faults
    assert "the program closed the files of its recording" in fault
    assert (tmp_path / "program_file").read_bytes() == b"program_file"
    for number in (program_file, *numbers):
        os.close(number)  # Fails if the descriptor was closed.


def test_no_other_file_gets_the_inode_number_of_a_recording_that_was_given_up(
    tmp_path: Path,
) -> None:
    # SQLite knows its files by inode number, and this one was never closed.
    path = tmp_path / "r.nscope"
    written = writer.Writer(path, budget_bytes=0)
    for number, _, _ in written._descriptors:
        os.close(number)
    written.abandon()
    (kept,) = held([str(path)])  # It stays open.
    assert kept[0] > 255
    path.unlink()
    for _ in range(100):
        path.touch()
        assert path.stat().st_ino != kept[2]
        path.unlink()

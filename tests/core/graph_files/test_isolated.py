"""A graph file is read in a restricted process, and becomes a recording."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodescope.cli.graph_file import as_recording
from nodescope.errors import GraphError, RecordingError
from nodescope.graph_files import isolated
from nodescope.graph_files.isolated import Limits, read_isolated, record_graph
from nodescope.record.graphs import graph_of
from nodescope.record.recording import Recording
from tests.core.graph_files.test_reading import GRAPHS, read
from tests.core.record.runs import recorded


def test_a_graph_file_becomes_a_recording_without_executions(tmp_path: Path) -> None:
    record_graph(GRAPHS / "small.onnx", tmp_path / "g.nscope")
    with Recording.open(tmp_path / "g.nscope") as recording:
        by_id = sorted(graph_of(recording).nodes, key=lambda node: node.id)
        assert by_id == list(read("small.onnx").nodes)
        assert recording.run().name == "small.onnx"
        assert [str(framework) for framework in recording.run().frameworks] == ["onnx"]
        assert recording.executions() == []


def test_a_command_gets_a_recording_for_as_long_as_it_runs(tmp_path: Path) -> None:
    with as_recording(GRAPHS / "small.pb") as path:
        assert path.is_file()
    assert not path.exists()
    with as_recording(GRAPHS / "small.pb", tmp_path / "kept.nscope") as path:
        pass
    assert path == tmp_path / "kept.nscope"
    assert path.is_file()
    run = recorded(tmp_path / "run.json")  # A recording, despite its suffix.
    with as_recording(run) as path:
        assert path == run
    with pytest.raises(RecordingError, match="no recording"), as_recording(tmp_path / "none.onnx"):
        pass


def test_errors_name_the_file(tmp_path: Path) -> None:
    broken = tmp_path / "m.onnx"
    broken.write_bytes(b"\x3a\x7f")
    with pytest.raises(GraphError, match=r"^m.onnx: no valid ONNX: .* byte 0$"):
        read_isolated(broken)
    broken.write_bytes(b"")
    with pytest.raises(GraphError, match="the file is empty"):
        read_isolated(broken)
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(GraphError, match="it is not a plain file"):
        read_isolated(tmp_path / "pipe.onnx")
    with pytest.raises(GraphError, match="cannot be read"):
        read_isolated(tmp_path / "none.onnx")


def test_time_and_memory_are_limited(tmp_path: Path) -> None:
    large = tmp_path / "large.pbtxt"
    large.write_bytes(b'node { name: "a" op: "b" input: "c" }\n' * 200_000)
    with pytest.raises(GraphError, match=r"takes more than 0.05 s"):
        read_isolated(large, limits=Limits(seconds=0.05))
    with pytest.raises(GraphError, match=r"takes more than 0\.0625 GiB of memory"):
        read_isolated(large, limits=Limits(memory_bytes=64 << 20))


def test_the_process_can_open_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a child process, since the limits cannot be lifted again."""
    process = os.fork()
    if not process:
        status = 3
        try:
            isolated._limit(1 << 30)
            try:
                open(GRAPHS / "small.onnx").close()
            except OSError:
                try:
                    __import__("socket").socket()
                except OSError:
                    status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0

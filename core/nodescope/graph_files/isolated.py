"""Reading graph files in a separate process, within limits, into a recording.

The process has the file, standard input and standard output. Before it reads the first byte, it
gives up opening anything else: neither files nor connections.

Invariant: any file gives a graph or a `GraphError` within the time limit, and the process has ended
by then.
"""

from __future__ import annotations

import argparse
import mmap
import os
import secrets
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from nodescope.errors import GraphError, RecordingError
from nodescope.events import GraphExtended, Logged, RunFinished, RunStarted
from nodescope.graph_files import FORMATS, read_graph
from nodescope.ir.capabilities import Framework
from nodescope.ir.graph import Graph
from nodescope.processes import own_command, own_environment, refused
from nodescope.record.recorder import Recorder

MAX_FILE_BYTES: Final = 2 << 30
_MAX_ANSWER_BYTES: Final = 1 << 30
_MAGIC: Final = b"SQLite format 3\x00"

_WRITING_S: Final = 60.0
"""How long the recorder may write. No program waits for it, and a large graph takes a while."""


class Limits(NamedTuple):
    """Limits of reading: the process's memory and its wall-clock time."""

    memory_bytes: int = 2 << 30
    seconds: float = 60.0


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of the reading process.

    Attributes:
        graph: The graph, unless reading failed.
        dialect: The dialect of its operators.
        notes: Remarks for the user.
        failed, hint: Why there is no graph, and what to do.
    """

    graph: Graph | None = None
    dialect: str = ""
    notes: tuple[str, ...] = ()
    failed: str = ""
    hint: str = ""


def is_recording(path: Path) -> bool:
    """Whether a file's first bytes are those of a recording."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def read_isolated(path: Path, *, name: str = "", limits: Limits = Limits()) -> Answer:  # noqa: B008 (a constant)
    """Read a graph file.

    Args:
        path: The file.
        name: The file's name, if it differs from the path's.
        limits: The limits of reading.

    Raises:
        GraphError: It cannot be read.
    """
    name = name or path.name
    descriptor = _opened(path, name)
    try:
        command = own_command(
            "nodescope.graph_files.isolated", "--memory", str(limits.memory_bytes),
            f"--name={name}", str(descriptor), background=True,
        )  # fmt: skip
        process = subprocess.Popen(
            command, env=own_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, pass_fds=(descriptor,), start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise GraphError(f"{name} cannot be read: {refused(error) or error.strerror}") from None
    finally:
        os.close(descriptor)
    overdue = threading.Event()

    def end() -> None:
        overdue.set()
        process.kill()

    timer = threading.Timer(limits.seconds, end)
    try:
        timer.start()
        assert process.stdout is not None
        data = process.stdout.read(_MAX_ANSWER_BYTES)
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()
    return _answer(data, name, limits, overdue.is_set())


def _answer(data: bytes, name: str, limits: Limits, overdue: bool) -> Answer:
    if overdue:
        raise GraphError(f"{name}: reading it takes more than {limits.seconds:g} s")
    try:
        answer = msgspec.msgpack.decode(data, type=Answer)
    except msgspec.MsgspecError:
        most = f"{limits.memory_bytes / (1 << 30):.3g} GiB"
        raise GraphError(f"{name}: reading it takes more than {most} of memory") from None
    if answer.graph is None:
        raise GraphError(f"{name}: {answer.failed}", hint=answer.hint)
    return answer


def _opened(path: Path, name: str) -> int:
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise GraphError(f"{name} cannot be read: {error.strerror}") from None
    at = os.fstat(descriptor)
    wrong = (
        "it is not a plain file" if not stat.S_ISREG(at.st_mode)
        else "the file is empty" if not at.st_size
        else "it is larger than 2 GiB" if at.st_size > MAX_FILE_BYTES else ""
    )  # fmt: skip
    if wrong:
        os.close(descriptor)
        raise GraphError(f"{name}: {wrong}")
    return descriptor


def record_graph(path: Path, out: Path, *, name: str = "", limits: Limits = Limits()) -> None:  # noqa: B008 (a constant)
    """Write the graph of a file as a recording without executions.

    Args:
        path: The graph file.
        out: The recording to write.
        name: The file's name, if it differs from the path's.
        limits: The limits of reading.

    Raises:
        GraphError: The file cannot be read.
        RecordingError: The recording cannot be written.
    """
    name = name or path.name
    answer = read_isolated(path, name=name, limits=limits)
    assert answer.graph is not None
    recorder = Recorder(out, level="graph")
    framework = Framework(answer.dialect)
    recorder.emit(RunStarted(secrets.token_hex(8), name, (name,), os.getpid(), time.time_ns(),
                             framework))  # fmt: skip
    recorder.emit(GraphExtended(answer.graph.nodes, answer.graph.values))
    for note in answer.notes:
        recorder.emit(Logged("nodescope", f"{name}: {note}", 0, 0))
    recorder.emit(RunFinished(0, "", 0))
    if not recorder.close(_WRITING_S):
        raise RecordingError(f"cannot write the recording {out}")


# ---------------------------------------------------------------- the reading process


def main() -> int:
    """Read the file whose descriptor is given, and write the answer to standard output."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("descriptor", type=int)
    options = parser.parse_args()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for known in FORMATS:  # no import is possible later
        __import__(f"nodescope.graph_files.{known.module}")
    with mmap.mmap(options.descriptor, 0, access=mmap.ACCESS_READ) as data:
        _limit(options.memory)
        answer = _read(memoryview(data), options.name)
        output = sys.stdout.buffer
        output.write(msgspec.msgpack.encode(answer))
        output.flush()
        os._exit(0)


def _read(data: memoryview, name: str) -> Answer:
    try:
        graph, dialect, notes = read_graph(data, name)
    except GraphError as error:
        return Answer(failed=error.message, hint=error.hint)
    return Answer(graph, dialect, notes)


def _limit(memory_bytes: int) -> None:
    """Limit this process's memory, and let it open no further file or connection."""
    try:
        import resource
    except ImportError:  # not a Unix system: no such limits
        return
    for kind, limit in (
        (resource.RLIMIT_DATA, memory_bytes), (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        resource.setrlimit(kind, (limit, limit))


def _end_with_parent() -> None:
    """End when the requesting process does, which holds this process's standard input."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())

"""Graph files of other tools, for commands that take a recording.

Invariant: the file is only read, in a separate process. The recording made from it is deleted when
the command ends, unless the user named a file for it.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from nodescope.errors import RecordingError
from nodescope.graph_files.isolated import is_recording, record_graph
from nodescope.graph_files.suffixes import SUFFIXES


@contextlib.contextmanager
def as_recording(path: Path, record: Path | None = None) -> Iterator[Path]:
    """The recording itself, or one made from a graph file of another format.

    Args:
        path: The file named by the user.
        record: The file in which to keep the recording of a graph; None deletes it afterwards.

    Raises:
        GraphError: The graph file cannot be read.
        RecordingError: There is no such file.
    """
    if not path.is_file():
        raise RecordingError(f"no recording {str(path)!r}")
    if is_recording(path) or not path.name.lower().endswith(SUFFIXES):
        yield path.absolute()
        return
    with _leaving_when_terminated(), tempfile.TemporaryDirectory(prefix="nodescope-") as folder:
        out = record or Path(folder) / f"{path.stem[:100] or 'graph'}.nscope"
        record_graph(path, out)
        yield out.absolute()


@contextlib.contextmanager
def _leaving_when_terminated() -> Iterator[None]:
    """Let SIGTERM end the command by an exception, so that temporary files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

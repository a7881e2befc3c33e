"""Graph files of others, for commands that take a recording.

Invariant: the file is only read, in a separate process; the recording that is made of it ends with
the command, unless the user named one.
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
    """The recording itself, or one of the graph in a file of another format.

    Args:
        path: What the user named.
        record: Where the recording of a graph is kept; None: nowhere.

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
    """SIGTERM ends the command as Ctrl-C does, so that nothing is left behind."""
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

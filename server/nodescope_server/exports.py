"""Exports of a run's graph, for downloads.

Invariant: the exporters decide what is drawn; they read the recording themselves, at their own
pace, and nobody else waits for them.
"""

from __future__ import annotations

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nodescope.errors import ExportError

_THREADS = ThreadPoolExecutor(2, thread_name_prefix="nodescope-export")


async def render(recording: str, kind: str, engine: str) -> bytes:
    """The graph of a recording as ``svg`` or ``dot``, laid out by the engine ``page`` or ``dot``.

    Raises:
        ExportError: It cannot be made; the hint says what is missing.
        RecordingError: The recording cannot be read.
    """
    if not recording:
        raise ExportError("this run has no recording to export")
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_THREADS, _render, recording, kind, engine)


def _render(recording: str, kind: str, engine: str) -> bytes:
    from nodescope.export import export  # heavy, and seldom wanted

    with tempfile.TemporaryDirectory(prefix="nodescope-") as folder:
        target = Path(folder) / f"graph.{kind}"
        export(Path(recording), target, engine="dot" if engine == "dot" else "page")
        return target.read_bytes()

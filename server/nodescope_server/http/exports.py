"""Exports of a run's graph, for downloads.

Invariant: each export is drawn in a separate process, within limits of time and memory; at most two
run at a time, and a few may queue. No other request waits for them. The exporters alone decide what
is drawn.
"""

from __future__ import annotations

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from nodescope.errors import ExportError, NodescopeError
from nodescope.export import Theme
from nodescope.export.folding import Expand
from nodescope.export.isolated import Limits, export_isolated
from nodescope.processes import refused

LIMITS: Final = Limits(memory_bytes=2 << 30, seconds=60.0)
AT_ONCE: Final = 2
MAX_WAITING: Final = 8


FORMATS: Final = {
    "svg": (".svg", "image/svg+xml"),
    "html": (".html", "text/html"),
    "png": (".png", "image/png"),
    "pdf": (".pdf", "application/pdf"),
    "dot": (".dot", "text/vnd.graphviz"),
    "mermaid": (".mmd", "text/plain"),
    "model-explorer": (".json", "application/json"),
    "perfetto": (".trace.json", "application/json"),
    "csv": (".csv", "text/csv"),
}
"""By format: the ending of its files, and their media type."""


class Selection(NamedTuple):
    """The exported part of the graph and its style, as in `nodescope.export.ExportOptions`."""

    engine: str = "page"
    step: int | None = None
    theme: Theme = "light"
    expand: Expand = "fit"
    scope: str = ""


LATEST: Final = Selection()


class Exports:
    """The exports being drawn, and those waiting.

    Args:
        limits: Limits of each export.
    """

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="nodescope-export")
        self._requests = 0

    async def render(self, recording: str, kind: str, selection: Selection = LATEST) -> bytes:
        """The graph of a recording in one of the `FORMATS`.

        Raises:
            ExportError: The export failed, exceeded a limit, or too many were requested; the hint
                says what to do.
            RecordingError: The recording cannot be read.
        """
        if not recording:
            raise ExportError("this run has no recording to export")
        if self._requests >= AT_ONCE + MAX_WAITING:
            raise ExportError(f"{self._requests} exports are being drawn", hint="try again later")
        self._requests += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(
                self._threads, self._render, recording, kind, selection
            )
        finally:
            self._requests -= 1

    def _render(self, recording: str, kind: str, selection: Selection) -> bytes:
        try:
            with tempfile.TemporaryDirectory(prefix="nodescope-") as folder:
                target = Path(folder) / f"graph{FORMATS[kind][0]}"
                export_isolated(
                    Path(recording),
                    target,
                    engine="dot" if selection.engine == "dot" else "page",
                    step=selection.step,
                    theme=selection.theme,
                    expand=selection.expand,
                    scope=selection.scope,
                    format=kind,
                    limits=self._limits,
                )
                return target.read_bytes()
        except OSError as error:
            if isinstance(error, NodescopeError):
                raise
            reason = refused(error) or error.strerror or error
            raise ExportError(f"the export cannot be written: {reason}") from error

"""Files that a user dropped on the start page: recordings, and graph files of other programs.

The server stores them in its own folder, under its own names, and deletes them when it ends.

Invariant: a page never names a path; graph files are read in a separate process, within limits, and
files are accepted one at a time.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from nodescope.console_output import visible
from nodescope.errors import UsageError
from nodescope.graph_files.isolated import is_recording, record_graph
from nodescope.graph_files.suffixes import SUFFIXES
from nodescope.protocol import RunInfo
from nodescope_server.runs.runs import Runs

MOST_BYTES: Final = 1 << 30
MOST_FILES: Final = 64
_SPARE_BYTES: Final = 512 << 20
"""How much of the disk stays free."""


class DroppedFiles:
    """The files dropped so far.

    Args:
        runs: The open runs.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0
        self._turn = asyncio.Lock()

    async def add(self, name: str, parts: AsyncIterator[bytes]) -> RunInfo:
        """Store a dropped file, and open the run in it.

        Args:
            name: The user's name for the file; its ending helps to detect the format.
            parts: The file's content.

        Raises:
            UsageError: The file is too large, or there are too many.
            GraphError: The file is not a graph file, or one that cannot be read.
            RecordingError: The file is a recording that cannot be read.
        """
        async with self._turn:
            if self._count >= MOST_FILES:
                raise UsageError(
                    f"{MOST_FILES} files have been dropped here",
                    hint="open further ones by nodescope open",
                )
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="nodescope-")
            folder = Path(self._folder.name)
            self._count += 1
            shown = visible(name.replace("\\", "/").rpartition("/")[2])[-200:].strip() or "graph"
            taken = folder / f"{self._count}.part"
            recording = folder / f"{self._count}.nscope"
            try:
                await self._take(taken, parts)
                if is_recording(taken) or not shown.lower().endswith(SUFFIXES):
                    taken.rename(recording)  # opening refuses a file that is not a recording
                else:
                    await asyncio.to_thread(record_graph, taken, recording, name=shown)
                return (await self._runs.open(recording)).info
            except BaseException:
                self._count -= 1
                for path in folder.glob(f"{self._count + 1}.nscope*"):
                    path.unlink(missing_ok=True)
                raise
            finally:
                taken.unlink(missing_ok=True)

    async def _take(self, path: Path, parts: AsyncIterator[bytes]) -> None:
        left = min(MOST_BYTES, shutil.disk_usage(path.parent).free - _SPARE_BYTES)
        try:
            with open(path, "xb") as file:
                async for part in parts:
                    left -= len(part)
                    if left < 0:
                        raise UsageError(
                            "the file is larger than 1 GiB, or the disk is nearly full",
                            hint="open it by nodescope open",
                        )
                    file.write(part)
        except OSError as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(f"the file cannot be kept: {error.strerror or error}") from error

    def close(self) -> None:
        """Delete the files."""
        if self._folder is not None:
            self._folder.cleanup()

"""Default paths of recordings.

Invariant: a returned path is reserved for its caller.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from nodescope.errors import RecordingError
from nodescope.ranks import rank_of


def recording_path(stem: str, say: Callable[[str], None]) -> Path:
    """A fresh path for a recording: in ``.nodescope/runs`` in the current folder, or else in the
    temporary folder. If a program has several processes, the name contains the rank.
    """
    rank = rank_of(os.environ)
    stem = stem if rank is None else f"{stem}-rank{rank.number}"
    name = f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    home = Path(".nodescope")
    try:
        (home / "runs").mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = home / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        folder = home / "runs"
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        folder = Path(tempfile.mkdtemp(prefix="nodescope-"))
        say(f"{home.absolute()} cannot be written ({error.strerror}); recording to {folder}")
    path, count = folder / f"{name}.nscope", 1
    while True:
        try:
            # Reserved at once: another program may start in this folder within the same second.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            count += 1
            path = folder / f"{name}-{count}.nscope"
        except OSError as error:
            raise RecordingError(
                f"cannot write the recording {path}: {error.strerror or error}",
                hint="choose another file with --record",
            ) from error
        else:
            return path

"""Overview of a recording for a list, read from its smallest tables.

Invariant: read-only and cheap whatever the size of the file; for an unreadable file, the overview
gives the reason.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Literal

import msgspec

from nodescope.errors import NodescopeError
from nodescope.events import Level
from nodescope.protocol import BrokenLoss, RunInfo
from nodescope.record.recording import Recording
from nodescope.record.run_time import run_time

Outcome = Literal["running", "finished", "failed", "interrupted", "killed", "unreadable"]
"""How a run ended: ``killed`` if it could not record its end."""

_INTERRUPTED = 130


def broken_loss(recording: Recording) -> BrokenLoss | None:
    """The loss that has been non-finite the longest at the end of the run, if any."""
    losses = recording.broken_losses()
    if not losses:
        return None
    step, value = min(losses, key=lambda loss: loss[0])
    return BrokenLoss("nan" if math.isnan(value) else "inf", step)


class Glance(msgspec.Struct, frozen=True):
    """An entry in a list of recordings.

    Attributes:
        id: Id of the run; ``""`` if unreadable.
        name, argv: The program and its command line.
        ran_ns: Its run time so far, see `nodescope.record.run_time.RunTime`.
        steps: Number of training steps that began.
        nbytes: Size of the file and the log beside it.
        changed_unix_ns: When the file was last written.
        fault: Why the file cannot be read, or ``""``.
        broken_loss: The loss at the end, if it is not finite.
    """

    id: str
    name: str
    argv: tuple[str, ...] = ()
    started_unix_ns: int = 0
    ran_ns: int = 0
    steps: int = 0
    level: Level = "summary"
    outcome: Outcome = "finished"
    status: int | None = None
    error: str = ""
    nbytes: int = 0
    changed_unix_ns: int = 0
    fault: str = ""
    broken_loss: BrokenLoss | None = None


def outcome_of(status: int | None, error: str, *, running: bool = False) -> Outcome:
    """How a run ended, from its exit status and the last line of its traceback."""
    if running:
        return "running"
    if status is None:
        return "killed"
    if status == _INTERRUPTED or error.startswith("KeyboardInterrupt"):
        return "interrupted"
    return "failed" if status or error else "finished"


def glance(path: Path) -> Glance:
    """Read a recording's overview. Never raises for faults of the file."""
    try:
        at = path.stat()
        nbytes, changed = at.st_size, at.st_mtime_ns
    except OSError as error:
        fault = f"cannot be read: {error.strerror or error}"
        return Glance("", path.stem, outcome="unreadable", fault=fault)
    pending = log_size(path)
    try:
        with Recording.open(path, whole=False) as recording:
            info, took = recording.run(), run_time(recording)
            steps, broken = recording.count_steps(), broken_loss(recording)
    except NodescopeError as error:
        fault = str(error).replace(str(path), "it").removeprefix("it is ").removeprefix("it ")
        return Glance(
            "", path.stem, nbytes=nbytes, changed_unix_ns=changed, outcome="unreadable", fault=fault
        )
    running = still_runs(info, pending)
    return Glance(
        info.id, info.name, info.argv, info.started_unix_ns, took.ran_ns, steps, info.level,
        outcome_of(info.status, info.error, running=running), info.status, info.error,
        nbytes + pending, changed, broken_loss=broken,
    )  # fmt: skip


def log_size(path: Path) -> int:
    """Bytes of the log beside a recording, which belongs to it."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except OSError:
        return 0


def still_runs(info: RunInfo, pending: int) -> bool:
    """Whether the program of a recording has not ended, as far as this machine knows.

    Args:
        info: The run as recorded.
        pending: `log_size`; 0 once the writer or the last reader has closed the recording.
    """
    return info.status is None and pending > 0 and _lives(info.pid)


def _lives(process: int) -> bool:
    if process <= 0:
        return False
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True

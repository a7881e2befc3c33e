"""Exports in a separate process, within limits.

A recording may come from anywhere, and a picture of a million nodes needs more memory than there
is; the drawing engine then aborts its process.

Invariant: whatever happens to an export, the requesting process gets an answer or an `ExportError`
within its time limit; everything started for it has ended by then.
"""

from __future__ import annotations

import argparse
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import msgspec

from nodescope.errors import ExportError, NodescopeError, RecordingError
from nodescope.export import Engine, Theme, export
from nodescope.export.folding import Expand
from nodescope.processes import own_command, own_environment, refused
from nodescope.record.recording import Recording

MAX_FILE_BYTES: Final = 1 << 30
_TELL_S: Final = 2.0
# Beyond its memory limit, V8 gives up with a trap or an abort.
_ABORTS: Final = (signal.SIGABRT, signal.SIGTRAP, signal.SIGILL, signal.SIGSEGV, signal.SIGKILL)


class Limits(NamedTuple):
    """Limits of an export.

    Attributes:
        memory_bytes: Memory limit of the drawing process; Graphviz has as much again.
        seconds: Time limit by the clock; None for no limit.
    """

    memory_bytes: int = 4 << 30
    seconds: float | None = None


class _Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line from the exporting process: its progress, or its failure."""

    doing: str = ""
    failed: str = ""
    hint: str = ""
    unreadable: bool = False


def export_isolated(
    recording: Path,
    out: Path,
    *,
    engine: Engine = "page",
    theme: Theme = "light",
    expand: Expand = "fit",
    scope: str = "",
    step: int | None = None,
    format: str | None = None,
    limits: Limits = Limits(),  # noqa: B008 (a constant)
    tell: Callable[[str], None] = lambda text: None,
) -> None:
    """Write the graph of a recording, as `export` does, in a separate process.

    Args:
        recording: The recording's file.
        out: Its suffix names the format, if ``format`` does not.
        engine: The layout engine.
        theme: The colours.
        expand: Which scopes are open, as in `ExportOptions`.
        scope: Only the contents of this scope are drawn; ``""``: everything.
        step: The training step at whose end the graph is drawn; None: its latest state.
        format: The name of the format; None: by the suffix.
        limits: The limits of the export.
        tell: Called every two seconds with the current activity and its duration in seconds.

    Raises:
        ExportError: As in `export`; or a limit was reached.
        RecordingError: The recording cannot be read.
    """
    at_step = () if step is None else ("--step", str(step))
    named = () if format is None else ("--format", format)
    paths = sorted(expand) if isinstance(expand, frozenset) else ()
    opened = [f"--open={path}" for path in paths]
    depth = "listed" if isinstance(expand, frozenset) else str(expand)
    command = own_command(
        "nodescope.export.isolated", "--engine", engine, "--theme", theme,
        "--expand", depth, *opened, f"--scope={scope}", *at_step, *named,
        "--memory", str(limits.memory_bytes), "--",
        os.path.abspath(recording), os.path.abspath(out),
    )  # fmt: skip
    try:
        process = subprocess.Popen(
            command, env=own_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        reason = refused(error) or error.strerror
        raise ExportError(f"the export cannot be started: {reason}") from None
    try:
        _follow(process, limits, tell)
    finally:
        _end(process)
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


def _follow(process: subprocess.Popen[bytes], limits: Limits, tell: Callable[[str], None]) -> None:
    """Follow the process until it ends, or until its time is up."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as ready:  # `select` refuses descriptors beyond 1,023
        ready.register(process.stdout, selectors.EVENT_READ)
        report = _listen(process.stdout.fileno(), ready, limits, tell)
    status = process.wait()
    if status:
        _gave_up(status, report.doing, limits)


def _listen(
    output: int, ready: selectors.BaseSelector, limits: Limits, tell: Callable[[str], None]
) -> _Said:
    """The last line from the process when it has closed its output."""
    started = last_told = time.monotonic()
    report, buffer = _Said("reading the recording"), b""
    while True:
        now = time.monotonic()
        if limits.seconds is not None and now - started > limits.seconds:
            raise ExportError(
                f"{report.doing} takes more than {limits.seconds:g} s",
                hint="--depth 1 or --scope PATH of nodescope export draw less, --time-limit gives "
                "it longer",
            )
        if now - last_told >= _TELL_S:
            last_told = now
            tell(f"{report.doing}, {now - started:.0f} s so far")
        if not ready.select(0.1):
            continue
        part = os.read(output, 65536)
        if not part:
            return report
        *lines, buffer = (buffer + part).split(b"\n")
        for line in lines:
            report = msgspec.json.decode(line, type=_Said)
            if report.failed:
                kind = RecordingError if report.unreadable else ExportError
                raise kind(report.failed, hint=report.hint)


def _gave_up(status: int, doing: str, limits: Limits) -> NoReturn:
    if -status in _ABORTS:
        raise ExportError(
            f"{doing} takes more than {limits.memory_bytes / (1 << 30):.3g} GiB of memory",
            hint="a recording of fewer steps or nodes can be drawn; --engine dot may take less",
        )
    raise ExportError(f"{doing} ended with status {status}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and everything it has started, such as Graphviz."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass  # the process is gone
    process.wait()


# ---------------------------------------------------------------- the exporting process


def main() -> int:
    """Export, and report progress and failure on standard output."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", required=True)
    parser.add_argument("--theme", required=True)
    parser.add_argument("--expand", default="fit")
    parser.add_argument("--open", action="append", default=[])
    parser.add_argument("--scope", default="")
    parser.add_argument("--format", default=None)
    parser.add_argument("--step", type=int, default=None)
    parser.add_argument("--memory", type=int, required=True)
    parser.add_argument("recording", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _limit(options.memory)
    try:
        with Recording.open(options.recording) as recording:
            count = sum(1 for _ in recording.nodes())
        _say(_Said(f"drawing {count:,} nodes"))
        export(
            options.recording,
            options.out,
            engine=options.engine,
            theme=options.theme,
            expand=_expand(options.expand, options.open),
            scope=options.scope,
            step=options.step,
            format=options.format,
        )
    except NodescopeError as error:
        unreadable = isinstance(error, RecordingError)
        _say(_Said(failed=error.message, hint=error.hint, unreadable=unreadable))
    except MemoryError:
        return -signal.SIGABRT
    return 0


def _expand(depth: str, paths: list[str]) -> Expand:
    if depth == "listed":
        return frozenset(paths)
    return int(depth) if depth.isdecimal() else "all" if depth == "all" else "fit"


def _limit(memory_bytes: int) -> None:
    """Limit memory from here on, whatever a recording makes us do."""
    try:
        import resource
    except ImportError:  # not a Unix system: no such limits
        return
    os.nice(5)
    limits = (
        (resource.RLIMIT_DATA, memory_bytes),  # V8 reserves far more addresses than it uses
        (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    )
    for kind, limit in limits:
        _, hard = resource.getrlimit(kind)
        least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (least, least))


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the requesting process holds open, then end this
    process and everything it started.
    """
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)


def _say(report: _Said) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Exit without waiting for threads, as after an abort by V8.
    if status < 0:
        os.kill(os.getpid(), -status)
    os._exit(status)

"""``nodescope check``: a program run under watches, without stops, for CI.

Invariant: status 0 means that at least one watch was evaluated, none had hits, and the program
ended with 0; status 1 that a watch had hits or failed, or that none could be evaluated; otherwise
the status is the program's own.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from pathlib import Path
from typing import TextIO

import msgspec

from nodescope import api
from nodescope.cli.check_reports import json_text, junit_text, words
from nodescope.cli.script import Ending, find_module, is_child, load, run_script
from nodescope.console_output import last_line, say, show
from nodescope.debug.watch.check_report import check as checked
from nodescope.debug.watch.check_verdicts import CheckReport
from nodescope.debug.watch.first_step import WORD as RECOMMENDED
from nodescope.debug.watch.run_check import RunCheck
from nodescope.debug.watch.watch import Watch, parse_watches
from nodescope.errors import RecordingError, UsageError
from nodescope.record.recording import Recording

_MAGIC = b"SQLite format 3\0"


def check(options: argparse.Namespace) -> int:
    """Run a program under watches, or evaluate them on a recording; return the exit status."""
    watches: list[Watch] = []
    for spec in options.watches:
        watches += parse_watches(spec) if spec.strip() != RECOMMENDED else ()
    recommended = not options.watches or RECOMMENDED in map(str.strip, options.watches)
    if not recommended and not any(watch.enabled for watch in watches):
        raise UsageError(
            "no watch is enabled",
            hint="use --watch nan, or leave out --watch for the recommended ones",
        )
    home, out = Path.cwd(), sys.stdout  # the program may change them
    written = [
        (path.absolute(), text)
        for path, text in ((options.json, json_text), (options.junit, junit_text))
        if path is not None
    ]
    for path, _ in written:
        if not path.parent.is_dir():
            raise UsageError(f"no such folder: {str(path.parent)!r}")
    target: Path = options.what
    name, spec = target.name, None
    if options.module:
        target, spec = find_module(name)
    keep = True
    checking: RunCheck | None = None
    if _is_recording(target):
        if options.args:
            raise UsageError("arguments are for a program, not for a recording")
        file, ending = target.absolute(), None
    else:
        code = load(target)
        if isinstance(code, Ending):
            return code.status
        file = (options.record or api.recording_path(name if spec else target.stem, say)).absolute()
        keep = options.keep or options.record is not None
        observed = api.Run(
            file, name=name, argv=(str(target), *options.args), level=options.level,
            budget_bytes=options.budget, waits=True, say=say,
        )  # fmt: skip
        checking = RunCheck(
            observed.bus, watches, recommended=recommended,
            seq_source=observed.recorder.thread_seq, protect=observed.recorder.writer.protect,
            keep_values=observed.recorder.writer.keep_values,
        )  # fmt: skip
        try:
            observed.start()
            ending = run_script(code, target, options.args, observed.log, spec=spec)
            if is_child(observed):
                return ending.status
        except BaseException as error:
            observed.finish(1, last_line(error))
            raise
        observed.finish(ending.status, ending.error)
    with Recording.open(file) as recording:
        if recording.note:
            say(recording.note)
        if checking is None:
            report = checked(recording, watches, recommended=recommended)
        else:
            report = checking.report(recording)
    status = _status(report, ending, strict=options.strict)
    if not (keep or status):
        file.unlink(missing_ok=True)
        report = msgspec.structs.replace(report, recording="")
    for path, text in written:
        _write(path, text(report))
    _print(words(report, home), out)
    return status


def _print(text: str, out: TextIO) -> None:
    """Print the report, even if the program has closed its output."""
    try:
        show(text, out, end="")
    except ValueError:
        show(text, sys.__stderr__, end="")


def _is_recording(path: Path) -> bool:
    """Whether a path is, or is meant to be, a recording; a damaged recording is not a script."""
    if path.suffix == ".nscope" and path.exists():
        return True  # opening it as a recording refuses a file of another kind
    if not path.is_file():
        if path.suffix == ".nscope":
            raise RecordingError(f"no recording {str(path)!r}")
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False  # `load` reports what is wrong with a script


def _status(report: CheckReport, ending: Ending | None, *, strict: bool) -> int:
    in_doubt = strict and any(verdict.caveat for verdict in report.verdicts)
    if in_doubt or report.having("hit", "failed"):
        return 1
    program_status = ending.status if ending is not None else 0
    return program_status or int(report.vacuous)


def _write(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags, 0o666)  # a pipe without a reader fails at once
        os.set_blocking(descriptor, True)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError as error:
        reason = "nobody reads the pipe" if error.errno == errno.ENXIO else error.strerror or error
        raise UsageError(f"cannot write {str(path)!r}: {reason}") from error

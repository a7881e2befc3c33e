"""``nodescope check``: a program run under watches, without stops, for CI.

Invariant: status 0 says that every watch that could be asked found nothing and the program ended
with 0; status 1 that one found something or failed, or that none could be asked; else it is the
program's own.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TextIO

import msgspec

from nodescope import api
from nodescope.cli.check_reports import json_text, junit_text, words
from nodescope.cli.script import Ending, is_child, load, run_script
from nodescope.debug.checking import Report
from nodescope.debug.checking import check as checked
from nodescope.debug.recommending import WORD as RECOMMENDED
from nodescope.debug.watch.judging import Judging
from nodescope.debug.watch.watch import Watch, parse_watches
from nodescope.errors import RecordingError, UsageError
from nodescope.ir.graph import Node
from nodescope.record.recording import Recording
from nodescope.telling import last_line, say, show

_MAGIC = b"SQLite format 3\0"


def check(options: argparse.Namespace) -> int:
    """Run and ask, or ask a recording; the exit status."""
    watches: list[Watch] = []
    for each in options.watches:
        watches += parse_watches(each) if each.strip() != RECOMMENDED else ()
    recommended = not options.watches or RECOMMENDED in map(str.strip, options.watches)
    if not recommended and not any(each.enabled for each in watches):
        raise UsageError(
            "no watch is on", hint="use --watch nan, or leave out --watch for the recommended ones"
        )
    home, out = Path.cwd(), sys.stdout  # the program may change them
    written = [
        (path.absolute(), text)
        for path, text in ((options.json, json_text), (options.junit, junit_text))
        if path is not None
    ]
    for path, _ in written:
        if not path.parent.is_dir():
            raise UsageError(f"there is no folder {str(path.parent)!r}")
    what: Path = options.what
    keep = True
    if _is_recording(what):
        if options.args:
            raise UsageError("a recording takes no arguments")
        file, ending = what.absolute(), None
    else:
        code = load(what)
        if isinstance(code, Ending):
            return code.status
        file = (options.record or api.recording_path(what.stem, say)).absolute()
        keep = options.keep or options.record is not None
        observed = api.Run(
            file, name=what.name, argv=(str(what), *options.args), level=options.level,
            budget_bytes=options.budget, say=say,
        )  # fmt: skip
        judging = Judging(watches)
        observed.bus.opened = (
            lambda node: judging.wants(node) or (recommended and _telling(node)),
        )  # fmt: skip
        try:
            observed.start()
            ending = run_script(code, what, options.args, observed.log)
            if is_child(observed):
                return ending.status
        except BaseException as error:
            observed.finish(1, last_line(error))
            raise
        observed.finish(ending.status, ending.error)
    with Recording.open(file) as recording:
        if recording.note:
            say(recording.note)
        report = checked(recording, watches, recommended=recommended)
    status = _status(report, ending, strict=options.strict)
    if not (keep or status):
        file.unlink(missing_ok=True)
        report = msgspec.structs.replace(report, recording="")
    for path, text in written:
        _write(path, text(report))
    _print(words(report, home), out)
    return status


def _print(text: str, out: TextIO) -> None:
    """A program may have closed its output; it is a report all the same."""
    try:
        show(text, out, end="")
    except ValueError:
        show(text, sys.__stderr__, end="")


def _is_recording(path: Path) -> bool:
    """Whether it is, or is meant to be: a recording that is empty or damaged is no script."""
    if path.suffix == ".nscope" and path.exists():
        return True  # and what is no plain file is refused there
    if not path.is_file():
        if path.suffix == ".nscope":
            raise RecordingError(f"no recording {str(path)!r}")
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False  # `load` says what is wrong with a script


def _telling(node: Node) -> bool:
    """Whether a recommended watch may be about a node, so that kernels that cover it are opened."""
    return node.phase == "forward" and node.family in ("activation", "loss")


def _status(report: Report, ending: Ending | None, *, strict: bool) -> int:
    in_doubt = strict and any(each.caveat for each in report.verdicts)
    if in_doubt or report.having("hit", "failed"):
        return 1
    own = ending.status if ending is not None else 0
    return own or int(report.vacuous)


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error

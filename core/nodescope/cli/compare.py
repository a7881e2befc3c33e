"""``nodescope compare``: an eager and a compiled run of a program, side by side.

The program runs twice, one after the other, each time in a process of its own: with the same
arguments, environment, hash seed and seeds, once plainly and once with its compiled functions as
graphs. Both recordings are then served, and the page opens on their comparison.

Invariant: nothing is compared that was not recorded; a program without compiled functions is told
so in one line.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
from pathlib import Path

from nodescope import api
from nodescope.cli.other import stay
from nodescope.cli.server import Server
from nodescope.engine.static.mode import VARIABLE
from nodescope.errors import RecordingError, UsageError
from nodescope.processes import program_command
from nodescope.record.captured import functions
from nodescope.record.recording import Recording
from nodescope.record.schema import SUFFIX
from nodescope.telling import say

SIDES = ("eager", "compiled")
_INTERRUPTED = 130


def compare(options: argparse.Namespace) -> int:
    """Run both sides, or take two recordings, and serve them until Ctrl-C."""
    if options.what.suffix == SUFFIX:
        left, right = _given(options)
    else:
        left, right = _recorded(options)
    with Recording.open(left) as one, Recording.open(right) as two:
        place = f"#compare={one.run().id},{two.run().id}"
    server = Server(options.port, (left.absolute(), right.absolute()))
    return stay(server, browser=not options.no_browser, place=place)


def _given(options: argparse.Namespace) -> tuple[Path, Path]:
    """Two recordings, the eager one first."""
    if len(options.args) != 1:
        raise UsageError(
            "two recordings are compared",
            hint="nodescope compare eager.nscope compiled.nscope, or nodescope compare program.py",
        )
    paths = options.what, Path(options.args[0])
    for each in paths:
        if not each.is_file():
            raise RecordingError(f"no recording {str(each)!r}")
    compiled = [_has_functions(each) for each in paths]
    if not any(compiled):
        raise UsageError(
            f"no compiled function ran in {paths[0].name} or in {paths[1].name}",
            hint="record the second one with NODESCOPE_MODE=compiled",
        )
    return paths if compiled[1] else (paths[1], paths[0])


def _recorded(options: argparse.Namespace) -> tuple[Path, Path]:
    """Run the program on both sides; the recordings."""
    script: Path = options.what
    if not script.is_file():
        raise UsageError(f"no script or recording {str(script)!r}")
    paths = tuple(_path(options, script, each) for each in SIDES)
    status = 0
    for side, path in zip(SIDES, paths, strict=True):
        say(f"{side} run of {script.name}, recorded to {path}")
        status = _child(options, script, side, path)
        if status == _INTERRUPTED:
            raise KeyboardInterrupt
        if status != 0:
            if not path.is_file() or not path.stat().st_size:
                raise UsageError(f"the {side} run ended with status {status}: nothing to compare")
            say(f"the {side} run ended with status {status}; what was recorded is compared")
    _check(paths[1], script.name, status)
    return paths[0], paths[1]


def _path(options: argparse.Namespace, script: Path, side: str) -> Path:
    if options.output is None:
        return api.recording_path(f"{script.stem}-{side}", say)
    folder: Path = options.output
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {str(folder)!r}: {error.strerror}") from None
    return folder / f"{side}{SUFFIX}"


def _child(options: argparse.Namespace, script: Path, side: str, path: Path) -> int:
    command = program_command("nodescope.cli.recorded", "--record", str(path.absolute()))
    command += ["--label", side, "--level", options.level, "--budget", str(options.budget)]
    if options.steps is not None:
        command += ["--steps", str(options.steps)]
    environment = {"PYTHONHASHSEED": "0", **os.environ, VARIABLE: side}
    child = subprocess.Popen([*command, str(script), *options.args], env=environment)
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            # The terminal has told the child as well; it ends its recording first.
            if child.poll() is None:
                child.send_signal(signal.SIGINT)


def _check(path: Path, name: str, status: int) -> None:
    if not _has_functions(path):
        if status:
            raise UsageError(f"{name} ended before it called a compiled function")
        raise UsageError(
            f"no compiled function ran in {name}, so there is nothing to compare",
            hint="decorate its training step with @ns.compile; if one is, a warning above tells "
            "why it ran as it was written",
        )


def _has_functions(path: Path) -> bool:
    with Recording.open(path) as recording:
        return bool(functions(recording))

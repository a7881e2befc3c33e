"""``nodescope compare``: an eager and a compiled run of a program, side by side.

The program is recorded twice, one run after the other, each in its own process: with the same
arguments, environment, hash seed and seeds, once eager and once with its compiled functions as
graphs. Before that, both forms are timed unobserved, in short alternating runs, and the times are
stored in the recording of the compiled run. During that run, each compiled call is checked against
its trace. The verdict is printed; both recordings are then served, and the page opens at the first
difference.

Two recordings of any runs are compared as well: where the second first differs from the first.

Invariant: only recorded data is compared; a program without compiled functions and sessions gets
one line that says so.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec

from nodescope import api
from nodescope.cli.open_and_serve import stay
from nodescope.cli.outermost_calls import Digests, agreed
from nodescope.cli.recorded_script import Unobserved
from nodescope.cli.server_process import Server
from nodescope.cli.timed_script import Timed
from nodescope.compare.result import judge
from nodescope.compare.timing import WARM_UP, Times, timings
from nodescope.compare.verdict import Verdict
from nodescope.console_output import say
from nodescope.engine.mode import VARIABLE
from nodescope.errors import RecordingError, UsageError
from nodescope.processes import program_command, refused
from nodescope.record.compiled_functions import cross_checked, functions
from nodescope.record.recording import Recording
from nodescope.record.rows import Timings
from nodescope.record.schema import SUFFIX

SIDES = ("eager", "compiled")
PAIRS: Final = 3
"""The number of timed, unobserved runs of each side."""

CALLS: Final = 300
SECONDS: Final = 12.0
"""Such a run is cut off after this many calls of each function, or this long."""

_INTERRUPTED = 130


def compare(options: argparse.Namespace) -> int:
    """Run both sides, or take two recordings, and serve them until Ctrl-C."""
    if options.what.suffix == SUFFIX:
        left, right = _given(options)
    else:
        left, right = _recorded(options)
    with Recording.open(left) as eager, Recording.open(right) as compiled:
        verdict, place = judge(eager, compiled)
    print(verdict.text, flush=True)
    if options.json is not None:
        _write(options.json, verdict)
    if options.exit or not place:
        return int(verdict.outcome not in ("equal", "rounding"))
    server = Server(options.port, (left.absolute(), right.absolute()))
    return stay(server, browser=not options.no_browser, place=place)


def _write(path: Path, verdict: Verdict) -> None:
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(verdict)) + b"\n")
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror}") from None


def _given(options: argparse.Namespace) -> tuple[Path, Path]:
    """The two given recordings; of an eager and a compiled one, the eager one first."""
    if len(options.args) != 1:
        raise UsageError(
            "two recordings are needed",
            hint="nodescope compare eager.nscope compiled.nscope, or nodescope compare program.py",
        )
    paths = options.what, Path(options.args[0])
    for path in paths:
        if not path.is_file():
            raise RecordingError(f"no recording {str(path)!r}")
    compiled = [_has_functions(path) for path in paths]
    return (paths[1], paths[0]) if compiled == [True, False] else paths


def _recorded(options: argparse.Namespace) -> tuple[Path, Path]:
    """Run the program on both sides; return the recordings."""
    script: Path = options.what
    if not script.is_file():
        raise UsageError(f"no script or recording {str(script)!r}")
    timings, given = (None, None) if options.no_timing else _timed(options, script)
    paths = tuple(_path(options, script, name) for name in SIDES)
    status = 0
    for side, path in zip(SIDES, paths, strict=True):
        say(f"{side} run of {script.name}, recorded to {path}")
        status = _child(options, script, side, path, timings, given)
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


def _timed(options: argparse.Namespace, script: Path) -> tuple[Timings | None, Unobserved | None]:
    """Time both forms unobserved in alternating runs, and keep digests of the calls' results.

    Returns None and None if a run fails, which is reported, or if no compiled function is called.
    """
    say(
        f"timing {script.name} unobserved: {2 * PAIRS} runs, eager and compiled in turns, each cut "
        f"off after {CALLS} calls or {SECONDS:g} s, without output (--no-timing leaves them out); "
        "two recorded runs follow"
    )
    measured: dict[str, list[Times]] = {side: [] for side in SIDES}
    digests: dict[str, list[Digests]] = {side: [] for side in SIDES}
    cuts: list[str] = []
    with tempfile.TemporaryDirectory(prefix="nodescope-") as folder:
        for turn in range(PAIRS):
            for side in SIDES:
                result = Path(folder) / f"{side}-{turn}.json"
                command = program_command("nodescope.cli.timed_script", "--result", str(result))
                command += ["--calls", str(CALLS), "--seconds", str(SECONDS)]
                status = _wait([*command, str(script), *options.args], side, quiet=True)
                if status == _INTERRUPTED:
                    raise KeyboardInterrupt
                try:
                    timed = msgspec.json.decode(result.read_bytes(), type=Timed)
                except (OSError, msgspec.MsgspecError):
                    say(f"not timed: the {side} run ended with status {status}")
                    return None, None
                if not timed.calls and not timed.cut:
                    return None, None  # no compiled function was called; reported later
                measured[side].append(timed.calls)
                digests[side].append(timed.digests)
                cuts += [timed.cut] if timed.cut else []
    functions = timings(measured[SIDES[0]], measured[SIDES[1]])
    if not functions:
        say(f"not timed: no compiled function was called more than {WARM_UP + 1} times")
    unobserved = Unobserved(*(agreed(digests[side]) for side in SIDES))
    return Timings(functions, PAIRS, WARM_UP, cuts[0] if cuts else ""), unobserved


def _wait(command: list[str], side: str, *, quiet: bool = False) -> int:
    """Run a child to its end; return its status."""
    environment = {"PYTHONHASHSEED": "0", **os.environ, VARIABLE: side}
    streams: dict[str, Any] = {}
    if quiet:
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    try:
        child = subprocess.Popen(command, env=environment, **streams)
    except OSError as error:
        reason = refused(error) or error.strerror
        raise UsageError(f"the {side} run cannot be started: {reason}") from None
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            # The terminal has signalled the child as well; it completes its recording first.
            if child.poll() is None:
                child.send_signal(signal.SIGINT)


def _child(
    options: argparse.Namespace, script: Path, side: str, path: Path, timings: Timings | None,
    given: Unobserved | None,
) -> int:  # fmt: skip
    command = program_command("nodescope.cli.recorded_script", "--record", str(path.absolute()))
    command += ["--label", side, "--level", options.level, "--budget", str(options.budget)]
    if options.steps is not None:
        command += ["--steps", str(options.steps)]
    with tempfile.TemporaryDirectory(prefix="nodescope-") as folder:
        for name, document in (("timings", timings), ("unobserved", given)):
            if document is not None:
                file = Path(folder) / f"{name}.json"
                file.write_bytes(msgspec.json.encode(document))
                command += [f"--{name}", str(file)]
        return _wait([*command, str(script), *options.args], side)


def _check(path: Path, name: str, status: int) -> None:
    if not _was_called(path):
        if status:
            raise UsageError(f"{name} ended before it called a compiled function")
        raise UsageError(
            f"no compiled function ran in {name}, and no session: nothing to compare",
            hint="decorate its training step with @ns.compile; if it is decorated already, a "
            "warning above says why it was not compiled",
        )


def _was_called(path: Path) -> bool:
    """Whether a compiled function ran, one that could not be compiled, or a session."""
    with Recording.open(path) as recording:
        return bool(functions(recording)) or cross_checked(recording) is not None


def _has_functions(path: Path) -> bool:
    with Recording.open(path) as recording:
        return bool(functions(recording))

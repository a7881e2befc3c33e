"""Runs a script unobserved and times its compiled functions; started by ``nodescope compare``.

    python -m nodescope.cli.timed_script --result FILE --calls N --seconds S script.py [args]

Nothing is recorded or observed: only the program itself is measured. Only the outermost call of a
compiled function is timed, from its call to its return.

Invariant: the run ends at its end, after N calls of each function, or after S seconds, whichever
comes first; the measurements up to that point are written.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np

from nodescope.cli.outermost_calls import after_each, digest
from nodescope.cli.script import Ending, load, run_script
from nodescope.console_output import say
from nodescope.errors import NodescopeError

SEED = 0


class Timed(msgspec.Struct, frozen=True):
    """The durations and results of calls.

    Attributes:
        calls: By function name: the nanoseconds of each call.
        cut: Why the run was cut off, or ``""``.
        digests: By function name: the digest of each call's result.
    """

    calls: dict[str, list[int]]
    cut: str = ""
    digests: dict[str, list[int]] = {}


class _Stopwatch:
    """Times calls, and ends the process when it has seen enough."""

    def __init__(self, result: Path, calls: int, seconds: float) -> None:
        self._result = result
        self._most = calls
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._times: dict[str, list[int]] = {}
        self._digests: dict[str, list[int]] = {}

    def took(self, name: str, took: int, result: Any, given: Any) -> None:
        """Add a call; see `outermost_calls.after_each`."""
        times = self._times.setdefault(name, [])
        if len(times) < self._most:
            times.append(took)
            self._digests.setdefault(name, []).append(digest(result))
        elif all(len(durations) >= self._most for durations in self._times.values()):
            self.end(f"after {self._most} calls")
        if time.monotonic() > self._until:
            self.end(f"after {self._seconds:g} s")

    def write(self, cut: str = "") -> None:
        fresh = self._result.with_suffix(".part")
        fresh.write_bytes(msgspec.json.encode(Timed(self._times, cut, self._digests)))
        fresh.replace(self._result)

    def end(self, cut: str) -> NoReturn:
        """End the process at once; none of the program's code runs any more."""
        self.write(cut)
        os._exit(0)


def main(arguments: list[str] | None = None) -> int:
    """Run and time; return the exit status."""
    options = _parser().parse_args(arguments)
    watch = _Stopwatch(options.result, options.calls, options.seconds)
    # The timer also cuts off a program that runs for long before its first call.
    late = threading.Timer(options.seconds, lambda: watch.end(f"after {options.seconds:g} s"))
    late.daemon = True
    try:
        code = load(options.script)
        if isinstance(code, Ending):
            return code.status
        random.seed(SEED)
        np.random.seed(SEED)
        after_each(watch.took)
        late.start()
        ending = run_script(code, options.script, options.args, lambda stream, line: None)
    except NodescopeError as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    late.cancel()
    watch.write()
    return ending.status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nodescope compare", allow_abbrev=False)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("script", type=Path)
    parser.add_argument("args", nargs=argparse.REMAINDER)
    return parser


if __name__ == "__main__":
    sys.exit(main())

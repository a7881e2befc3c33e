"""Shared helpers of tests that kill a program's processes."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from tests import forked
from tests.e2e.conftest import Debuggee

LIMIT_S: Final = 60.0
"""The longest time until the end after a kill: Ray's own limits plus nodescope's 10 s."""

READY_MS: Final = 180_000
"""The time within which a program on a cluster stops on the page, even on a busy machine."""


def number(program: Debuggee, what: str) -> int:
    """The number of a process that the program has printed."""
    return int(program.expect(rf"^{what} (\d+)").group(1))


def ended(program: Debuggee) -> int:
    """Wait for the program's end, which must come in time. Returns its status."""
    begun = time.monotonic()
    try:
        status = program.process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        program.process.send_signal(signal.SIGABRT)  # says where each thread is
        program.process.wait(LIMIT_S)
        raise
    assert time.monotonic() - begun < LIMIT_S
    return status


def server_of(program: Debuggee) -> int:
    """The server's process: the only child that is not Ray's."""
    for child in forked.children(program.process.pid):
        words = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"/ray/" not in words and b"ray::" not in words:
            return child
    raise AssertionError("no server")


def reached(program: Debuggee) -> int:
    """The last round whose result the program printed."""
    rounds = [int(m.group(1)) for line in program.lines if (m := re.match(r"reached (\d+)", line))]
    return max(rounds, default=0)


def end_of(pid: int) -> bool:
    """Wait for the end of a process. Returns whether it came in time."""
    deadline = time.monotonic() + LIMIT_S
    while (alive := _lives(pid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

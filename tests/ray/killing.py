"""What the tests of kills share: programs that are killed in parts, and how they end."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

from tests import forked
from tests.e2e.conftest import Debuggee

LIMIT_S: Final = 60.0
"""The longest that the end takes after a kill: Ray's own limits and nodescope's 10 s."""

READY_MS: Final = 180_000
"""Within which a program on a cluster is stopped on the page, on a busy machine, too."""


def number(program: Debuggee, what: str) -> int:
    """A process that the program has printed."""
    return int(program.expect(rf"^{what} (\d+)").group(1))


def ended(program: Debuggee) -> int:
    """The program's status; it ends in time."""
    begun = time.monotonic()
    status = program.process.wait(LIMIT_S)
    assert time.monotonic() - begun < LIMIT_S
    return status


def server_of(program: Debuggee) -> int:
    """The server's process: the one child that is none of Ray's."""
    for child in forked.children(program.process.pid):
        words = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"/ray/" not in words and b"ray::" not in words:
            return child
    raise AssertionError("no server")


def reached(program: Debuggee) -> int:
    """The last round whose result the program printed."""
    found = [int(m.group(1)) for line in program.lines if (m := re.match(r"reached (\d+)", line))]
    return max(found, default=0)


def end_of(pid: int) -> bool:
    """Wait for the end of a process; whether it ended in time."""
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

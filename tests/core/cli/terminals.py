"""Commands in a real terminal: a pseudo-terminal, driven from the user's side.

Invariant: every wait has a limit, nothing sleeps, and every command ends with the test.
"""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import termios
import time
from pathlib import Path

from tests import forked

WAIT_S = 60.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Typed:
    """A command under a terminal."""

    def __init__(
        self,
        folder: Path,
        *args: str,
        stdin: int | None = None,
        raw: bool = False,
        **variables: str,
    ) -> None:
        self._raw = raw  # Whether escape sequences are kept.
        self._person, terminal = pty.openpty()
        self._terminal = terminal
        self.modes = termios.tcgetattr(terminal)[:4]
        self.shown = ""
        self._seen = 0
        self.process = forked.Popen(
            [sys.executable, "-m", "nodescope", "run", *args],
            cwd=folder,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "200", **variables},
            stdin=terminal if stdin is None else stdin,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            # Make it the new session's controlling terminal, so that Ctrl-C reaches the program.
            preexec_fn=forked.own_terminal,
        )

    def __enter__(self) -> Typed:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT_S)
        os.close(self._person)
        os.close(self._terminal)

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._person, text.encode())

    def line(self, text: str) -> None:
        """Wait for the prompt, then enter a command."""
        self.expect("(nodescope) ")
        self.type(text + "\n")

    def expect(self, text: str) -> str:
        """Wait until ``text`` appears after the last expected text; return the output up to it."""
        deadline = time.monotonic() + WAIT_S
        while (result := self.shown.find(text, self._seen)) < 0:
            ready, _, _ = select.select([self._person], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{text!r} is not shown: {self.shown[self._seen :]!r}"
            self._take()
        before = self.shown[self._seen : result]
        self._seen = result + len(text)
        return before

    def _take(self) -> None:
        result = os.read(self._person, 65536).decode("utf-8", "replace")
        self.shown = (self.shown + result).replace("\r\n", "\n")
        if not self._raw:
            self.shown = _ESCAPES.sub("", self.shown)

    def end(self) -> int:
        """Wait for its end, and return its status."""
        status = self.process.wait(WAIT_S)
        while select.select([self._person], [], [], 0)[0]:
            self._take()
        return status

    def modes_now(self) -> list[int]:
        """The terminal's present settings."""
        return termios.tcgetattr(self._terminal)[:4]

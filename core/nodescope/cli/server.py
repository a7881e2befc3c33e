"""The server as a child process of a command.

Invariant: its token travels in its environment only. It ends when its parent ends, however that is,
and Ctrl-C in the terminal reaches the parent alone.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Final

import msgspec

from nodescope.errors import LinkError
from nodescope.link.address import TOKEN_VARIABLE, Address

START_S: Final = 20.0


class Ready(msgspec.Struct, frozen=True):
    """The line that the server prints once it can be reached."""

    url: str
    link: str


class RefusedToStart(LinkError):
    """The server did not start, and has said why on stderr."""


class Server:
    """A server of this command.

    Args:
        port: Where it listens, or the next free one.
        recordings: Files to open.

    Raises:
        LinkError: It does not start.
    """

    def __init__(self, port: int, recordings: tuple[Path, ...] = ()) -> None:
        token = secrets.token_urlsafe(32)
        command = [sys.executable, "-m", "nodescope_server", "--port", str(port)]
        command += ["--parent-pid", str(os.getpid())]
        for each in recordings:
            command += ["--open", str(each)]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, TOKEN_VARIABLE: token},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            ready = self._ready()
        except BaseException:
            self.stop()
            raise
        self.url = ready.url
        self.address = Address(ready.link, token)

    def _ready(self) -> Ready:
        assert self.process.stdout is not None
        # A server that hangs is ended, so that reading its line comes to an end, too.
        overdue = threading.Timer(START_S, self.process.kill)
        overdue.start()
        try:
            line = self.process.stdout.readline()
        finally:
            overdue.cancel()
        try:
            return msgspec.json.decode(line, type=Ready)
        except msgspec.MsgspecError:
            status = self.process.wait(START_S) if not line else None
            kind = RefusedToStart if status == 1 else LinkError
            raise kind(
                "the server did not start" + (f" (status {status})" if status is not None else ""),
                hint="'nodescope doctor' shows what is missing",
            ) from None

    def show(self, *, browser: bool) -> None:
        """Print the address, which opens once, and open it where there is a browser."""
        print(f"nodescope: open {self.url}", file=sys.stderr, flush=True)
        if browser and has_screen():
            try:
                webbrowser.open(self.url)
            except (webbrowser.Error, OSError):
                pass  # the address has been printed

    def wait(self) -> None:
        """Until it ends by itself; KeyboardInterrupt passes."""
        self.process.wait()

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def has_screen() -> bool:
    """Whether a browser window can be expected to open."""
    if os.environ.get("HEADLESS", "") not in ("", "0"):
        return False
    if sys.platform.startswith("linux"):
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return True

"""The server as a child process of a command.

Invariant: its token travels in its environment only. It ends when its parent ends, however that is,
and Ctrl-C in the terminal reaches the parent alone.
"""

from __future__ import annotations

import html
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import webbrowser
from pathlib import Path
from typing import Final

import msgspec

from nodescope.errors import LinkError
from nodescope.link.address import TOKEN_VARIABLE, Address
from nodescope.link.owner import can_tell
from nodescope.processes import own_command, own_environment
from nodescope.telling import show

# A busy machine takes its time to load a web server.
START_S: Final = 60.0
# It ends by itself within about two seconds, and tells the pages so; a hanging one is killed.
_END_S: Final = 4.0
_LAST_WORDS: Final = 8192


class Ready(msgspec.Struct, frozen=True):
    """The line that the server prints once it can be reached."""

    url: str
    personal: str
    link: str


class Server:
    """A server of this command.

    Args:
        port: Where it listens, or the next free one.
        recordings: Files to open.
        waits: Programs find it by themselves, for `ns.attach()`.

    Raises:
        LinkError: It does not start.
    """

    def __init__(
        self, port: int, recordings: tuple[Path, ...] = (), *, waits: bool = False
    ) -> None:
        token = secrets.token_urlsafe(32)
        command = own_command("nodescope_server", "--port", str(port))
        command += ["--parent-pid", str(os.getpid())]
        command += ["--folder", os.getcwd(), *(["--waits"] if waits else [])]
        for each in recordings:
            command += ["--open", str(each)]
        # What it says while it starts is shown, or becomes our one line; later it has no stderr
        # that could write into the program's own.
        self._overdue = False
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._words = tempfile.TemporaryFile("a+b")  # noqa: SIM115 (closed by `stop`)
        try:
            self.process = subprocess.Popen(
                command,
                env=own_environment(**{TOKEN_VARIABLE: token}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._words,
                start_new_session=True,
            )
        except OSError as error:
            self._words.close()
            raise LinkError(f"the server cannot be started: {error.strerror}") from None
        try:
            ready = self._ready()
        except BaseException:
            self.stop()
            raise
        self.url = ready.url
        self._personal = ready.personal
        self.address = Address(ready.link, token)

    def _ready(self) -> Ready:
        assert self.process.stdout is not None
        # A server that hangs is ended, so that reading its line comes to an end, too.
        overdue = threading.Timer(START_S, self._hangs)
        overdue.start()
        try:
            line = self.process.stdout.readline()
        finally:
            overdue.cancel()
        try:
            ready = msgspec.json.decode(line, type=Ready)
        except msgspec.MsgspecError:
            raise self._failure(line) from None
        for said in self._said():
            show(said, sys.stderr)
        return ready

    def _failure(self, line: bytes) -> LinkError:
        """Why it did not start, in one line."""
        if line:
            self.process.kill()
        status = self.process.wait()
        last = (self._said() or [""])[-1].strip()
        if status == 1 and last.startswith("nodescope: "):
            return LinkError(last.removeprefix("nodescope: "))
        if line:
            reason = f"it said {line[:80]!r}"
        elif status < 0:
            late = f"it said nothing for {START_S:g} s"
            reason = late if self._overdue else f"it was ended by {signal.Signals(-status).name}"
        else:
            reason = last or f"it ended with status {status}"
        return LinkError(
            f"the server did not start: {reason}", hint="'nodescope doctor' shows what is missing"
        )

    def _hangs(self) -> None:
        self._overdue = True
        self.process.kill()

    def _said(self) -> list[str]:
        self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, self._words.tell() - _LAST_WORDS))
        return self._words.read().decode(errors="replace").splitlines()

    def show(self, *, browser: bool, place: str = "") -> None:
        """Print the address, which opens once, and open it where there is a browser.

        Args:
            browser: Whether to open it.
            place: What of the page is shown, as in its address: ``#run=…``.
        """
        url = self.url + place
        print(f"nodescope: open {url}", file=sys.stderr, flush=True)
        if browser and has_screen():
            try:
                webbrowser.open(self._for_browser(place))
            except (webbrowser.Error, OSError):
                pass  # the address has been printed

    def _for_browser(self, place: str) -> str:
        """An address that others may see: the arguments of a process are no secret.

        Where the server can tell whose browser comes, the token in it is of no use to others; else
        the address leads to a file of this user's, which leads on.
        """
        if can_tell():
            return self._personal + place
        self._folder = tempfile.TemporaryDirectory(prefix="nodescope-")  # mode 0700
        page = Path(self._folder.name, "open.html")
        page.touch(mode=0o600)
        url = html.escape(self.url + place)
        page.write_text(f'<meta http-equiv="refresh" content="0; url={url}">\n')
        return page.as_uri()

    def wait(self) -> None:
        """Until it ends by itself; KeyboardInterrupt passes."""
        self.process.wait()

    def stop(self) -> None:
        """End it. One that was stopped (SIGSTOP) is woken for it, so that it ends at once, too."""
        self.process.terminate()
        if hasattr(signal, "SIGCONT"):
            self.process.send_signal(signal.SIGCONT)
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        for each in (self.process.stdout, self._words):
            try:
                if each is not None:
                    each.close()
            except OSError:
                pass  # the program has closed all that it found open


def has_screen() -> bool:
    """Whether a browser window can be expected to open."""
    if os.environ.get("HEADLESS", "") not in ("", "0"):
        return False
    if sys.platform.startswith("linux"):
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return True

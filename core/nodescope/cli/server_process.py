"""The server as a child process of a command.

Invariant: its token is passed in its environment only. The server ends when its parent ends,
however that happens, and Ctrl-C in the terminal reaches the parent alone. If the server dies, it is
restarted on the same port, unless it was told to end; nothing waits for the restart.
"""

from __future__ import annotations

import contextlib
import html
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import webbrowser
from collections import deque
from pathlib import Path
from typing import Final, TextIO
from urllib.parse import urlsplit

import msgspec

from nodescope.console_output import say, show
from nodescope.errors import LinkError, NodescopeError
from nodescope.link.address import TOKEN_VARIABLE, Address
from nodescope.link.owner import can_tell
from nodescope.processes import own_command, own_environment, refused

# The time limit for a start: a busy machine may take long to load a web server.
START_S: Final = 60.0
# The server ends within about two seconds and notifies the pages; after this time it is killed.
_END_S: Final = 4.0
_LAST_WORDS: Final = 8192
# A server that dies more often than this has a fault that another restart does not remove.
RESTARTS: Final = 3
RESTARTS_WITHIN_S: Final = 60.0


class Ready(msgspec.Struct, frozen=True):
    """The line that the server prints once it is reachable."""

    url: str
    personal: str
    link: str


class Server:
    """A server of this command.

    Args:
        port: The port to listen on, or the next free one.
        recordings: Files to open.
        waits: Whether programs can find it by themselves, for `ns.attach()`.
        later: Whether not to start it yet; `reach` does, from any thread.
        background: Whether it leaves the processors to the program that runs beside it.

    Raises:
        LinkError: The server does not start.
    """

    def __init__(
        self,
        port: int,
        recordings: tuple[Path, ...] = (),
        *,
        waits: bool = False,
        later: bool = False,
        background: bool = False,
    ) -> None:
        self._token = secrets.token_urlsafe(32)
        # Captured now: the program may change its environment and its working folder.
        self._environment = own_environment(**{TOKEN_VARIABLE: self._token})
        self._options = ["--parent-pid", str(os.getpid()), "--folder", os.getcwd()]
        self._options += ["--waits"] if waits else []
        self._recordings = recordings
        self._lock = threading.Lock()
        self._ending = False
        self._kept: threading.Thread | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._port, self._background = port, background
        if not later:
            self.reach()

    def reach(self) -> None:
        """Start the server if necessary, and wait until it is reachable.

        Raises:
            LinkError: The server does not start.
        """
        self._start(self._port)

    def _start(self, port: int, listener: socket.socket | None = None) -> None:
        """Start the process, which listens on a port or on a socket that already does.

        Raises:
            LinkError: The server does not start.
        """
        # Messages of the start are shown, or become a one-line error. The server's stderr is a
        # temporary file, so that it never writes into the program's output.
        self._overdue = False
        listens = ["--port", str(port)]
        if listener is not None:
            listens += ["--listener", str(listener.fileno())]
        opens = [text for path in self._recordings for text in ("--open", str(path))]
        arguments = (*listens, *self._options, *opens)
        command = own_command("nodescope_server", *arguments, background=self._background)
        with tempfile.TemporaryFile("a+b") as self._words:
            try:
                with self._lock:
                    if self._ending:
                        raise LinkError("the command is ending")
                    self.process = subprocess.Popen(
                        command,
                        env=self._environment,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=self._words,
                        start_new_session=True,
                        pass_fds=() if listener is None else (listener.fileno(),),
                    )
            except OSError as error:
                reason = refused(error) or error.strerror
                raise LinkError(f"the server cannot be started: {reason}") from None
            try:
                ready = self._ready()
            except BaseException:
                self._end()
                raise
            finally:
                # Leave no descriptor open that the program could close.
                assert self.process.stdout is not None
                self.process.stdout.close()
        self.url = ready.url
        self._personal = ready.personal
        self.address = Address(ready.link, self._token)

    def keep(self) -> None:
        """From now on, restart the server if it dies without having been told to end."""
        self._kept = threading.Thread(target=self._keep, name="nodescope-server", daemon=True)
        try:
            self._kept.start()
        except RuntimeError:  # the system refuses another thread
            self._kept = None

    def reopen(self, recording: Path) -> None:
        """Open a recording at each restart: its program is no longer there to announce it."""
        self._recordings = (*self._recordings, recording)

    def _keep(self) -> None:
        starts: deque[float] = deque(maxlen=RESTARTS)
        reason = ""
        while (status := self.process.wait()) != 0 and not self._ending:
            now = time.monotonic()
            if len(starts) == RESTARTS and now - starts[0] < RESTARTS_WITHIN_S:
                reason = f" ({reason})" if reason else ""
                say(
                    f"the server {_ended(status)}, {RESTARTS + 1} times by now, and is not "
                    f"restarted{reason}; the program continues without a page"
                )
                return
            starts.append(now)
            try:
                self._start_again()
            except OSError as error:
                say(f"the server {_ended(status)} and is not restarted: its port is no longer "
                    f"free ({error.strerror}); the program continues without a page")  # fmt: skip
                return
            except NodescopeError as error:
                reason = error.message
            else:
                reason = ""
                if not self._ending:
                    say(f"the server {_ended(status)} and was restarted; open {self.url}")

    def _start_again(self) -> None:
        """Start the server on its previous port.

        Raises:
            OSError: The port is taken.
            LinkError: The server does not start.
        """
        port = urlsplit(self.address.link).port or 0
        opened = None
        while opened != self._recordings and not self._ending:
            if opened is not None:
                self._end()  # the program ended meanwhile: its recording has to be opened as well
            opened = self._recordings
            # Listen at once, so that no other process takes the port and receives the browsers'
            # cookie, and so that connections wait instead of being refused.
            with listening(port) as listener:
                self._start(port, listener)

    def _ready(self) -> Ready:
        assert self.process.stdout is not None
        # The timer ends a hanging server, which also ends the reading of its line.
        overdue = threading.Timer(START_S, self._hangs)
        try:
            overdue.start()
        except RuntimeError as error:
            raise LinkError(f"the server cannot be started: {refused(error) or error}") from None
        try:
            line = self.process.stdout.readline()
        finally:
            overdue.cancel()
        try:
            ready = msgspec.json.decode(line, type=Ready)
        except msgspec.MsgspecError:
            raise self._failure(line) from None
        for message in self._said():
            show(message, sys.stderr)
        return ready

    def _failure(self, line: bytes) -> LinkError:
        """Why the server did not start, in one line."""
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
            reason = late if self._overdue else f"it {_ended(status)}"
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

    def show(self, *, browser: bool, place: str = "", stream: TextIO | None = None) -> None:
        """Print the address, which opens once, and open it if there is a browser.

        Args:
            browser: Whether to open the address.
            place: The part of the page to show, as in its address: ``#run=…``.
            stream: The stream to print to; by default, standard error.
        """
        url = self.url + place
        print(f"nodescope: open {url}", file=stream or sys.stderr, flush=True)
        if browser and has_screen():
            try:
                webbrowser.open(self._for_browser(place))
            except (webbrowser.Error, OSError):
                pass  # the address has been printed

    def _for_browser(self, place: str) -> str:
        """An address that other users may see: the arguments of a process are no secret.

        If the server can tell which user's browser connects, the token in the address is useless to
        others; otherwise the address leads to a file of this user, which redirects.
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
        """Wait until the server ends by itself for good; KeyboardInterrupt passes."""
        if self._kept is not None:
            self._kept.join()
        else:
            self.process.wait()

    def stop(self) -> None:
        """End the server. If it is stopped (SIGSTOP), wake it so that it ends at once as well."""
        with self._lock:
            self._ending = True
        if hasattr(self, "process"):
            self._end()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _end(self) -> None:
        self.process.terminate()
        if hasattr(signal, "SIGCONT"):
            self.process.send_signal(signal.SIGCONT)
        try:
            _wait(self.process, _END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def listening(port: int) -> socket.socket:
    """A socket that listens at exactly this port of this machine's own address.

    Raises:
        OSError: The port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # Connections of the server that has just ended do not block its port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    """As ``process.wait(seconds)``, which polls only 20 times a second; some systems notify.

    Raises:
        subprocess.TimeoutExpired: The process has not ended by then.
    """
    handle = -1
    if process.poll() is None:
        with contextlib.suppress(AttributeError, OSError):
            handle = os.pidfd_open(process.pid)
    if handle >= 0:
        try:
            ended = select.poll()
            ended.register(handle, select.POLLIN)
            if not ended.poll(seconds * 1000):
                raise subprocess.TimeoutExpired(process.args, seconds)
        finally:
            os.close(handle)
    process.wait(seconds)


def _ended(status: int) -> str:
    if status > 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def has_screen() -> bool:
    """Whether a browser window can be expected to open."""
    if os.environ.get("HEADLESS", "") not in ("", "0"):
        return False
    if sys.platform.startswith("linux"):
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return True

"""Commands in real processes, and the pages that watch them.

Invariant: every wait has a limit, nothing sleeps, and every process ends with the test.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import httpx

from nodescope import protocol
from nodescope.protocol import SessionInfo
from nodescope_server import wire
from tests import forked
from tests.server.support import WAIT_S, Live, Page
from tests.unencrypted import NO_CERTIFICATES

TIMEOUT_S = 60.0
# Anything faster did not wait for a timeout. On a busy machine, ten seconds may become twenty.
SOON_S = 30.0
RUN = ("run", "--port", "0", "--no-browser", "--exit")
UNSTOPPED = (*RUN, "--no-stop-on-entry")

TRAIN = """
import numpy as np
import nodescope as ns
w = ns.parameter(np.ones((3, 2)), name="w")
for batch in ns.steps([np.ones((4, 3))] * 3):
    with ns.name_scope("loss"):
        loss = np.mean(np.square(ns.tensor(batch) @ w))
    loss.backward()
print("trained", float(loss.numpy()))
"""


def nodescope(folder: Path, *args: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end in ``folder``; ``text`` becomes ``script.py`` there."""
    if text:
        (folder / "script.py").write_text(text)
    return forked.run(
        [sys.executable, "-m", "nodescope", *args],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=TIMEOUT_S,
    )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1", "HEADLESS": "1"}


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The only line on stderr, which is nodescope's and no traceback; stdout is empty."""
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("nodescope: ")
    return lines[0]


class Program:
    """A running command, with its output so far."""

    def __init__(self, folder: Path, *args: str, plain: bool = False, **variables: str) -> None:
        head = [sys.executable] if plain else [sys.executable, "-m", "nodescope"]
        self.process = forked.Popen(
            [*head, *args],
            cwd=folder,
            env={**environment(), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line)
                self._news.notify_all()

    def expect(self, text: str) -> str:
        """Wait for a line that contains ``text``, and return it."""
        with self._news:
            assert self._news.wait_for(
                lambda: any(text in line for line in self.lines), TIMEOUT_S
            ), self.lines
            return next(line for line in self.lines if text in line)

    def server_pid(self) -> int:
        """The process of the server, the only child of the command."""
        return forked.children(self.process.pid)[0]

    def end(self) -> int:
        """Wait for its end, and return its status."""
        status = self.process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


# Reports when the gate holds the main thread.
WATCH = """
import sys, threading
main = threading.get_ident()
def watch():
    while True:
        frame = sys._current_frames()[main]
        while frame is not None:
            if frame.f_code.co_qualname == "Gate._wait":
                print("held", flush=True)
                return
            frame = frame.f_back
threading.Thread(target=watch, daemon=True).start()
"""


class Server(Live):
    """A server in another process, opened by the address that it printed."""

    def __init__(self, url: str) -> None:
        answer = httpx.get(url, timeout=WAIT_S, verify=NO_CERTIFICATES)
        assert answer.status_code == 303, answer.text
        self.base = url[: url.index("/?")]
        self.port = int(self.base.rpartition(":")[2])
        name, value = next(iter(answer.cookies.items()))
        self.cookie = {"Cookie": f"{name}={value}"}


def entered(program: Program) -> Server:
    """A command's server, with a browser's cookie."""
    line = program.expect("open http://127.0.0.1:")
    match = re.search(r"http://\S+", line)
    assert match is not None
    return Server(match[0])


def run_id(page: Page) -> str:
    """The id of the first run that the server lists."""
    runs = page.hello.runs or page.wait(wire.RunsChanged, lambda item: bool(item.runs)).runs
    return str(runs[0].id)


def standing(page: Page, run: str) -> SessionInfo:
    """Follow a run until it is stopped. Returns the stop."""
    session = page.subscribe(run).session
    return session if session is not None and session.stop is not None else stopped(page)


def stopped(page: Page, reason: str = "") -> SessionInfo:
    """Wait for a stop, with a given reason if any: the last one may be announced several times."""
    return page.wait(
        wire.SessionChanged,
        lambda item: item.info.stop is not None and reason in ("", item.info.stop.reason),
    ).info


def control(page: Page, run: str, command: protocol.Command) -> None:
    """Send a command, and check that it is accepted."""
    assert page.ask(wire.Control(run, command)) == wire.Done()

"""A real browser, real programs, real servers."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests import forked
from tests.e2e import chromium, slowness
from tests.e2e.waiting import TIMEOUT_S

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "digits_mlp.py"
# A busy machine is slow to paint; what never comes fails all the same.
expect.set_options(timeout=TIMEOUT_S * 1000)
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


@dataclass
class Debuggee:
    """A `nodescope` command that runs, with what it printed so far."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    fresh: queue.Queue[str] = field(default_factory=queue.Queue)

    def expect(self, pattern: str, timeout_s: float = 2 * TIMEOUT_S) -> re.Match[str]:
        """Wait for a line of output that matches, and return the match."""
        expression = re.compile(pattern)
        for line in list(self.lines):
            if match := expression.search(line):
                return match
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self.fresh.get(timeout=left)
            except queue.Empty:
                break
            if match := expression.search(line):
                return match
        raise AssertionError(f"no line matches {pattern!r} in:\n{''.join(self.lines)}")

    @property
    def address(self) -> str:
        """The one-time address that was printed."""
        return self.expect(ADDRESS.pattern).group()

    def wait(self) -> int:
        """Wait for its end, and return its status."""
        return self.process.wait(2 * TIMEOUT_S)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)


def _follow(debuggee: Debuggee) -> None:
    assert debuggee.process.stdout is not None
    for line in debuggee.process.stdout:
        debuggee.lines.append(line)
        debuggee.fresh.put(line)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Debuggee]]:
    """`start("run", script, ...)` starts a nodescope command in an empty folder."""
    started: list[tuple[Debuggee, threading.Thread]] = []

    def _start(*args: str | Path) -> Debuggee:
        process = forked.Popen(
            [sys.executable, "-m", "nodescope", *map(str, args)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        debuggee = Debuggee(process)
        follower = threading.Thread(target=_follow, args=(debuggee,), daemon=True)
        follower.start()
        started.append((debuggee, follower))
        return debuggee

    yield _start
    for debuggee, follower in started:
        debuggee.process.terminate()
        try:
            debuggee.process.wait(10)
        except subprocess.TimeoutExpired:
            debuggee.process.kill()
            debuggee.process.wait(10)
        follower.join(10)  # it reads to the end; closing under its feet is an error in it
        assert debuggee.process.stdout is not None
        debuggee.process.stdout.close()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Closed before the next package's tests: Playwright keeps an event loop running."""
    path = chromium.find()
    assert path, "no Chromium: run `make browser`"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A fresh page, 1600 x 1000, dark. A script error on it fails the test."""
    slow = request.config.getoption("--slow-page")
    context = browser.new_context(
        viewport={"width": 1600, "height": 1000}, color_scheme="dark", accept_downloads=True
    )
    if slow > 1:
        slowness.delay_answers(context, slow)
        context.on("page", lambda page: slowness.throttle(page, slow))
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    yield opened
    context.close()
    assert not faults, faults

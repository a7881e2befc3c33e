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
from playwright.sync_api import Browser, Error, Page, ViewportSize, expect, sync_playwright

from tests import forked
from tests.e2e import chromium, slowness
from tests.e2e.waiting import TIMEOUT_S

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "digits_mlp.py"
# A busy machine paints slowly; this timeout only delays the failure of an expectation that never
# holds.
expect.set_options(timeout=TIMEOUT_S * 1000)
SIZE: ViewportSize = {"width": 1600, "height": 1000}
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


@dataclass
class Debuggee:
    """A running `nodescope` command, with its output so far."""

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
        """Wait for its end, and return its exit status."""
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
def start(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Debuggee]]:
    """`start("run", script, ...)` starts a nodescope command in an empty folder.

    The report of a failed test shows the output of its commands.
    """
    started: list[tuple[Debuggee, threading.Thread]] = []

    def _start(verb: str, *args: str | Path) -> Debuggee:
        # Any port: Chromium keeps connections by port, also those to servers of earlier tests.
        port = () if "--port" in args else ("--port", "0")
        process = forked.Popen(
            [sys.executable, "-m", "nodescope", verb, *port, *map(str, args)],
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

    failed = request.session.testsfailed
    yield _start
    for debuggee, follower in started:
        if request.session.testsfailed > failed:
            print(f"{debuggee.process.args} said:\n{''.join(debuggee.lines)}")
        debuggee.process.terminate()
        try:
            debuggee.process.wait(10)
        except subprocess.TimeoutExpired:
            debuggee.process.kill()
            debuggee.process.wait(10)
        # The follower reads to the end; closing the stream earlier would raise in it.
        follower.join(10)
        assert debuggee.process.stdout is not None
        debuggee.process.stdout.close()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The browser, closed before the next package's tests: Playwright runs an event loop."""
    path = chromium.find()
    assert path, "no Chromium: run `make browser`"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
        yield launched
        launched.close()


class Window:
    """A window of the browser, reused by the next test: a new one takes a second of CPU time.

    Invariant: the page from `cleared` is like a new window's: no cookies, no storage, no routes.
    """

    def __init__(self, browser: Browser, slow: float) -> None:
        self._browser = browser
        self._slow = slow
        self._page: Page | None = None

    def cleared(self) -> Page:
        """Its page, 1600 x 1000, dark and empty, without animations, with the mouse outside."""
        if self._page is not None and self._page.is_closed():
            self.close()
        if self._page is None:
            self._page = self._opened()
        page = self._page
        for other in page.context.pages:
            if other is not page:
                other.close()
        page.unroute_all()
        page.set_viewport_size(SIZE)
        page.mouse.move(-1, -1)
        page.context.clear_cookies()
        return page

    def leave(self) -> None:
        """Leave the page, so the server and the page forget each other."""
        page = self._page
        if page is None or page.is_closed():
            return
        if page.url.startswith("http"):
            page.evaluate("try { localStorage.clear() } catch {}")
        page.goto("about:blank")

    def close(self) -> None:
        """Close it; the next test gets a new one."""
        if self._page is not None:
            self._page.context.close()
        self._page = None

    def _opened(self) -> Page:
        context = self._browser.new_context(
            viewport=SIZE, color_scheme="dark", accept_downloads=True, reduced_motion="reduce"
        )
        if self._slow > 1:
            slowness.delay_answers(context, self._slow)
            context.on("page", lambda page: slowness.throttle(page, self._slow))
        return context.new_page()


@pytest.fixture(scope="package")
def window(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Window]:
    opened = Window(browser, request.config.getoption("--slow-page"))
    yield opened
    opened.close()


@pytest.fixture
def page(window: Window, request: pytest.FixtureRequest) -> Iterator[Page]:
    """An empty page, 1600 x 1000, dark. A script error on it fails the test.

    After a failed test, its window is closed. A test that adds scripts to the page uses
    `page_of_its_own` instead.
    """
    failed = request.session.testsfailed
    cleared = window.cleared()
    faults: list[str] = []

    def note(error: Error) -> None:
        faults.append(str(error))

    cleared.on("pageerror", note)
    yield cleared
    if request.session.testsfailed > failed:
        window.close()
    else:
        window.leave()
        cleared.remove_listener("pageerror", note)
    assert not faults, faults


@pytest.fixture
def page_of_its_own(page: Page, window: Window) -> Iterator[Page]:
    """A page whose window no other test uses."""
    yield page
    window.close()

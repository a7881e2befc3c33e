"""A server that dies during a run is restarted, unless it keeps dying or was asked to end."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from nodescope.cli import server_process
from nodescope.protocol import Continue
from nodescope_server import wire
from tests.integration.processes import (
    RUN,
    TIMEOUT_S,
    TRAIN,
    WATCH,
    Program,
    Server,
    control,
    entered,
    run_id,
    standing,
)
from tests.server.support import Live, Page

Start = Callable[..., Program]

# A program that runs until the file exists.
UNTIL = """
import os
import numpy as np
import nodescope as ns
x = ns.tensor(np.ones(3))
for step in ns.steps(range(10**9)):
    np.tanh(x)
    if step == 20:
        print("busy", flush=True)
    if os.path.exists("enough"):
        break
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    programs: list[Program] = []

    def begin(text: str, *options: str) -> Program:
        (tmp_path / "script.py").write_text(text)
        programs.append(Program(tmp_path, *options, "script.py"))
        return programs[-1]

    yield begin
    for program in programs:
        program.process.kill()
        program.end()


def again(live: Live) -> Page:
    """The same page, with its cookie, connected as soon as the server is back."""
    limit = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return Page(live)
        except (OSError, InvalidHandshake, ConnectionClosed):  # The old server was still ending.
            assert time.monotonic() < limit


def test_a_page_comes_back_to_the_stop_that_it_left(start: Start) -> None:
    program = start(TRAIN, *RUN)
    live = entered(program)
    page = Page(live)
    run = run_id(page)
    stop = standing(page, run).stop
    killed_at = time.monotonic()
    os.kill(program.server_pid(), signal.SIGKILL)
    page = again(live)
    assert run_id(page) == run
    session = page.subscribe(run).session or page.wait(wire.SessionChanged).info
    if session.phase != "stopped":
        # Then the program may have continued without a page.
        assert time.monotonic() - killed_at > 4.0
    else:
        # The page may connect before the terminal shows the message.
        program.expect("was ended by SIGKILL and was restarted; open http")
        assert session.stop == stop
        control(page, run, Continue())
    assert program.end() == 0
    assert "trained 9.0\n" in program.lines


@pytest.mark.deep
def test_a_restarted_server_follows_the_running_program(start: Start, tmp_path: Path) -> None:
    program = start(UNTIL, *RUN, "--no-stop-on-entry", "--level", "timing")
    live = entered(program)
    run = run_id(Page(live))
    program.expect("busy")
    os.kill(program.server_pid(), signal.SIGKILL)
    page = again(live)
    assert run_id(page) == run
    page.subscribe(run)
    page.wait(wire.Records)
    (tmp_path / "enough").touch()
    page.wait(wire.RunChanged, lambda item: item.run.state == "finished")
    assert program.end() == 0


def test_after_the_end_the_recording_is_opened(start: Start) -> None:
    program = start(TRAIN + "raise SystemExit(3)\n", *RUN[:-1], "--no-stop-on-entry")
    live = entered(program)
    run = run_id(Page(live))
    program.expect("The page stays open")
    os.kill(program.server_pid(), signal.SIGKILL)
    assert again(live).subscribe(run).seq > 0
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 3


def test_before_any_page_connected_the_new_address_lets_one_in(start: Start) -> None:
    program = start(WATCH + TRAIN, *RUN)
    program.expect("held")
    os.kill(program.server_pid(), signal.SIGKILL)
    address = re.search(r"http://\S+", program.expect("was restarted; open"))
    assert address is not None
    page = Page(Server(address[0]))
    run = run_id(page)
    assert standing(page, run).stop is not None
    control(page, run, Continue())
    assert program.end() == 0


# A server that announces that it is ready, and dies.
DYING = """
import os
ready = '{"url": "http://a", "personal": "http://b", "link": "ws://127.0.0.1:%s/link"}'
print(ready % (os.sys.argv[2] if os.sys.argv[2] != "0" else "47113"), flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_server_that_keeps_dying_is_given_up_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def command(module: str, *arguments: str, background: bool) -> list[str]:
        return [sys.executable, "-I", "-S", "-c", DYING, *arguments]

    monkeypatch.setattr(server_process, "own_command", command)
    monkeypatch.setattr(server_process, "listening", lambda port: socket.socket())
    started = server_process.Server(0)
    started.keep()
    started.wait()
    started.stop()
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == server_process.RESTARTS + 1
    assert all("was restarted; open http://a" in line for line in lines[:-1])
    assert lines[-1] == (
        "nodescope: the server was ended by SIGKILL, 4 times by now, and is not restarted; "
        "the program continues without a page"
    )


def test_a_server_that_is_ended_is_not_restarted(start: Start) -> None:
    program = start("", *RUN[:-1])
    entered(program)
    program.expect("The page stays open")
    os.kill(program.server_pid(), signal.SIGTERM)
    assert program.end() == 0
    assert not any("restarted" in line for line in program.lines)


def test_a_port_taken_by_another_process_is_not_shared(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    started = server_process.Server(0)
    taker = socket.socket()
    taker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    def taken(port: int) -> socket.socket:
        taker.bind(("127.0.0.1", port))
        taker.listen()
        return listening(port)

    listening = server_process.listening
    monkeypatch.setattr(server_process, "listening", taken)
    try:
        started.keep()
        started.process.kill()
        started.wait()
    finally:
        taker.close()
        started.stop()
    assert "is not restarted: its port is no longer free" in capfd.readouterr().err

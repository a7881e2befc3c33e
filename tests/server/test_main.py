"""The server's process: one line when ready; it ends on request, or when its parent is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import httpx
import msgspec
import pytest

from nodescope import protocol
from nodescope.record import queue_writer
from nodescope.record.files.connection_limits import OPENING_S
from nodescope.record.new_file import PAGE_BYTES
from nodescope_server import __main__ as entry
from nodescope_server import listen, wire
from nodescope_server.app import Config, create_app
from nodescope_server.runs.runs import Runs
from nodescope_server.sockets.endpoint import HELLO_DEADLINE_S
from tests.core.record.files.endless import endless_schema
from tests.core.record.runs import recorded
from tests.server.support import WAIT_S, Live, Page, Program, serving
from tests.unencrypted import NO_CERTIFICATES

BEARER = "a-secret-bearer"


@contextlib.contextmanager
def started(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "nodescope_server", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, entry.TOKEN_VARIABLE: BEARER, **environment},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=WAIT_S)


def ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read() if process.stderr else ""
    return msgspec.json.decode(line, type=dict[str, Any])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_the_server_prints_its_address_and_ends_on_a_signal(sign: signal.Signals) -> None:
    with started("--port", "0") as process:
        address = ready(process)
        port = address["port"]
        assert address["pid"] == process.pid
        assert address["link"] == f"ws://127.0.0.1:{port}/link"
        with httpx.Client(verify=NO_CERTIFICATES) as browser:
            assert address["url"].startswith(f"http://127.0.0.1:{port}/?token=")
            assert browser.get(address["url"]).status_code == 303
            assert browser.get(f"http://127.0.0.1:{port}/api/runs").json() == {"runs": []}
        live = Live.__new__(Live)
        live.port = port
        # The server does not wait for this connection.
        held_open = live.socket("/link", {"Authorization": f"Bearer {BEARER}"})
        start = time.monotonic()
        process.send_signal(sign)
        out, errors = process.communicate(timeout=WAIT_S)
        # The deadline for programs that say nothing.
        assert time.monotonic() - start < HELLO_DEADLINE_S
        assert process.returncode == 0
        assert out == ""  # Nothing after the first line.
        assert errors == ""
        held_open.close()


@pytest.mark.deep
def test_it_ends_while_it_opens_a_recording_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With small pages, the schema takes several.
    monkeypatch.setattr(queue_writer, "LARGE_PAGE_BYTES", PAGE_BYTES)
    path = endless_schema(recorded(tmp_path / "r.nscope"))
    with started("--port", "0", "--open", str(path)) as process:
        until = time.monotonic() + WAIT_S
        while str(path) not in open_files(process.pid):
            assert time.monotonic() < until
        process.terminate()
        start = time.monotonic()
        assert process.wait(WAIT_S) == 0
        assert time.monotonic() - start < OPENING_S


def open_files(pid: int) -> set[str]:
    result = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            result.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return result


def test_a_page_has_time_to_hear_that_the_server_ends() -> None:
    """Otherwise, a page that is just sending sees a reset connection, and reconnects."""
    with started("--port", "0") as process, httpx.Client(verify=NO_CERTIFICATES) as browser:
        address = ready(process)
        origin = f"http://127.0.0.1:{address['port']}"
        browser.get(address["url"])
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        with socket.create_connection(("127.0.0.1", address["port"]), timeout=WAIT_S) as page:
            page.sendall(
                f"GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1:{address['port']}\r\n"
                f"Origin: {origin}\r\nCookie: {cookie}\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                f"Sec-WebSocket-Key: {'A' * 22}==\r\n\r\n".encode()
            )
            frames = page.makefile("rb")
            assert frames.readline().startswith(b"HTTP/1.1 101 ")
            while frames.readline() != b"\r\n":
                pass
            hello = wire.Initialize("page", protocol.PROTOCOL_VERSION)
            page.sendall(masked(0x82, msgspec.msgpack.encode(wire.Request(1, hello))))
            while b"initialized" not in frame(frames)[1]:
                pass
            process.terminate()
            while (result := frame(frames))[0] != 0x88:
                pass
            assert result[1] == (1012).to_bytes(2, "big")
            # The server still reads what follows: the connection stays open until the page has
            # closed it.
            page.sendall(masked(0x82, b"x" * 100_000))
            assert frames.read() == b""
        assert process.wait(WAIT_S) == 0


def masked(opcode: int, payload: bytes) -> bytes:
    """A WebSocket frame of a browser; its mask is all zeros."""
    return bytes((opcode, 0x80 | 127)) + len(payload).to_bytes(8, "big") + bytes(4) + payload


def frame(stream: IO[bytes]) -> tuple[int, bytes]:
    """The next frame of the server: its first byte and its payload."""
    first, size = stream.read(2)
    if size >= 126:
        size = int.from_bytes(stream.read(2 if size == 126 else 8), "big")
    return first, stream.read(size)


@pytest.mark.parametrize("turns", range(5))
def test_a_connection_is_not_served_once_the_port_is_given_up(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """A browser would use it for the next server there, whose link this server does not know."""
    monkeypatch.setattr(Runs, "watched", True)
    monkeypatch.setattr(entry, "_LOOK_S", 0)
    connected: list[socket.socket] = []

    async def serve() -> None:
        listener = listen.bind(0)
        address = listener.getsockname()
        server = entry._Server(app := create_app(Config(port=address[1])))

        async def farewell() -> None:
            connected.append(socket.create_connection(address, timeout=WAIT_S))
            for _ in range(turns):  # of the event loop, which accepts a connection in several
                await asyncio.sleep(0)

        monkeypatch.setattr(app, "farewell", farewell)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0)
        server.should_exit = True
        while listener.fileno() >= 0:
            await asyncio.sleep(0)
        with contextlib.suppress(ConnectionError):
            connected[0].sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % address[1])
        await serving

    asyncio.run(serve())
    with connected[0] as browser, contextlib.suppress(ConnectionError):
        assert browser.recv(100) == b""


def test_the_server_ends_with_its_parent() -> None:
    waiting = [sys.executable, "-c", "input()"]
    with (
        subprocess.Popen(waiting, stdin=subprocess.PIPE) as parent,
        started("--port", "0", "--parent-pid", str(parent.pid)) as process,
    ):
        ready(process)
        parent.kill()
        assert process.wait(WAIT_S) == 0


def test_the_server_does_not_start_for_a_dead_parent() -> None:
    parent = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    with started("--port", "0", "--parent-pid", parent.stdout.strip()) as process:
        assert process.wait(WAIT_S) == 0


def test_a_port_that_is_taken_is_reported_and_the_next_is_used() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with started("--port", str(port)) as process:
            address = ready(process)
            assert port < address["port"] <= port + listen.MORE_PORTS
            process.terminate()
            _, errors = process.communicate(timeout=WAIT_S)
            assert errors == (f"nodescope: port {port} is taken, using {address['port']} instead\n")


def test_when_no_port_is_free_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(listen, "MORE_PORTS", 0)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert entry.main(["--port", str(port)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"nodescope: cannot listen on port {port}: ")
    assert error.count("\n") == 1


@pytest.mark.deep
def test_a_file_that_is_not_a_recording_is_refused_in_one_line(tmp_path: Path) -> None:
    junk = tmp_path / "junk.nscope"
    junk.write_bytes(b"not a recording" * 100)
    for path in (junk, tmp_path / "none.nscope"):
        with started("--port", "0", "--open", str(path)) as process:
            out, errors = process.communicate(timeout=WAIT_S)
            assert process.returncode == 1
            assert out == ""
            assert errors.startswith("nodescope: ")
            assert errors.count("\n") == 1
            assert path.name in errors


def test_a_recording_is_opened_and_read(tmp_path: Path) -> None:
    with serving() as live:
        program = Program(live, tmp_path)
        node = program.define()
        program.execute(node)
        program.log("hello")
        program.end(0)
    with started("--port", "0", "--open", program.run.recording) as process:
        port = ready(process)["port"]
        headers = {"Authorization": f"Bearer {BEARER}"}
        base = f"http://127.0.0.1:{port}/api/runs"
        (run,) = httpx.get(base, headers=headers, verify=NO_CERTIFICATES).json()["runs"]
        assert (run["id"], run["state"]) == (program.run.id, "recorded")
        value = httpx.get(
            f"{base}/{run['id']}/values/101", headers=headers, verify=NO_CERTIFICATES
        ).json()
        assert value["elements"] == [[0, 1, 2], [3, 4, 5]]


def test_a_server_that_was_killed_is_replaced_and_the_program_comes_back(tmp_path: Path) -> None:
    with serving() as live:
        program = Program(live, tmp_path)
        program.connect()
        node = program.define()
        program.execute(node)
        program.commit()
    assert program.socket is not None
    program.socket.close()
    program.execute(node)
    program.recorder.flush()
    with serving() as live:
        program.live = live
        program.connect()
        page = Page(live)
        shot = page.subscribe(program.run.id)
        assert shot.executions.count == 1
        assert shot.run.state == "live"
        page.close()
        program.end()
        program.socket.close()


@pytest.mark.parametrize(
    "slow",
    [
        # The body of a request does not arrive,
        b"POST /api/tokens HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 10\r\n\r\n{",
        # nor does the rest of a second request on the same connection.
        b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\nGET /api/hea",
    ],
)
def test_requests_that_never_end_are_dropped(monkeypatch: pytest.MonkeyPatch, slow: bytes) -> None:
    monkeypatch.setattr(listen, "REQUEST_S", 0.2)
    with serving() as live, socket.create_connection(("127.0.0.1", live.port)) as connection:
        connection.settimeout(WAIT_S)
        connection.sendall(slow % live.port)
        while connection.recv(65536):
            pass  # Until the server closes the connection.
        assert live.get("/api/health").status_code == 200


def test_connections_that_say_nothing_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "REQUEST_S", 0.2)
    with serving() as live:
        program = Program(live, tmp_path)
        program.connect()
        silent = [socket.create_connection(("127.0.0.1", live.port)) for _ in range(50)]
        for number, item in enumerate(silent):
            item.settimeout(WAIT_S)
            if number % 2:
                item.sendall(b"GET / HTTP/1.1\r\nHost: 127")  # The request does not continue.
        assert live.get("/api/health").status_code == 200
        for item in silent:
            assert item.recv(1) == b""
            item.close()
        # An admitted program stays connected, however long ago it connected.
        program.execute(program.define())
        program.commit()
        page = Page(live)
        assert page.subscribe(program.run.id).run.state == "live"
        page.close()
        program.end()
        program.socket.close()  # type: ignore[union-attr]
